"""Decisions of program and host become one where they are one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extractors.detect import detect
from extractors.host.cases_partial import SUMMED
from extractors.host.passes import PASSES
from extractors.host.samples import vary
from extractors.patterns.cases_merges import MERGE
from extractors.patterns.cases_rows_pointer import NORM_BACKWARD_POINTER
from extractors.told_merged import HELD, merged_decisions
from extractors.told_together import STAGES, told_together
from kb.evidence import AxisKind, Decision
from tests.extractors.rules.support import subject


def test_a_range_is_no_rounding_beside_one() -> None:
    """A clamp before a cast is told of rounding where nothing says how numbers are rounded."""
    clamp = Decision(axis="rounding_mode", value="saturating", pattern=HELD, lines=((3, 3),))
    nearest = replace(clamp, value="rn", pattern="approximate-division-transcendental")
    assert merged_decisions([clamp, nearest]) == (nearest,)
    assert merged_decisions([clamp]) == (clamp,)


@pytest.mark.parametrize(
    ("second", "count"),
    [
        pytest.param({"subject": "K"}, 1, id="one knows the subject"),
        pytest.param({"value": "fixed 4"}, 2, id="another value"),
        pytest.param({"lines": ((9, 9),)}, 1, id="decorator and launch set one hint"),
        pytest.param({"axis": "prefetch_depth", "lines": ((9, 9),)}, 2, id="another axis"),
    ],
)
def test_program_and_host_may_tell_of_one_decision(second: dict[str, object], count: int) -> None:
    first: dict[str, object] = {
        "axis": "occupancy",
        "value": "fixed 2",
        "pattern": "occupancy-hint",
        "lines": ((3, 3),),
        "kind": AxisKind.TUNING,
    }
    one, other = Decision(**first), Decision(**{**first, **second})  # type: ignore[arg-type]
    assert len(merged_decisions([one, other])) == count


@pytest.mark.parametrize(("value", "named"), [("constexpr", "n"), ("runtime scalar", None)])
def test_what_another_value_is_said_of_is_not_said_of_this(value: str, named: str | None) -> None:
    def told(value: str, name: str | None) -> Decision:
        return Decision(axis="specialization", value=value, pattern="p", lines=((3, 3),),
                        kind=AxisKind.DESIGN, subject=name)  # fmt: skip

    (one,) = merged_decisions([told("constexpr", None), told(value, "n")])
    assert (one.value, one.subject) == ("constexpr", named)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        pytest.param((), True, id="what the kernel wrote"),
        pytest.param(
            (("    n = x", "    x = x + 1\n    n = x"), ("parts.sum()", "x.sum()")),
            False,
            id="what the kernel read",
        ),
    ],
)
def test_host_adds_up_what_the_kernel_wrote(
    changes: tuple[tuple[str, str], ...], told: bool
) -> None:
    found = subject(vary(SUMMED, *changes))
    detection = detect(found.facts.kernel, found.host)
    assert any(d.axis == "reduction_split" for d in found.host.decisions)
    splits = [d for d in told_together(detection, found.host) if d.subject is not None]
    assert any(d.axis == "reduction_split" for d in splits) is told


_ROWS = """
import torch
import triton
import triton.language as tl


