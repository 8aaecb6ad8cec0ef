"""Partial sums are kept in less than 32 bits over many terms."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.accesses import Access
from kb.analysis.graph import CASTS, Graph, Node
from kb.analysis.loops import Loop, Role
from kb.evidence import Finding
from kb.ops import OpKind

_NARROW = frozenset({"f16", "bf16", "f8e4m3", "f8e5m2"})
_HALF = re.compile(r"\b([\w.]+)\.dtype == torch\.(?:float16|bfloat16)\b")
"""How the host says that it launches a kernel for arrays of 16-bit floats."""

_BRANCHES = (OpKind.IF, OpKind.IF_EXPRESSION)
_ROWS = (
    POINTER
    + """
@triton.jit
def rows(x, out, n, T: tl.constexpr):
    total = tl.zeros((T,), dtype=tl.float32)
    for first in range(0, n, T):
        at = first + tl.arange(0, T)
        total += tl.load(x + at, mask=at < n, other=0.0)
    tl.store(out, tl.sum(total, axis=0))
"""
)
_GUARDED = vary(
    PRODUCT_POINTER,
    ("dtype=tl.float32", "dtype=tl.float16"),
    (
        "acc += tl.dot(x, y)",
        "if tl.max(x) > 0.0:\n            acc = tl.dot(x, y, acc, out_dtype=tl.float16)",
    ),
)
_THREADS = """
#include <torch/extension.h>
template <typename T> __global__ void rows(const T* x, T* out, int n) {
  T total = 0;
  for (int i = 0; i < n; ++i) {
    total += x[(size_t)blockIdx.x * n + i];
  }
  out[blockIdx.x] = total;
}

