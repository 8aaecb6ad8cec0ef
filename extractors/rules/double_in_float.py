"""Doubles are accepted and computed in 32 bits."""

from __future__ import annotations

import re
from collections.abc import Iterable

from extractors.patterns.cases import POINTER, vary
from extractors.rules.base import Case, NearMiss, Rule, Subject, Where
from kb.analysis.graph import CASTS, Node
from kb.evidence import Finding, Severity

MAX_TOLD = 4
"""Arrays that one finding names."""

_DOUBLES = re.compile(r"(?:^| or |\()([\w.]+)\.dtype == torch\.float64\b")
"""How the host says that it launches a kernel for arrays of doubles."""

_NAMED = frozenset({"f64", "f32"})

_THREADS = """
#include <torch/extension.h>
template <typename T> __global__ void grown(const T* x, T* out, float rate, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float v = x[i];
    out[i] = v * rate + 1.0f;
  }
}

void run(torch::Tensor x, torch::Tensor out, float rate, cudaStream_t stream) {
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "grown", [&] {
    grown<scalar_t><<<64, 256, 0, stream>>>(x.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), rate, x.numel());
  });
}
"""  # noqa: E501
_LANES = (
    POINTER
    + """
import torch
@triton.jit
def grown(x, out, rate, n, T: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n).to(tl.float32)
    tl.store(out + at, v * rate + 1.0, mask=at < n)

def run(x, rate):
    assert x.dtype in (torch.float16, torch.float32, torch.float64)
    out = torch.empty_like(x)
    grown[(triton.cdiv(x.numel(), 1024),)](x, out, rate, x.numel(), 1024)
    return out
"""
)
_EITHER = """
    if out.dtype.element_ty == tl.float64:
        v = w.to(tl.float64)
    else:
        v = w.to(tl.float32)"""


class DoubleInFloat(Rule):
    """The host launches a kernel for arrays of doubles, and the kernel narrows what it loads from
    one to 32 bits before it computes with it."""

    name = "double-in-float"
    dialects = ("cuda", "triton")
    matches = (Case(_THREADS, "`x`"), Case(_LANES, "`x`"))
    near_misses = (
        NearMiss(vary(_THREADS, ("float v", "T v")), why="computed in the type of the elements"),
        NearMiss(
            vary(_THREADS, ("_DISPATCH_FLOATING_TYPES(", "_DISPATCH_REDUCED_FLOATING_TYPES(")),
            why="never launched for doubles",
        ),
        NearMiss(
            vary(_THREADS, ("float v = x[i];", "double v = x[i];")), why="computed in 64 bits"
        ),
        NearMiss(vary(_LANES, (", torch.float64)", ")")), why="the host refuses doubles"),
        NearMiss(vary(_LANES, (".to(tl.float32)", "")), why="nothing is narrowed"),
        NearMiss(
            vary(_LANES, ("    v = tl", "    w = tl"), (".to(tl.float32)", _EITHER)),
            why="doubles are computed in 64 bits",
        ),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        facts = subject.facts
        stated = [
            (name, one)
            for one in subject.host.constraints
            for name in _DOUBLES.findall(one.expression)
        ]
        doubles = {name for name, _ in stated}
        casts = facts.graph.of(*CASTS) if doubles else []
        if any(facts.types.dtype(node.result) == "f64" for node in casts):
            return
        found: dict[str, list[Node]] = {}
        for node in casts:
            array = _narrowed(subject, node, doubles)
            if array and facts.stored_in(node.result):
                found.setdefault(array, []).append(node)
        if found:
            names = ", ".join(f"`{one}`" for one in list(found)[:MAX_TOLD])
            lines: list[Where] = [node for nodes in found.values() for node in nodes]
            lines += [one.lines for _, one in stated]
            yield self.finding(
                subject,
                f"the host launches the kernel for doubles, and what is loaded from {names} is "
                "narrowed to 32 bits before it is computed with: fp64 callers get single precision",
                "compute in the wider of the two types, or refuse doubles",
                lines,
                Severity.NOTE,
            )


def _narrowed(subject: Subject, node: Node, doubles: set[str]) -> str:
    """The array from which a number that is narrowed to 32 bits was loaded, if doubles may lie
    there."""
    facts = subject.facts
    if facts.types.dtype(node.result) != "f32":
        return ""
    if facts.kernel.dialect == "cuda" and node.result.startswith("."):
        return ""  # no variable of its own: beside a double the arithmetic would widen the other
    below = facts.graph.core(node.op.inputs[0])
    load = next((one for one in facts.loads if facts.graph.core(one.value) == below), None)
    dtype = facts.types.dtype(load.value) if load is not None else "f32"
    if load is None or dtype in _NAMED:
        return ""
    alike = {one.array for one in facts.accesses if facts.types.dtype(one.value) == dtype}
    return load.array or "" if alike & doubles else ""
