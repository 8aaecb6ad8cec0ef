"""Layer norm: the axes that a design point may set, their defaults, host contract and reference.

Defaults of the tuning axes are rules on the row length: 64 two-byte elements per thread, one warp
at least and sixteen at most. Source: tilelore survey of corpora, section 4.1, compiled for sm_90.
"""

from __future__ import annotations

from collections.abc import Mapping

from kb.dsl.model import Document
from kb.families.contract import (
    Check,
    Constant,
    HostContract,
    OutputContract,
    ScalarContract,
    TensorContract,
)
from kb.families.layernorm_program import (
    FLAGGED,
    LANEWISE,
    LATE,
    ONE_PASS,
    ONE_ROW,
    ONLINE,
    PER_ROW,
    PERSISTENT,
    RELOAD,
    RESIDENT,
    ROW_BLOCK,
    SAVED,
    TWO_PASS,
    WELFORD,
    layer_norm_program,
)
from kb.families.model import AxisRule, Choice, ChosenBy, FamilyProgram, choose, conflict
from kb.space import Binding, Scalar

FAMILY = "layernorm"
OPERATIONS = ("layernorm",)
REFERENCE = "torch.nn.functional.layer_norm"
MAX_RESIDENT = 65_536
"""Longest row kept as one tile, in elements: sixteen warps hold it in registers, no more."""

CHUNK = 4096
"""Columns of a chunk when nothing sets `tile_n`."""

RULES = (
    AxisRule(axis="norm_kind", values=("LayerNorm",), default="LayerNorm"),
    AxisRule(axis="work_decomposition", values=(ONE_ROW, ROW_BLOCK, PERSISTENT), default=ONE_ROW),
    AxisRule(axis="row_residency", values=(RESIDENT, RELOAD, ONLINE), default=RESIDENT),
    AxisRule(axis="variance_algorithm", values=(TWO_PASS, ONE_PASS, WELFORD), default=TWO_PASS),
    AxisRule(
        axis="affine",
        values=("weight and bias", "none", "weight", "weight + offset"),
        default="weight and bias",
    ),
    AxisRule(
        axis="eps_placement",
        values=("inside rsqrt", "after sqrt", "clamp"),
        default="inside rsqrt",
    ),
    AxisRule(axis="side_output", values=("none", SAVED), default="none"),
    AxisRule(axis="residual_fusion", values=("none",), default="none"),
    AxisRule(axis="accum_dtype", values=("fp32",), default="fp32"),
    AxisRule(axis="compute_dtype", values=("upcast to fp32",), default="upcast to fp32"),
    AxisRule(
        axis="io_cast",
        values=("upcast on load, downcast on store",),
        default="upcast on load, downcast on store",
    ),
    AxisRule(axis="tail_handling", values=(FLAGGED, "always mask"), default=FLAGGED),
    AxisRule(axis="division_strength", values=(PER_ROW, "divide per element"), default=PER_ROW),
    AxisRule(
        axis="reduction_placement",
        values=("reduce every iteration to a scalar/row", LANEWISE),
        default="reduce every iteration to a scalar/row",
    ),
    AxisRule(axis="load_order", values=(LATE, "all before compute"), default=LATE),
    AxisRule(
        axis="index_width",
        values=("int64 opt-in (IndexedWithInt64 / LONG_INDEXING)", "int32"),
        default="int64 opt-in (IndexedWithInt64 / LONG_INDEXING)",
    ),
    AxisRule(axis="specialization", values=("constexpr", "runtime scalar"), default="constexpr"),
    AxisRule(
        axis="cache_hint",
        values=("none", "evict_first", "evict_last", "streaming (.cs)"),
        default="none",
    ),
    AxisRule(axis="tile_n"),
    AxisRule(axis="rows_per_program"),
    AxisRule(axis="num_warps"),
    AxisRule(axis="prefetch_depth"),
    AxisRule(axis="occupancy"),
)


