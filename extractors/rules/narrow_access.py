# ruff: noqa: E501
"""Threads that move one short element at a time."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Subject
from kb.analysis.facts import Facts
from kb.analysis.graph import Graph, Node
from kb.evidence import Finding, Severity
from kb.ir import TileType
from kb.ops import OWN_THREAD, OpKind

_BYTES = {"i8": 1, "u8": 1, "f8e4m3": 1, "f8e5m2": 1, "f16": 2, "bf16": 2, "i16": 2, "u16": 2}
"""Bytes of short elements; not of flags, which collectives pack, nor of what has no type."""

_HALVES = """
#include <cuda_fp16.h>
__global__ void twice(const __half* x, __half* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { out[i] = __float2half(2.0f * __half2float(x[i])); }
}
"""
_SCALES = """
__global__ void scales(const float4* x, unsigned char* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { out[i / 4 * 16 + i % 4] = (unsigned char)x[i].x; }
}
"""


class NarrowAccess(Rule):
    """What each thread loads or stores at a place of its own is one element of a byte or two: a
    warp asks for 32 or 64 bytes where one instruction moves up to 512."""

    name = "narrow-access"
    dialects = ("cuda",)
    matches = (
        Case(_HALVES, "`x`, `out`: each thread moves one element of 2 bytes"),
        Case(_SCALES, "`out`: each thread moves one element of 1 byte"),
    )
    near_misses = (
        NearMiss(
            vary(_HALVES, ("__half* x, __half* out", "float* x, float* out"),
                 ("__float2half(2.0f * __half2float(x[i]))", "2.0f * x[i]")),
            why="an element is a word",
        ),
        NearMiss(
            vary(_HALVES, ("const __half* x, __half* out", "const __half2* x, __half2* out"),
                 ("__float2half(2.0f * __half2float(x[i]))", "__hmul2(x[i], x[i])")),
            why="two elements move together",
        ),
        NearMiss(
            vary(_HALVES, ("x[i]", "x[blockIdx.x]"), ("out[i]", "out[blockIdx.x]")),
            why="all threads of a block are at one place",
        ),
        NearMiss(
            vary(_HALVES, ("  if (i < n)", "  if (i * 8 + 7 < n) { ((uint4*)out)[i] = ((const uint4*)x)[i]; }\n  else if (i < n)")),
            why="the rest of what is moved in vectors",
        ),
        NearMiss(
            vary(_HALVES, ("out[i] =", "__shared__ __half held[256];\n  held[threadIdx.x] ="),
                 ("__half2float(x[i])", "float(n)")),
            why="shared memory",
        ),
    )  # fmt: skip

    def find(self, subject: Subject) -> Iterable[Finding]:
        facts = subject.facts
        found: dict[int, dict[str, list[Node]]] = {}
        for size, array, node in _narrow(facts):
            found.setdefault(size, {}).setdefault(array, []).append(node)
        home = facts.kernel.entry.span.path
        for size, arrays in sorted(found.items()):
            names = ", ".join(f"`{name}`" for name in arrays)
            nodes = [node for row in arrays.values() for node in row]
            unit = "byte" if size == 1 else "bytes"
            yield self.finding(
                subject,
                f"{names}: each thread moves one element of {size} {unit} at once, a scalar "
                f"access: a warp asks for {32 * size} bytes where one instruction moves up to 512",
                "let each thread take several elements that lie side by side, and move them as one "
                "vector",
                [node for node in nodes if node.op.span.path == home],
                Severity.NOTE,
            )


def _narrow(facts: Facts) -> Iterable[tuple[int, str, Node]]:
    """Loads and stores of global memory at places of threads, of one short element each; none of an
    array that is moved in vectors, too."""
    if not facts.of_threads:
        return
    graph = facts.threads
    wide: set[str] = set()
    short: list[tuple[int, str, Node]] = []
    for node in graph.of(OpKind.LOAD, OpKind.STORE, OpKind.ASYNC_COPY):
        pointer = node.op.operand("pointer") or next(iter(node.op.inputs), "")
        array = _array(graph, pointer)
        size = _size(graph, node, pointer)
        if size is None or node.op.kind == OpKind.ASYNC_COPY:
            wide.add(array)
        elif size and node.op.attribute("space") != "shared" and _own(facts, pointer):
            short.append((size, array, node))
    yield from ((size, array, node) for size, array, node in short if array and array not in wide)


def _array(graph: Graph, pointer: str) -> str:
    """The parameter that an address begins at; empty where that is not one."""
    names = {p.name for p in graph.function.parameters}
    roots = {v for n in graph.upstream(pointer, _elsewhere) for v in n.op.inputs} & names
    arrays = [
        p.name for p in graph.function.parameters if p.name in roots and p.name in _pointers(graph)
    ]
    return arrays[0] if len(arrays) == 1 else ""


def _pointers(graph: Graph) -> set[str]:
    return {p.name for p in graph.function.parameters if p.kind.value == "array"}


def _elsewhere(node: Node) -> bool:
    return node.op.kind == OpKind.LOAD


def _own(facts: Facts, pointer: str) -> bool:
    """Whether the place is one of the thread."""
    return any(node.op.kind in OWN_THREAD for node in facts.threads.upstream(pointer, _elsewhere))


def _size(graph: Graph, node: Node, pointer: str) -> int | None:
    """The bytes of the one short element that moves; None where several move, 0 where it is long or
    nobody knows."""
    at = _type(graph, pointer)
    moved = node.op.results[0].type if node.op.kind == OpKind.LOAD and node.op.results else None
    if node.op.kind != OpKind.LOAD:
        moved = _type(graph, node.op.operand("value") or "")
    for one in (at, moved):
        if one is not None and any(extent != "1" for extent in one.shape):
            return None
    known = at.dtype if at is not None else ""
    return _BYTES.get(known, 0)


def _type(graph: Graph, value: str) -> TileType | None:
    made = graph.producer(value)
    rows = made.op.results if made is not None else ()
    return next((row.type for row in rows if row.name == value), None)
