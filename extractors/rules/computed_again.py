"""A tile that the kernel holds already is computed, or loaded, once more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.facts import Facts
from kb.evidence import Finding, Lines, Severity
from kb.ir import Op, Region
from kb.ops import ATOMICS, PROMISES, READS, WRITES, Effect, OpKind, effect_of

_POINTER = (
    POINTER
    + """
@triton.jit
def scale(x, w, out, n, T: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = row * n + tl.arange(0, T)
    keep = (tl.arange(0, T) < n) & (at > 0)
    v = tl.load(x + at, mask=keep, other=0.0)
    g = tl.load(w + at, mask=keep, other=1.0)
    to = row * n + tl.arange(0, T)
    tl.store(out + to, v * g, mask=keep)
"""
)
_TILES = (
    TILE
    + """
@ct.kernel
def scale(x, out, n: int, T: Int):
    i = ct.bid(0)
    at = i * T + ct.arange(T, dtype=ct.int32)
    v = ct.gather(x, at)
    to = i * T + ct.arange(T, dtype=ct.int32)
    ct.scatter(out, to, v * 2.0)
"""
)
_FREE = frozenset({OpKind.CONST, OpKind.TUPLE, OpKind.DTYPE, OpKind.COPY})
_TURNED = frozenset({OpKind.ADD, OpKind.MUL, OpKind.AND, OpKind.OR})
"""Operations whose operands may change places."""

_FILLED = frozenset({OpKind.ZEROS, OpKind.FULL})
_OF_RUN = READS | {OpKind.BLOCK_ID}
_OPEN = frozenset({OpKind.CALL, OpKind.OPAQUE, OpKind.EXTERN_MATH})
MIN_STEPS = 2
"""Operations that a tile takes to be worth keeping."""


class ComputedAgain(Rule):
    """The same operations on the same values give a tile a second name where the first still
    stands, or the same elements of an array that the kernel does not write are loaded under the
    same mask twice; no branch or loop lies between that only one of them is in."""

    name = "computed-again"
    matches = (
        Case(_POINTER, "`to`"),
        Case(_TILES, "`to`"),
        Case(vary(_POINTER, ("tl.load(w + at, mask=keep, other=1.0)",
                             "tl.load(x + at, mask=keep, other=0.0)")), "`x` is loaded"),
    )  # fmt: skip
    near_misses = (
        NearMiss(
            vary(_POINTER, ("    to = row * n + tl.arange(0, T)", "    to = at + 0 * n")),
            why="made of the first",
        ),
        NearMiss(
            vary(_POINTER, ("to = row * n +", "to = row * n * 2 +")), why="another place"
        ),
        NearMiss(
            vary(_POINTER, ("    to = row * n", "    at += n\n    to = row * n")),
            why="the first name has moved on by then",
        ),
        NearMiss(
            vary(_TILES, ("    v = ct.gather", "    at += n\n    v = ct.gather")),
            why="the first name has moved on by then",
        ),
        NearMiss(
            vary(_POINTER, ("    to = row * n + tl.arange(0, T)\n",
                            "    to = tl.zeros([T], tl.float32) - 1.0\n"),
                 ("    v = tl.load(x", "    low = tl.zeros([T], tl.float32) - 1.0\n"
                  "    v = tl.load(x"), ("out + to, v * g", "out + at, v * g + to + low")),
            why="two numbers to begin with, which go their own ways",
        ),
        NearMiss(
            vary(_TILES, ("    to = i * T +", "    i = ct.bid(1)\n    to = i * T +")),
            why="the name of the block means another one by then",
        ),
        NearMiss(
            vary(_POINTER, ("    at = row * n + tl.arange(0, T)\n",
                            "    if n > 8:\n        at = row * n + tl.arange(0, T)\n"
                            "    else:\n        at = row + tl.arange(0, T)\n")),
            why="the first stands on one side of a branch alone",
        ),
        NearMiss(
            vary(_POINTER, ("    to = row * n + tl.arange(0, T)\n", "    to = at\n"),
                 ("    g = tl.load(w + at, mask=keep, other=1.0)\n",
                  "    tl.store(x + at, v * 2.0, mask=keep)\n"
                  "    g = tl.load(x + at, mask=keep, other=0.0)\n")),
            why="the kernel writes the array in between",
        ),
    )  # fmt: skip
    seen = (
        Seen("tilegym", "tilegym/suites/unsloth/cutile/fp8.py",
             "w8a8_block_fp8_matmul_kernel_ct", 163),
    )  # fmt: skip

    def find(self, subject: Subject) -> Iterable[Finding]:
        facts = subject.facts
        if facts.of_threads:
            return
        reader = _Reader(facts, _may_be_loaded(facts))
        pairs = list(reader.pairs(facts.kernel.entry.body, {}, {}))
        loads = [(first, op) for first, op in pairs if op.kind in READS]
        tiles = [(first, op) for first, op in pairs if op.kind not in READS]
        names = dict.fromkeys(f"`{_name(op)}`" for _, op in tiles)
        if tiles:
            yield self.finding(
                subject,
                f"{', '.join(names)}: computed again from the same values, although the kernel "
                "holds the same tile already",
                "use the first one again",
                [line for pair in tiles for line in map(_lines, pair)],
                Severity.NOTE,
            )
        arrays = dict.fromkeys(f"`{reader.arrays[op.result]}`" for _, op in loads)
        if loads:
            yield self.finding(
                subject,
                f"{', '.join(arrays)} is loaded twice from the same places, under the same mask, "
                "and the kernel does not write it",
                "use what was loaded first",
                [line for pair in loads for line in map(_lines, pair)],
                Severity.NOTE,
            )


def _lines(op: Op) -> Lines:
    return op.span.lines


def _name(op: Op) -> str:
    """The name that the source gives a value; empty where it gives none."""
    name = op.results[0].name.partition(".")[0] if len(op.results) == 1 else ""
    return "" if name.startswith("_") else name


def _may_be_loaded(facts: Facts) -> dict[str, str]:
    """Loads of arrays that the kernel does not write, by their value, with their arrays; none where
    blocks wait for each other."""
    if facts.graph.of(*ATOMICS) or facts.graph.of(OpKind.BARRIER):
        return {}
    written = {access.array for access in facts.stores}
    if None in written:
        return {}
    return {
        load.node.result: load.array
        for load in facts.loads
        if load.array is not None and load.array not in written and not load.is_atomic
    }


@dataclass(slots=True)
class _Reader:
    """Gives values numbers, the same to those that must be the same."""

    facts: Facts
    arrays: dict[str, str]
    steps: dict[object, int] = field(default_factory=dict)
    of_run: dict[object, bool] = field(default_factory=dict)
    """Whether a number rests on what only the run gives: other tiles hold constants."""
    stands: dict[str, str] = field(default_factory=dict)
    """The value that a name of the source stands for, as far as the program was gone through."""

    def pairs(
        self, region: Region, numbers: dict[str, object], known: dict[object, Op]
    ) -> Iterator[tuple[Op, Op]]:
        """Operations that give what an operation before them gave."""
        for op in region.ops:
            key = self._key(op, numbers)
            if key is None:
                numbers.update((result.name, ("own", result.name)) for result in op.results)
                for inner in op.regions:
                    self.stands |= {one.hint: one.name for one in inner.arguments}
                    own = {one.name: ("own", one.name) for one in inner.arguments}
                    yield from self.pairs(inner, numbers | own, dict(known))
                self.stands |= {result.hint: result.name for result in op.results}
                continue
            numbers[op.result] = key
            first = known.setdefault(key, op)
            again = first is not op and self._worth(op, key) and _lines(first) != _lines(op)
            if again and (op.kind in READS or self._still(first)):
                yield first, op
            self.stands[op.results[0].hint] = op.result

    def _still(self, first: Op) -> bool:
        """Whether the source has a name for a tile, and has given it to nothing else since."""
        name = first.results[0].hint
        return bool(_name(first)) and self.stands.get(name) == first.result

    def _key(self, op: Op, numbers: dict[str, object]) -> object | None:
        """What an operation gives, in terms of values before it; None for what may differ each
        time."""
        if len(op.results) != 1 or op.regions or op.kind in _OPEN | PROMISES | WRITES | ATOMICS:
            return None
        pure = effect_of(op.kind) is Effect.PURE
        if not pure and not (op.kind in READS and op.result in self.arrays):
            return None
        given = [(role, numbers.get(value, value)) for role, value in op.operands]
        if op.kind in _TURNED:
            given = sorted(((("side"), number) for _, number in given), key=repr)
        told = tuple(row for row in op.attributes if row[0] != "spelling")
        key = hash((op.kind, told, tuple(given)))
        steps = sum(self.steps.get(number, 0) for _, number in given)
        self.steps[key] = min(steps + (op.kind not in _FREE), 1000)
        self.of_run[key] = op.kind not in _FILLED and (
            op.kind in _OF_RUN or any(self._at_run(number) for _, number in given)
        )
        return key

    def _at_run(self, number: object) -> bool:
        """Whether a number is of the run: a value of its own, or an argument that is handed over at
        the launch."""
        if isinstance(number, str):
            return number in self.facts.kernel.entry.parameter_names and (
                number not in self.facts.constexprs
            )
        return isinstance(number, tuple) or self.of_run.get(number, False)

    def _worth(self, op: Op, key: object) -> bool:
        shape = self.facts.types.shape(op.result)
        wide = bool(shape) and any(extent != "1" for extent in shape)
        if op.kind in READS:
            return wide
        return wide and bool(_name(op)) and self.steps[key] >= MIN_STEPS and self.of_run[key]