@triton.jit
def copy(x, out, down, far, n, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    tl.store(out + row * far + at, tl.load(x + row * down + at, mask=at < n), mask=at < n)


def host(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    copy[(x.shape[0],)](
        x,
        out,
        x.stride(0),
        out.stride(0),
        x.shape[1],
        T=1024,
    )
    return out
"""


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        pytest.param(
            (), [{8, 11, 15}, {8, 11, 15, 20, 21}], id="rows apart, elements side by side"
        ),
        pytest.param((("row * far", "row * n"), ("row * down", "row * n")), [{15}], id="no stride"),
    ],
)
def test_contract_of_strides_is_told_with_the_host(
    changes: tuple[tuple[str, str], ...], told: list[set[int]]
) -> None:
    found = subject(vary(_ROWS, *changes))
    decisions = told_together(detect(found.facts.kernel, found.host), found.host)
    lines = [{a for a, _ in d.lines} for d in decisions if d.axis == "layout_contract"]
    assert sorted(lines, key=len) == told


@pytest.mark.parametrize(
    ("source", "axis", "value", "by_host", "by_program"),
    [
        pytest.param(
            NORM_BACKWARD_POINTER,
            "kernel_boundaries",
            "separate backward kernel",
            PASSES,
            "backward-kernel-fission",
            id="cut",
        ),
        pytest.param(
            MERGE,
            "reduction_split",
            "partials merged by a second kernel",
            STAGES,
            "second-stage-over-the-pieces",
            id="stage",
        ),
    ],
)
def test_launches_belong_to_what_the_program_shows(
    source: str, axis: str, value: str, by_host: str, by_program: str
) -> None:
    found = subject(source)
    launches = Decision(
        axis=axis, value=value, pattern=by_host, lines=((90, 95),), kind=AxisKind.DESIGN
    )
    host = replace(found.host, decisions=(launches,))
    told = told_together(detect(found.facts.kernel, host), host)
    (one,) = [d for d in told if d.axis == axis]
    assert one.pattern == by_program
    assert (90, 95) in one.lines


_RELU_SQUARED = """import torch
import triton
import triton.language as tl

@triton.jit
def back(x, gy, gx, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.maximum(tl.load(x + at), 0.0)
    tl.store(gx + at, tl.load(gy + at) * 2 * v)

class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.relu(x) ** 2

    @staticmethod
    def backward(ctx, gy):
        gx = torch.empty_like(gy)
        back[(4,)](ctx.saved_tensors[0], gy, gx, 128)
        return gx
"""


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        pytest.param((), [(8, 9, 14, 20)], id="an activation of what was saved"),
        pytest.param(
            (("tl.load(gy + at) * 2 * v", "tl.sigmoid(tl.load(x + at)) * tl.load(gy + at)"),),
            [(9, 14, 20)],
            id="another one",
        ),
        pytest.param((("def backward", "def later"),), [], id="near miss: no backward pass"),
        pytest.param(
            (("tl.load(gy + at) * 2 * v", "v"),), [], id="near miss: no product with a gradient"
        ),
    ],
)
def test_activations_of_a_backward_pass_are_computed_again(
    changes: tuple[tuple[str, str], ...], told: list[tuple[int, ...]]
) -> None:
    found = subject(vary(_RELU_SQUARED, *changes))
    decisions = told_together(detect(found.facts.kernel, found.host), found.host)
    assert [tuple(a for a, _ in d.lines) for d in decisions if d.axis == "recompute"] == told


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        pytest.param((), [(9, 14, 20)], id="a decay between two elements"),
        pytest.param(
            (("tl.load(x + at + 1)", "tl.load(gy + at)"),), [], id="near miss: of two arrays"
        ),
    ],
)
def test_decays_of_a_backward_pass_are_computed_again(
    changes: tuple[tuple[str, str], ...], told: list[tuple[int, ...]]
) -> None:
    text = vary(
        _RELU_SQUARED,
        ("tl.maximum(tl.load(x + at), 0.0)", "tl.load(x + at + 1)"),
        ("tl.load(gy + at) * 2 * v", "tl.exp(tl.load(x + at) - v)"),
        *changes,
    )
    found = subject(text)
    decisions = told_together(detect(found.facts.kernel, found.host), found.host)
    again = [d for d in decisions if d.axis == "recompute"]
    assert [tuple(a for a, _ in d.lines) for d in again if d.value == "recompute decay"] == told


_GIVEN = """
class Given(torch.autograd.Function):
    @staticmethod
    def backward(ctx, g):
        return host(g)

def host(x, gy, w, stat):
    gx = torch.empty_like(x)
    sums = torch.empty((64, x.shape[1]), device=x.device)
    back[(64,)](gx, gy, x, w, stat, sums, x.shape[0], x.shape[1], x.stride(0), sums.stride(0), 16, 64)
    return gx, sums.sum(0)
"""  # noqa: E501


@pytest.mark.parametrize(
    ("changes", "host"),
    [
        pytest.param((), True, id="the host adds the parts up"),
        pytest.param(((", sums.sum(0)", ", sums"),), False, id="the host hands them on"),
    ],
)
def test_gradient_of_a_weight_is_told_with_where_its_parts_are_added_up(
    changes: tuple[tuple[str, str], ...], host: bool
) -> None:
    found = subject(NORM_BACKWARD_POINTER + "import torch\n" + vary(_GIVEN, *changes))
    rows = told_together(detect(found.facts.kernel, found.host), found.host)
    (gradient,) = [d for d in rows if d.axis == "parameter_gradient"]
    last = found.facts.kernel.entry.span.end_line
    assert any(line > last for line, _ in gradient.lines) is host
    parts = [d for d in rows if d.axis == "side_output"]
    assert not any(line in d.lines for d in parts for line in gradient.lines)


GATED = """
import torch
import cuda.tile as ct

@ct.kernel(occupancy=ct.ByTarget(sm_100=4))
def plus(x, out, T: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, index=(i,), tile=ct.load(x, index=(i,), shape=(T,)) + 1)

class Gate:
    def __init__(self, least=None):
        self.least = least

    def opens(self):
        return torch.cuda.get_device_capability() >= self.least

def entry(gate):
    return lambda one: one

@entry(Gate(least=(10, 0)))
def host(x):
    out = torch.empty_like(x)
    ct.launch(torch.cuda.current_stream(), (x.shape[0] // 64,), plus, (x, out, 64))
    return out
"""


def test_a_gate_of_a_registration_belongs_to_hints_by_target() -> None:
    found = subject(GATED)
    rows = told_together(detect(found.facts.kernel, found.host), found.host)
    (told,) = [d for d in rows if d.axis == "arch_dispatch"]
    assert told.value == "ByTarget"
    assert {(5, 5), (20, 20)} <= {*told.lines}