void run(torch::Tensor x, torch::Tensor out, cudaStream_t stream) {
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "rows", [&] {
    rows<scalar_t><<<x.size(0), 1, 0, stream>>>(x.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), x.size(1));
  });
}
"""  # noqa: E501
_ATOMICS = vary(
    _THREADS,
    ("  T total = 0;\n", ""),
    ("total += x[(size_t)blockIdx.x * n + i]", "atomicAdd(out + i, x[(size_t)blockIdx.x * n + i])"),
    ("  out[blockIdx.x] = total;\n", ""),
)


class NarrowAccumulator(Rule):
    """A loop adds into a tile of 16 or 8 bits: every step rounds, and the error grows with the
    number of steps. Threads do so where the sum has the type of the elements, in registers or in
    memory, and the host launches the kernel for 16-bit floats."""

    name = "narrow-accumulator"
    dialects = ("cuda", "cutile", "triton")
    matches = (
        Case(vary(PRODUCT, ("dtype=ct.float32", "dtype=ct.float16")), "f16"),
        Case(vary(_ROWS, ("tl.float32", "tl.bfloat16"), ("+= tl", "+= 1 * tl")), "bf16"),
        Case(
            vary(
                PRODUCT_POINTER,
                ("dtype=tl.float32", "dtype=tl.float16"),
                ("acc += tl.dot(x, y)", "acc += tl.dot(x, y).to(tl.float16)"),
            ),
            "f16",
        ),
        Case(_GUARDED, "f16"),
        Case(_THREADS, "`x`"),
        Case(_ATOMICS, "`out`"),
    )
    near_misses = (
        NearMiss(vary(_THREADS, ("T total", "float total")), why="the sum holds 32-bit floats"),
        NearMiss(
            vary(_THREADS, ("_TYPES_AND_HALF(", "_TYPES(")), why="never launched for 16-bit floats"
        ),
        NearMiss(
            vary(_THREADS, ("i < n", "i < 4")), why="a few steps that are known before the launch"
        ),
        NearMiss(
            vary(_ATOMICS, ("_TYPES_AND_HALF(", "_TYPES(")), why="never launched for 16-bit floats"
        ),
        NearMiss(PRODUCT, why="the accumulator holds 32-bit floats"),
        NearMiss(_ROWS, why="the sum holds 32-bit floats"),
        NearMiss(PRODUCT_POINTER, why="16 bits only when the result is stored"),
        NearMiss(
            vary(_GUARDED, ("float16", "float32")),
            why="the accumulator that a branch updates holds 32-bit floats",
        ),
        NearMiss(
            vary(_GUARDED, ("tl.dot(x, y, acc, out_dtype=tl.float16)", "acc * 0.5")),
            why="the branch scales what it holds and adds nothing",
        ),
    )
    seen = (Seen("flag-gems", "flag_gems/fused/DSA/sparse_mla.py", "triton_sparse_mla_fwd", 129),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        graph, types = subject.facts.graph, subject.facts.types
        for loop in subject.facts.loops:
            if not _repeats(subject, loop):
                continue
            added: dict[str, list[Node]] = {}
            for carried in loop.of(Role.ACCUMULATOR, Role.SUM, Role.RUNNING_SUM):
                dtype = types.dtype(carried.argument)
                if dtype in _NARROW:
                    added.setdefault(dtype, []).extend(_made(graph, carried.next))
            for dtype, nodes in added.items():
                if nodes:
                    yield self.finding(
                        subject,
                        f"a loop adds into a tile of {dtype}: every step rounds to it",
                        "keep the running sum in 32-bit floats and narrow it before the store",
                        nodes,
                    )
        if subject.facts.kernel.dialect == "cuda":
            yield from self._in_storage_type(subject)

    def _in_storage_type(self, subject: Subject) -> Iterable[Finding]:
        """Sums of threads in the type of the elements, for which 16-bit floats may stand."""
        added: dict[Node, str] = {}
        halves = _halves(subject)
        for loop in subject.facts.loops if halves else ():
            for carried in loop.of(Role.ACCUMULATOR, Role.SUM, Role.RUNNING_SUM):
                array = _of_halves(subject, subject.facts.types.dtype(carried.argument))
                if array and _repeats(subject, loop):
                    made = _made(subject.facts.graph, carried.next)
                    added.update((n, array) for n in made if not _given(n))
        for access in subject.facts.stores if halves else ():
            if _adds(access) and _of_halves(subject, subject.facts.types.dtype(access.value)):
                added[access.node] = access.array or ""
        if added:
            names = ", ".join(f"`{one}`" for one in dict.fromkeys(added.values()))
            yield self.finding(
                subject,
                f"sums are kept in the storage type of {names}, for which the host launches the "
                "kernel with 16-bit floats, too: every step rounds to it",
                "keep the running sum in 32-bit floats and narrow it before the store",
                added,
            )


def _halves(subject: Subject) -> set[str]:
    """Arrays that the host launches a kernel with where they hold 16-bit floats."""
    return {
        name for one in subject.host.constraints for name in _HALF.findall(one.expression)
    }  # fmt: skip


def _of_halves(subject: Subject, dtype: str) -> str:
    """The first of those arrays whose elements have a type."""
    for access in subject.facts.accesses if dtype.startswith("dtypeof(") else ():
        if access.array in _halves(subject) and subject.facts.types.dtype(access.value) == dtype:
            return access.array or ""
    return ""


def _adds(access: Access) -> bool:
    return access.node.op.kind == OpKind.ATOMIC_ADD


def _given(node: Node) -> bool:
    """Whether an operation only hands a sum on to another loop."""
    return bool(node.op.regions)


def _made(graph: Graph, value: str) -> Iterator[Node]:
    """The operations that make a value, in each branch that it may come from."""
    pending = [value]
    for current in pending:
        node = graph.producer(graph.through(current, CASTS))
        if node is not None and node.op.kind in _BRANCHES:
            pending += graph.feeds(graph.through(current, CASTS) or current)
        elif node is not None and not node.op.regions and node.op.kind != OpKind.CONST:
            yield node


def _repeats(subject: Subject, loop: Loop) -> bool:
    """False for a loop of a few steps that are known before the launch."""
    values = subject.facts.values
    low, high = values.expr(loop.low), values.expr(loop.high)
    if loop.high is None or low.constant is None or high.constant is None:
        return True
    return high.constant - low.constant > 8
