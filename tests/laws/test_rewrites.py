"""Laws of rewrites: what was asked for is seen and nothing else changes; the way back ends where
it began."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from generators.emit import emit_program
from generators.evaluate import run
from generators.rewrites.base import NotApplicable
from generators.rewrites.equality import same_program
from generators.rewrites.registry import apply, axes, rewrites
from kb.errors import UnknownName
from kb.ir import Kernel, alpha_digest
from kb.ir_text import parse, to_text
from kb.ir_verify import verify
from tests.laws.programs import FLASH, LOSS, MOMENTS, NORM, PLAIN, POINTER, SOFTMAX
from tests.laws.rewriting import again, choices, digest, kernels_of, on_axis

TEXTS = {
    "flash": FLASH, "plain": PLAIN, "pointer": POINTER, "softmax": SOFTMAX, "loss": LOSS,
    "norm": NORM, "moments": MOMENTS,
}  # fmt: skip

FLIPS = {
    "flash": {
        "denormal_mode": ("ftz", "ieee denormals"),
        "empty_row_handling": ("none (NaN)", "l init = 1"),
        "mask_application": ("additive -inf", "select -inf before max"),
        "mask_placement": (
            "single loop + iv>=bound branch (compiler splits)", "mask every iteration",
        ),
        "math_approximation": ("exp2 with log2e folded into the scale", "exp"),
        "operand_layout": (
            "transpose in the load view (order=)", "permute/transpose the loaded tile",
        ),
        "rounding_mode": ("approx", "rn"),
        "scale_placement": ("scale folded into (s*scale - m) FMA", "scale S before max"),
        "side_output": ("none", "log-sum-exp"),
        "softmax_scheme": ("divide once in the epilogue", "multiply by reciprocal"),
    },
    "plain": {
        "empty_row_handling": ("none (NaN)", "l init = 1"),
        "mask_application": ("select -inf before max", "additive -inf"),
        "mask_placement": (
            "mask every iteration", "single loop + iv>=bound branch (compiler splits)",
        ),
        "math_approximation": ("exp", "exp2 with log2e folded into the scale"),
        "operand_layout": (
            "permute/transpose the loaded tile", "transpose in the load view (order=)",
        ),
        "rounding_mode": ("rn", "approx"),
        "scale_placement": ("scale S before max", "scale folded into (s*scale - m) FMA"),
        "side_output": ("log-sum-exp", "none"),
        "softmax_scheme": ("multiply by reciprocal", "divide once in the epilogue"),
    },
    "pointer": {
        "cache_hint": ("none", "evict_first"),
        "empty_row_handling": ("none (NaN)", "l init = 1"),
        "index_width": ("int32", "int64 opt-in"),
        "mask_application": ("select -inf before max", "additive -inf"),
        "mask_placement": (
            "mask every iteration", "single loop + iv>=bound branch (compiler splits)",
        ),
        "math_approximation": ("exp", "exp2 with log2e folded into the scale"),
        "scale_placement": ("scale S before max", "scale folded into (s*scale - m) FMA"),
        "softmax_scheme": ("divide once in the epilogue", "multiply by reciprocal"),
    },
    "softmax": {
        "denormal_mode": ("ftz", "ieee denormals"),
        "division_strength": ("divide per element", "one reciprocal per row"),
        "index_width": ("int32", "int64 opt-in"),
    },
    "norm": {
        "cache_hint": ("none", "cache at L2 (.cg)"),
        "variance_algorithm": ("two-pass centred", "one-pass E[x^2]-E[x]^2"),
    },
    "moments": {
        "cache_hint": ("cache at L2 (.cg)", "none"),
        "variance_algorithm": ("one-pass E[x^2]-E[x]^2", "two-pass centred"),
    },
}  # fmt: skip
"""Value that a program has, and the other one, for every axis that a rewrite changes in it."""

RENAMED = {("plain", "side_output")}
"""Flips that drop parameters; the way back cannot know their names."""

ROWS = [
    pytest.param(program, axis, *values, id=f"{program}-{axis}")
    for program, flips in FLIPS.items()
    for axis, values in flips.items()
]


@cache
def program(name: str) -> Kernel:
    (kernel,) = kernels_of(TEXTS[name]).values()
    return kernel


@cache
def flipped(name: str, axis: str, value: str) -> Kernel:
    return apply(program(name), axis, value)


def test_every_rewrite_is_collected_and_tried() -> None:
    tried = {axis for flips in FLIPS.values() for axis in flips}
    assert set(axes()) == tried
    assert len(ROWS) == 34


@pytest.mark.parametrize(("name", "axis", "has", "wanted"), ROWS)
def test_the_value_is_seen_and_nothing_else_changes(
    name: str, axis: str, has: str, wanted: str
) -> None:
    before = program(name)
    after = flipped(name, axis, wanted)
    made = set(axes()[axis])
    assert on_axis(before, axis) & made == {has}
    assert on_axis(after, axis) & made == {wanted}
    along = {axis, *rewrites()[axis].follows}
    assert {c for c in choices(before) ^ choices(after) if c[0] not in along} == set()


@pytest.mark.parametrize(("name", "axis", "has", "wanted"), ROWS)
def test_the_program_stays_well_formed_and_survives_its_text(
    name: str, axis: str, has: str, wanted: str
) -> None:
    after = flipped(name, axis, wanted)
    assert verify(after) == ()
    assert parse(to_text(after)) == after
    read_again = again(after)
    assert digest(read_again) == digest(after)
    assert choices(read_again) == choices(after)


@pytest.mark.parametrize(("name", "axis", "has", "wanted"), ROWS)
def test_the_way_back_ends_where_it_began(name: str, axis: str, has: str, wanted: str) -> None:
    before = program(name)
    after = flipped(name, axis, wanted)
    back = apply(again(after), axis, has)
    if (name, axis) in RENAMED:
        assert choices(back) == choices(before)
        return
    assert digest(back) == digest(before)
    assert alpha_digest(apply(after, axis, has)) == alpha_digest(before)


@pytest.mark.parametrize(("name", "axis", "has", "wanted"), ROWS)
def test_a_value_that_is_there_changes_nothing(name: str, axis: str, has: str, wanted: str) -> None:
    assert apply(program(name), axis, has) is program(name)
    after = flipped(name, axis, wanted)
    assert apply(after, axis, wanted) is after


def test_a_stored_statistic_keeps_the_base_of_the_exponential() -> None:
    natural = program("plain")
    folded = apply(natural, "math_approximation", "exp2 with log2e folded into the scale")
    assert on_axis(natural, "statistic_encoding") == {"natural LSE"}
    assert on_axis(folded, "statistic_encoding") == {"base-2 LSE"}


def test_a_statistic_is_a_parameter_of_every_caller() -> None:
    stored = apply(program("flash"), "side_output", "log-sum-exp")
    names = [function.parameter_names for function in stored.functions]
    assert all(n[n.index("o") + 1] == "LSE" for n in names)
    assert all(n[n.index("tm") - 1] == "SEQ_LEN" for n in names)
    assert apply(stored, "side_output", "none").functions == program("flash").functions


@pytest.mark.parametrize("name", ["flash", "plain", "pointer"])
def test_all_axes_at_once_and_back(name: str) -> None:
    kernel = program(name)
    for axis, (_, wanted) in FLIPS[name].items():
        kernel = apply(kernel, axis, wanted)
        assert verify(kernel) == (), axis
    for axis, (_, wanted) in FLIPS[name].items():
        assert on_axis(kernel, axis) & set(axes()[axis]) == {wanted}, axis
    for axis, (has, _) in reversed(FLIPS[name].items()):
        kernel = apply(again(kernel), axis, has)
    assert choices(kernel) == choices(program(name))


@pytest.mark.parametrize(
    ("name", "axis", "value", "says"),
    [
        pytest.param("softmax", "math_approximation", "exp2 with log2e folded into the scale",
                     "not multiplied by one scale", id="no scale to fold into"),
        pytest.param("loss", "math_approximation", "exp2 with log2e folded into the scale",
                     "used for something else", id="the base matters"),
        pytest.param("softmax", "mask_placement", "mask every iteration", "no mask", id="no mask"),
        pytest.param("softmax", "rounding_mode", "rn", "no operation is given", id="no rounding"),
        pytest.param("pointer", "denormal_mode", "ftz", "no operation says", id="no flag"),
        pytest.param("plain", "index_width", "int64 opt-in", "counts tiles", id="tiles counted"),
        pytest.param("pointer", "side_output", "log-sum-exp", "stored by tiles", id="pointers"),
        pytest.param("flash", "cache_hint", "evict_first", "through pointers", id="no pointer"),
        pytest.param("norm", "empty_row_handling", "l init = 1", "no loop carries",
                     id="no softmax"),
        pytest.param("plain", "variance_algorithm", "two-pass centred", "no variance is",
                     id="no variance"),
        pytest.param("flash", "division_strength", "one reciprocal per row", "no tile is divided",
                     id="another axis"),
    ],
)  # fmt: skip
def test_a_refusal_says_where_what_and_what_next(
    name: str, axis: str, value: str, says: str
) -> None:
    with pytest.raises(NotApplicable, match=says) as caught:
        apply(program(name), axis, value)
    assert caught.value.where
    assert caught.value.hint


@pytest.mark.parametrize(
    ("axis", "value", "hint"),
    [
        pytest.param("mask_placment", "x", "mask_placement", id="axis with a slip"),
        pytest.param("math_approximation", "exp3", "'exp'", id="value with a slip"),
    ],
)
def test_unknown_words(axis: str, value: str, hint: str) -> None:
    with pytest.raises(UnknownName) as caught:
        apply(program("flash"), axis, value)
    assert hint in caught.value.hint


UNIT_AXIS = """
import cuda.tile as ct