def build(document: Document, settings: Mapping[str, Scalar]) -> FamilyProgram:
    """The program and host of one design point.

    Raises InputError for a value that cannot be built, ConstraintViolated for values that exclude
    each other.
    """
    choices, notes = choose(RULES, document, settings)
    values = {choice.axis: choice.value for choice in choices}
    _agree(values)
    return FamilyProgram(
        family=FAMILY,
        kernel=layer_norm_program(values),
        host=_host(values),
        choices=tuple(choice for choice in choices if _acts(choice, values)),
        residuals=(*notes, *_unused(document)),
        reference=REFERENCE,
    )


def _agree(values: Mapping[str, Scalar]) -> None:
    resident = values["row_residency"] == RESIDENT
    variance = values["variance_algorithm"]
    if resident and variance == WELFORD:
        raise conflict(
            "a row in one tile has nothing to merge, so Welford's update does not apply.",
            f'Set row_residency="{ONLINE}", or variance_algorithm="{TWO_PASS}".',
        )
    if values["row_residency"] == ONLINE and variance == TWO_PASS:
        raise conflict(
            "a centred second moment needs the mean first, so one pass cannot give it.",
            f'Set variance_algorithm="{WELFORD}", or row_residency="{RELOAD}".',
        )
    if values["reduction_placement"] == LANEWISE and variance == WELFORD:
        raise conflict(
            "Welford's update merges whole chunks.",
            'Set reduction_placement="reduce every iteration to a scalar/row".',
        )
    if values["rows_per_program"] not in (None, 1) and values["work_decomposition"] == ONE_ROW:
        raise conflict(
            f"a program owns one row, not {values['rows_per_program']}.",
            f'Set work_decomposition="{ROW_BLOCK}" or "{PERSISTENT}".',
        )
    for axis in ("tile_n", "rows_per_program", "num_warps"):
        value = values[axis]
        if isinstance(value, int) and value & (value - 1):
            raise conflict(f"{axis} is {value}; it is a power of two.", "Take the next one.")


def _acts(choice: Choice, values: Mapping[str, Scalar]) -> bool:
    """False for an axis that this design point has no place for."""
    persistent = values["work_decomposition"] == PERSISTENT
    chunked = values["row_residency"] != RESIDENT
    needs = {
        "rows_per_program": values["work_decomposition"] != ONE_ROW,
        "occupancy": persistent,
        "prefetch_depth": persistent or chunked,
        "reduction_placement": chunked,
        "load_order": not chunked and not persistent,
    }
    ruled = choice.value is None and choice.by is ChosenBy.DEFAULT
    return needs.get(choice.axis, True) and not ruled


def _unused(document: Document) -> tuple[str, ...]:
    """Axes of the space that this program does not realise."""
    known = {rule.axis for rule in RULES}
    left = [axis.name for axis in document.space.axes if axis.name not in known]
    return (f"not decided by this program: {', '.join(left)}",) if left else ()


# -- the host


def _host(values: Mapping[str, Scalar]) -> HostContract:
    return HostContract(
        function="layer_norm",
        summary=(
            "Layer norm over the last axis: (x - mean) / sqrt(variance + eps), scaled and shifted."
        ),
        tensors=_tensors(values),
        scalars=(
            ScalarContract(
                name="eps", annotation="float", default=1e-5, has_default=True,
                meaning="added to the variance; positive",
            ),
        ),
        outputs=_outputs(values),
        constants=_constants(values),
        checks=_checks(values),
        grid=_grid(values),
        bindings=_bindings(values),
        options=(("num_warps", _warps(values)),),
        empty_when="n_rows == 0",
    )  # fmt: skip


def _tensors(values: Mapping[str, Scalar]) -> tuple[TensorContract, ...]:
    affine = str(values["affine"])
    x = TensorContract(name="x", rows=True, meaning="any leading axes; the last axis is normalised")
    found = [x]
    if affine != "none":
        found.append(TensorContract(name="weight", rank=1, shape=("x.shape[-1]",), meaning="scale"))
    if affine == "weight and bias":
        found.append(TensorContract(name="bias", rank=1, shape=("x.shape[-1]",), meaning="shift"))
    return tuple(found)


