"""The tile program of a layer norm: rows of a matrix, their mean and variance, and what is written.

One writer for every design point. A program owns one row, a block of rows, or walks over blocks of
rows; a row is one tile or a loop over chunks. Statistics are sums in 32-bit floats.
Source: Ba, Kiros, Hinton, "Layer Normalization" (2016); chunks of Welford's statistics are merged
after Chan, Golub, LeVeque, "Updating Formulae and a Pairwise Algorithm" (1979).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kb.families.builder import Program, Tile
from kb.ir import Kernel
from kb.ops import OpKind
from kb.space import Scalar

ONE_ROW = "one row per CTA"
ROW_BLOCK = "one tile per CTA"
PERSISTENT = "persistent grid-stride"
RESIDENT = "single tile, row cached in registers"
RELOAD = "multi-pass reload (2/3 passes)"
ONLINE = "chunked online single pass"
TWO_PASS = "two-pass centred"
ONE_PASS = "one-pass E[x^2]-E[x]^2"
WELFORD = "Welford"
FLAGGED = "constexpr EVEN flag removes mask"
LANEWISE = "accumulate lane-wise, reduce once after the loop"
LATE = "weights after the statistics"
PER_ROW = "one reciprocal per row"
SAVED = "statistics saved for backward"
KERNEL = "layer_norm_kernel"
Tiles = tuple[Tile, ...]
Inside = Callable[[], Tile]
"""Gives the mask of the columns that exist, at the place where it is asked for."""

_SCALE = {"weight": 0.0, "weight and bias": 0.0, "weight + offset": 1.0}


def layer_norm_program(values: Mapping[str, Scalar]) -> Kernel:
    """The kernel of one design point; `values` has every axis of kb.families.layernorm."""
    return _Writer(values).kernel()


class _Writer:
    """Holds the parameters while the program is written."""

    def __init__(self, values: Mapping[str, Scalar]) -> None:
        self.values = values
        self.p = p = Program("triton")
        self.chunked = values["row_residency"] != RESIDENT
        self.persistent = values["work_decomposition"] == PERSISTENT
        self.matrix = values["work_decomposition"] != ONE_ROW
        self.flagged = values["tail_handling"] == FLAGGED
        self.saved = values["side_output"] == SAVED
        affine = values["affine"]
        self.x = p.parameter("x_ptr")
        self.weight = p.parameter("weight_ptr") if affine in _SCALE else None
        self.bias = p.parameter("bias_ptr") if affine == "weight and bias" else None
        self.y = p.parameter("y_ptr")
        self.mean_ptr = p.parameter("mean_ptr") if self.saved else None
        self.rstd_ptr = p.parameter("rstd_ptr") if self.saved else None
        self.x_stride = p.parameter("x_row_stride")
        self.n_rows = p.parameter("n_rows") if self.matrix else None
        fixed = values["specialization"] == "constexpr"
        self.n_cols = p.constexpr("n_cols") if fixed else p.parameter("n_cols")
        self.eps = p.parameter("eps")
        self.block = p.constexpr("BLOCK_N")
        self.rows = p.constexpr("ROWS") if self.matrix else None
        self.even = p.constexpr("EVEN_N") if self.flagged else None
        staged = self.chunked or self.persistent
        self.stages = p.constexpr("STAGES") if staged else None
        self.row: Tile = self.x
        self.in_rows: Tile | None = None
        self.cols: Tile = self.x
        self.in_cols: Inside = lambda: self.x
        self.x_row: Tile = self.x
        self.y_row: Tile = self.y
        self.affine: dict[str, Tile] = {}

    # -- which rows

    def kernel(self) -> Kernel:
        """The whole program."""
        p = self.p
        block = p.named("block" if self.matrix else "row", p.op(OpKind.BLOCK_ID, [("axis", 0)]))
        self._lanes()
        if not self.persistent:
            self._block(block)
        else:
            assert self.n_rows is not None
            assert self.rows is not None
            assert self.stages is not None
            if not self.chunked:
                self._load_affine()
            count = p.binary(OpKind.CEIL_DIV, self.n_rows, self.rows)
            step = p.op(OpKind.NUM_BLOCKS, [("axis", 0)])
            # The loop over rows is the pipelined one; a loop over chunks inside it is not.
            bounds = [("low", block), ("high", count), ("step", step), ("num_stages", self.stages)]
            p.loop("row_block", bounds, (), self._walked)
        return p.kernel(KERNEL)

    def _walked(self, block: Tile) -> tuple[Tile, ...]:
        self._block(block)
        return ()

    def _lanes(self) -> None:
        p = self.p
        self.cols = p.named("cols", p.lanes(self.block))
        if not self.chunked:
            self.in_cols = self._inside(self.cols)

    def _inside(self, cols: Tile) -> Inside:
        """Which columns exist: compared where needed when a flag can spare it, else once."""
        if self.flagged:
            return lambda: cols < self.n_cols
        mask = self.p.named("in_row", cols < self.n_cols)
        return lambda: mask

    def _block(self, block: Tile) -> None:
        """One row or one block of rows."""
        p = self.p
        self.row = block
        if self.matrix:
            assert self.rows is not None
            assert self.n_rows is not None
            self.row = p.named("rows", block * self.rows + p.lanes(self.rows))
            self.in_rows = p.named("in_rows", self.row < self.n_rows)
        wide = self.row
        if self.values["index_width"] != "int32":
            wide = p.named("row_offset", self.row.to("i64"))
        plural = "s" if self.matrix else ""
        self.x_row = p.named(f"x_row{plural}", self.x + self._down(wide * self.x_stride))
        self.y_row = p.named(f"y_row{plural}", self.y + self._down(wide * self.n_cols))
        if self.chunked:
            self._chunked()
        else:
            self._resident()

    # -- addresses

    def _down(self, per_row: Tile) -> Tile:
        return per_row.as_column if self.matrix else per_row

    def _across(self, per_column: Tile) -> Tile:
        return per_column.as_row if self.matrix else per_column

    def _mask(self, in_cols: Tile | None) -> Tile | None:
        """Lanes inside the matrix; without `in_cols` every column is."""
        rows = self._down(self.in_rows) if self.in_rows is not None else None
        cols = self._across(in_cols) if in_cols is not None else None
        if rows is None or cols is None:
            return cols if rows is None else rows
        return rows & cols

    def _edge(
        self, names: tuple[str, ...], in_cols: Inside, body: Callable[[Tile | None], Tiles]
    ) -> tuple[Tile, ...]:
        """`body` with the column mask, and without it where the flag says that the tile is full."""
        if self.even is None:
            given = body(in_cols())
            return tuple(self.p.named(n, v) for n, v in zip(names, given, strict=True))
        return self.p.either(self.even, names, lambda: body(None), lambda: body(in_cols()))

    def _load_x(self, cols: Tile, in_cols: Inside) -> Tile:
        hint = self.values["cache_hint"]
        eviction = str(hint) if hint in ("evict_first", "evict_last") else ""

        def body(inside: Tile | None) -> tuple[Tile, ...]:
            place = self.x_row + self._across(cols)
            return (self.p.load(place, self._mask(inside), eviction).to("f32"),)

        return self._edge(("x",), in_cols, body)[0]

    def _centred(self, x: Tile, mean: Tile, in_cols: Inside) -> Tile:
        """`x - mean`, zero outside the row: there x is zero and the mean is not."""
        p = self.p
        centred = p.named("centred", x - self._down(mean))

        def masked() -> tuple[Tile, ...]:
            return (p.select(self._across(in_cols()), centred, 0.0),)

        if self.even is None:
            return p.named("centred", masked()[0])
        uneven = p.op(OpKind.NOT, [("x", self.even)])
        return p.either(uneven, ("centred",), masked, lambda: (centred,))[0]

    # -- statistics

    def _sum(self, tile: Tile) -> Tile:
        return self.p.op(OpKind.REDUCE_SUM, [("x", tile), ("axis", 1 if self.matrix else 0)])

    def _resident(self) -> None:
        p = self.p
        if self.values["load_order"] != LATE and not self.affine:
            self._load_affine()
        x = self._load_x(self.cols, self.in_cols)
        mean = p.named("mean", self._sum(x) / self.n_cols)
        if self.values["variance_algorithm"] == TWO_PASS:
            centred = self._centred(x, mean, self.in_cols)
            variance = p.named("variance", self._sum(centred * centred) / self.n_cols)
        else:
            variance = self._from_squares(self._sum(x * x), mean)
            centred = p.named("centred", x - self._down(mean))
        scale = self._scale(variance)
        self._save(mean, scale)
        if not self.affine:
            self._load_affine()
        self._write(centred, scale, self.cols, self.in_cols)

    def _from_squares(self, squares: Tile, mean: Tile) -> Tile:
        """E[x²] - E[x]², which rounding may push below zero."""
        p = self.p
        difference = squares / self.n_cols - mean * mean
        return p.named("variance", p.binary(OpKind.MAXIMUM, difference, 0.0))

    def _scale(self, variance: Tile) -> Tile:
        """What a centred value is multiplied with or, element by element, divided by."""
        p = self.p
        place = self.values["eps_placement"]
        inverse = self.values["division_strength"] == PER_ROW
        if place == "after sqrt":
            deviation = p.op(OpKind.SQRT, [("x", variance)]) + self.eps
            if not inverse:
                return p.named("std", deviation)
            return p.named("rstd", p.binary(OpKind.DIV, p.value(1.0), p.named("std", deviation)))
        if place == "clamp":
            inside = p.binary(OpKind.MAXIMUM, variance, self.eps)
        else:
            inside = variance + self.eps
        if inverse:
            return p.named("rstd", p.op(OpKind.RSQRT, [("x", inside)]))
        return p.named("std", p.op(OpKind.SQRT, [("x", inside)]))

    def _save(self, mean: Tile, scale: Tile) -> None:
        """Statistics for the backward pass, one of each per row."""
        if self.mean_ptr is None or self.rstd_ptr is None:
            return
        p = self.p
        rstd = scale
        if self.values["division_strength"] != PER_ROW:
            rstd = p.named("rstd", p.binary(OpKind.DIV, p.value(1.0), scale))
        p.store(self.mean_ptr + self.row, mean, self.in_rows)
        p.store(self.rstd_ptr + self.row, rstd, self.in_rows)

    # -- what is written

    def _load_affine(self) -> None:
        self.affine = self._affine(self.cols, self.in_cols)

    def _affine(self, cols: Tile, in_cols: Inside) -> dict[str, Tile]:
        """Weight and bias of the columns, in 32-bit floats."""
        given = {"weight": self.weight, "bias": self.bias}
        held = {name: pointer for name, pointer in given.items() if pointer is not None}
        if not held:
            return {}

        def body(inside: Tile | None) -> tuple[Tile, ...]:
            if inside is not None and self.flagged and len(held) > 1:
                inside = self.p.named("in_row", inside)
            return tuple(self.p.load(ptr + cols, inside).to("f32") for ptr in held.values())

        return dict(zip(held, self._edge(tuple(held), in_cols, body), strict=True))

    def _write(self, centred: Tile, scale: Tile, cols: Tile, in_cols: Inside) -> None:
        p = self.p
        by = self._down(scale)
        inverse = self.values["division_strength"] == PER_ROW
        y = centred * by if inverse else centred / by
        if "weight" in self.affine:
            weight = self.affine["weight"]
            if self.values["affine"] == "weight + offset":
                weight = weight + _SCALE["weight + offset"]
            y = y * self._across(weight)
        if "bias" in self.affine:
            y = y + self._across(self.affine["bias"])
        y = p.named("y", y)
        cache = ".cs" if self.values["cache_hint"] == "streaming (.cs)" else ""

        def body(inside: Tile | None) -> tuple[Tile, ...]:
            place = self.y_row + self._across(cols)
            stored = p.cast(y, p.element_type(self.y))
            p.store(place, stored, self._mask(inside), cache)
            return ()

        self._edge((), in_cols, body)

    # -- a row in chunks

    def _sweep(
        self,
        carried: tuple[tuple[str, Tile], ...],
        step: Callable[[Tile, Tile, Inside, tuple[Tile, ...]], tuple[Tile, ...]],
    ) -> tuple[Tile, ...]:
        """A loop over the chunks of the row; `step` gets first column, columns, mask, carried."""
        p = self.p

        def body(first: Tile, *held: Tile) -> tuple[Tile, ...]:
            cols = p.named("at", first + self.cols)
            return step(first, cols, self._inside(cols), held)

        bounds: list[tuple[str, Tile | float]] = [
            ("low", 0),
            ("high", self.n_cols),
            ("step", self.block),
        ]
        if not self.persistent and self.stages is not None:
            bounds.append(("num_stages", self.stages))
        return p.loop("first", bounds, carried, body)

    def _zero(self) -> Tile:
        """A running sum: one lane per element of a chunk, or one per row."""
        lanewise = self.values["reduction_placement"] == LANEWISE
        if lanewise:
            shape = (self.rows, self.block) if self.rows is not None else (self.block,)
            return self.p.zeros(shape)
        return self.p.zeros((self.rows,)) if self.rows is not None else self.p.value(0.0)

    def _partial(self, tile: Tile) -> Tile:
        lanewise = self.values["reduction_placement"] == LANEWISE
        return tile if lanewise else self._sum(tile)

    def _total(self, partial: Tile) -> Tile:
        lanewise = self.values["reduction_placement"] == LANEWISE
        return self._sum(partial) if lanewise else partial

    def _chunked(self) -> None:
        p = self.p
        how = {TWO_PASS: self._centred_twice, ONE_PASS: self._squares, WELFORD: self._welford}
        mean, variance = how[str(self.values["variance_algorithm"])]()
        scale = self._scale(variance)
        self._save(mean, scale)

        def step(first: Tile, cols: Tile, in_cols: Inside, held: Tiles) -> Tiles:
            x = self._load_x(cols, in_cols)
            self.affine = self._affine(cols, in_cols)
            centred = p.named("centred", x - self._down(mean))
            self._write(centred, scale, cols, in_cols)
            return held

        self._sweep((), step)

    def _centred_twice(self) -> tuple[Tile, Tile]:
        """The mean in one sweep, the centred second moment in another."""
        p = self.p

        def add(first: Tile, cols: Tile, in_cols: Inside, held: Tiles) -> Tiles:
            return (p.named("total", held[0] + self._partial(self._load_x(cols, in_cols))),)

        (total,) = self._sweep((("total", p.named("total", self._zero())),), add)
        mean = p.named("mean", self._total(total) / self.n_cols)

        def spread(first: Tile, cols: Tile, in_cols: Inside, held: Tiles) -> Tiles:
            centred = self._centred(self._load_x(cols, in_cols), mean, in_cols)
            return (p.named("moment", held[0] + self._partial(centred * centred)),)

        (moment,) = self._sweep((("moment", p.named("moment", self._zero())),), spread)
        return mean, p.named("variance", self._total(moment) / self.n_cols)

    def _squares(self) -> tuple[Tile, Tile]:
        """Sum and sum of squares in one sweep."""
        p = self.p

        def add(first: Tile, cols: Tile, in_cols: Inside, held: Tiles) -> Tiles:
            x = self._load_x(cols, in_cols)
            total = p.named("total", held[0] + self._partial(x))
            return total, p.named("squares", held[1] + self._partial(x * x))

        zeros = tuple((name, p.named(name, self._zero())) for name in ("total", "squares"))
        total, squares = self._sweep(zeros, add)
        mean = p.named("mean", self._total(total) / self.n_cols)
        return mean, self._from_squares(self._total(squares), mean)

    def _welford(self) -> tuple[Tile, Tile]:
        """Mean and second moment of what was seen, merged with those of the next chunk."""
        p = self.p

        def merge(first: Tile, cols: Tile, in_cols: Inside, held: Tiles) -> Tiles:
            mean, moment = held
            x = self._load_x(cols, in_cols)
            count = p.binary(OpKind.MINIMUM, p.binary(OpKind.SUB, self.n_cols, first), self.block)
            count = p.named("count", count)
            part = p.named("part_mean", self._sum(x) / count)
            centred = self._centred(x, part, in_cols)
            delta = p.named("delta", part - mean)
            share = p.named("share", count / (first + count))
            grown = moment + self._sum(centred * centred) + delta * delta * (share * first)
            moment = p.named("moment", grown)
            return p.named("mean", mean + delta * share), moment

        zeros = tuple((name, p.named(name, self._zero())) for name in ("mean", "moment"))
        mean, moment = self._sweep(zeros, merge)
        return mean, p.named("variance", moment / self.n_cols)