@ct.kernel
def scores(q, k, s, TM: ct.Constant[int], TN: ct.Constant[int], W: ct.Constant[int]):
    i = ct.bid(0)
    a = ct.load(q, index=(i, 0), shape=(TM, W))
    b = ct.load(k, index=(i, 1, 0), shape=(TN, 1, W))
    b = ct.reshape(b, (TN, W))
    p = ct.mma(a, ct.transpose(b), acc=ct.full((TM, TN), 0.0, dtype=ct.float32))
    ct.store(s, index=(i, 0), tile=p)
"""


def test_a_view_turns_the_axes_of_the_tile_and_not_those_of_extent_one() -> None:
    (kernel,) = kernels_of(UNIT_AXIS).values()
    viewed = apply(kernel, "operand_layout", "transpose in the load view (order=)")
    text = emit_program(viewed, "cutile")
    assert "index=(0, 1, i), shape=(W, 1, TN), order=(2, 1, 0)" in text
    assert "reshape(b, (W, TN))" in text
    back = apply(viewed, "operand_layout", "permute/transpose the loaded tile")
    assert same_program(back, kernel)


def test_flags_that_base_e_could_not_keep_are_a_refusal() -> None:
    (kernel,) = kernels_of(FLASH.replace("high - top, flush_to_zero=True", "high - top")).values()
    assert kernel != program("flash")
    with pytest.raises(NotApplicable, match="flushes denormals"):
        apply(kernel, "math_approximation", "exp")


@pytest.mark.parametrize(
    ("name", "old", "new", "change", "says"),
    [
        pytest.param("pointer", 'tl.full([TM], float("-inf"), tl.float32)',
                     "tl.zeros([TM], tl.float32) + sm", ("empty_row_handling", "l init = 1"),
                     "a number that a row can have", id="a maximum that counts"),
        pytest.param("norm", "other=0.0)\n    tl", 'other=0.0, cache_modifier=".ca")\n    tl',
                     ("cache_hint", "none"), "hint of its own", id="one access with another hint"),
        pytest.param("moments", ', mask=inside, cache_modifier=".cg"', ", mask=inside",
                     ("cache_hint", "none"), "in some places", id="a hint on some accesses"),
        pytest.param("norm", "tl.where(inside, v - mean, 0.0)", "v - mean",
                     ("variance_algorithm", "one-pass E[x^2]-E[x]^2"), "outside the row",
                     id="lanes outside the row"),
        pytest.param("norm", "axis=0) / size\n    scale", "axis=0) / (size - 1)\n    scale",
                     ("variance_algorithm", "one-pass E[x^2]-E[x]^2"), "no variance is",
                     id="over one less than the count"),
    ],
)  # fmt: skip
def test_what_would_compute_something_else_is_a_refusal(
    name: str, old: str, new: str, change: tuple[str, str], says: str
) -> None:
    assert old in TEXTS[name]
    (kernel,) = kernels_of(TEXTS[name].replace(old, new)).values()
    with pytest.raises(NotApplicable, match=says):
        apply(kernel, *change)


GATED = """
import triton
import triton.language as tl