def _outputs(values: Mapping[str, Scalar]) -> tuple[OutputContract, ...]:
    y = OutputContract(name="y", like="x", dtype="x", meaning="shape and dtype of x")
    if values["side_output"] != SAVED:
        return (y,)
    rows = [
        OutputContract(
            name=name, shape=("n_rows",), dtype="float32", returned_leading_of="x", meaning=meaning
        )
        for name, meaning in (("mean", "mean of each row"), ("rstd", "1 / deviation of each row"))
    ]
    return (y, *rows)


def _constants(values: Mapping[str, Scalar]) -> tuple[Constant, ...]:
    tile = values["tile_n"]
    if values["row_residency"] == RESIDENT:
        block = str(tile) if tile is not None else "next_power_of_two(n_cols)"
    else:
        block = f"min(next_power_of_two(n_cols), {tile or CHUNK})"
    found = [
        Constant(name="n_rows", expression="x_rows.shape[0]"),
        Constant(name="n_cols", expression="x_rows.shape[1]"),
        Constant(name="block_n", expression=block),
    ]
    if values["work_decomposition"] != ONE_ROW:
        rows = values["rows_per_program"]
        rule = "min(4, max(1, 16384 // (block_n * x.element_size)))"
        found.append(Constant(name="rows", expression=str(rows) if rows is not None else rule))
    return tuple(found)


def _checks(values: Mapping[str, Scalar]) -> tuple[Check, ...]:
    found = [
        Check(expression="eps > 0", message="eps is {eps}; a constant row would divide by zero")
    ]
    if values["row_residency"] == RESIDENT:
        limit = values["tile_n"] or MAX_RESIDENT
        found.append(
            Check(
                expression=f"x.shape[-1] <= {limit}",
                message=f"a row of {{x.shape[-1]}} does not fit one tile of {limit}; "
                f"generate with row_residency set to {RELOAD!r}",
            )
        )
    if values["index_width"] == "int32":
        found.append(
            Check(
                expression="x_rows.shape[0] * max(x_rows.stride[0], x_rows.shape[1]) < 2147483648",
                message="x has too many elements for 32-bit offsets",
            )
        )
    return tuple(found)


def _grid(values: Mapping[str, Scalar]) -> tuple[str, ...]:
    match values["work_decomposition"]:
        case "one row per CTA":
            return ("n_rows",)
        case "persistent grid-stride":
            return (f"min(cdiv(n_rows, rows), device.sms * {values['occupancy'] or 4})",)
    return ("cdiv(n_rows, rows)",)


def _warps(values: Mapping[str, Scalar]) -> str:
    if values["num_warps"] is not None:
        return str(values["num_warps"])
    elements = "block_n" if values["work_decomposition"] == ONE_ROW else "rows * block_n"
    return f"min(16, max(1, {elements} * x.element_size // 4096))"


def _bindings(values: Mapping[str, Scalar]) -> tuple[Binding, ...]:
    matrix = values["work_decomposition"] != ONE_ROW
    staged = values["work_decomposition"] == PERSISTENT or values["row_residency"] != RESIDENT
    affine = str(values["affine"])
    saved = values["side_output"] == SAVED
    rows = (
        ("x_ptr", "x_rows", True),
        ("weight_ptr", "weight", affine != "none"),
        ("bias_ptr", "bias", affine == "weight and bias"),
        ("y_ptr", "y", True),
        ("mean_ptr", "mean", saved),
        ("rstd_ptr", "rstd", saved),
        ("x_row_stride", "x_rows.stride[0]", True),
        ("n_rows", "n_rows", matrix),
        ("n_cols", "n_cols", True),
        ("eps", "eps", True),
        ("BLOCK_N", "block_n", True),
        ("ROWS", "rows", matrix),
        ("EVEN_N", "n_cols % block_n == 0", values["tail_handling"] == FLAGGED),
        ("STAGES", str(values["prefetch_depth"] or 3), staged),
    )
    return tuple(Binding(parameter=name, expression=text) for name, text, there in rows if there)