@triton.jit
def gated(x, gate, out, T, B: tl.constexpr, GATED: tl.constexpr):
    total = tl.zeros((B,), dtype=tl.float32)
    for i in range(tl.cdiv(T, B)):
        at = i * B + tl.arange(0, B)
        inside = at < T
        v = tl.load(x + at, mask=inside, other=1.0)
        if GATED:
            g = tl.load(gate + at, mask=inside, other=0.0)
            v = tl.exp(tl.where(inside, v, float("-inf")))
            total = total * 0.5 + g
        total += v
    tl.store(out + tl.arange(0, B), total)
"""


def test_a_mask_under_a_flag_that_governs_more_is_branched_around_alone() -> None:
    (kernel,) = kernels_of(GATED).values()
    branched = apply(kernel, "mask_placement", "single loop + iv>=bound branch (compiler splits)")
    for flag in (True, False):
        results = []
        for one in (kernel, branched):
            out = np.zeros(4, np.float32)
            x, gate = np.arange(10, dtype=np.float32) / 8, np.arange(10, dtype=np.float32)
            given = {"x": x, "gate": gate, "out": out, "T": 10, "B": 4, "GATED": flag}
            run(one, (1,), given)
            results.append(out)
        assert np.array_equal(*results)
        assert results[0].any()
    assert same_program(apply(branched, "mask_placement", "mask every iteration"), kernel)
