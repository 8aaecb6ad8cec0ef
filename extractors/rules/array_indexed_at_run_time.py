# ruff: noqa: E501
"""An array of a thread is indexed by a number that only the run tells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Subject
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Loop
from kb.analysis.symbolic import sub
from kb.evidence import Finding, Severity
from kb.ir import MemorySpace, TileType
from kb.ops import OWN_THREAD, OpKind

FEW = 4
"""Elements up to which a compiler chooses between registers instead."""

_HELD = """
__global__ void pick(const float* x, float* out, int n) {
  float held[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) { held[i] = x[blockIdx.x * 16 + i]; }
  out[blockIdx.x * 32 + threadIdx.x] = held[threadIdx.x % 16];
}
"""
_COUNTED = vary(
    _HELD,
    ("  out[blockIdx.x * 32 + threadIdx.x] = held[threadIdx.x % 16];",
     "  float sum = 0.0f;\n  for (int k = 0; k < n; ++k) { sum += held[k]; }\n"
     "  out[blockIdx.x * 32 + threadIdx.x] = sum;"),
)  # fmt: skip
_LOADED = vary(
    _HELD,
    ("float* out, int n", "float* out, const int* at"),
    ("held[threadIdx.x % 16]", "held[at[blockIdx.x]]"),
)
_TENSOR = """
using namespace cute;
template <typename Layout> __global__ void pick(const float* x, float* out) {
  Tensor held = make_tensor<float>(Layout{});
  for (int i = 0; i < held.size(); ++i) { held(i) = x[blockIdx.x * size(held) + i]; }
  float sum = 0.0f;
  for (int i = 0; i < held.size(); ++i) { sum += held(i); }
  out[blockIdx.x * 32 + threadIdx.x] = sum;
}
"""


class ArrayIndexedAtRunTime(Rule):
    """The place of an element in an array of a thread rests on the number of the thread, on what
    was loaded, or on a loop whose rounds only the run tells: registers have no number that a
    program can compute, and the array goes to local memory."""

    name = "array-indexed-at-run-time"
    dialects = ("cuda",)
    matches = (
        Case(_HELD, "`held` is indexed by the number of the thread"),
        Case(_COUNTED, "`held` is indexed by a loop"),
        Case(_LOADED, "`held` is indexed by what was loaded"),
    )
    near_misses = (
        NearMiss(vary(_HELD, ("held[threadIdx.x % 16]", "held[3]")), why="a number of the source"),
        NearMiss(vary(_HELD, ("16", "2")), why="a compiler chooses between two registers"),
        NearMiss(
            vary(_HELD, ("float held", "__shared__ float held")), why="shared memory has places"
        ),
        NearMiss(vary(_COUNTED, ("k < n", "k < 16")), why="the loop can be unrolled"),
        NearMiss(
            vary(_COUNTED, ("__global__", "template <int N>\n__global__"), ("k < n", "k < N")),
            why="the rounds are known when it is compiled",
        ),
        NearMiss(
            vary(_COUNTED, ("int k = 0; k < n; ++k", "int k = threadIdx.x; k < 512; k += 32"), ("held[k]", "held[k / 32]")),
            why="the round of a loop whose rounds are known",
        ),
        NearMiss(_TENSOR, why="the extents of a tensor of a library are in its type"),
        NearMiss(
            vary(_COUNTED, ("sum += held[k]", "if (k < 16) sum += x[k]")), why="an array of the kernel"
        ),
    )  # fmt: skip

    def find(self, subject: Subject) -> Iterable[Finding]:
        facts = subject.facts
        found: dict[tuple[str, str], list[Node]] = {}
        for node, name, by in _indexed(facts) if facts.of_threads else ():
            found.setdefault((name, by), []).append(node)
        home = facts.kernel.entry.span.path
        if found:
            ways: dict[str, list[str]] = {}
            for name, by in found:
                ways.setdefault(name, []).append(by)
            told = ", ".join(
                f"`{name}` is indexed by {' and by '.join(w)}" for name, w in ways.items()
            )
            yield self.finding(
                subject,
                f"{told}: registers have no number that a program can compute, so the array lies "
                "in local memory, or every access goes through all of its elements",
                "index it by loops that can be unrolled, or keep it in shared memory",
                [one for row in found.values() for one in row if one.op.span.path == home],
                Severity.NOTE,
            )


def _indexed(facts: Facts) -> Iterator[tuple[Node, str, str]]:
    """Elements of arrays of a thread that are read or set at a place that the run tells: with the
    name of the array, and what tells the place."""
    graph = facts.threads
    loops = {loop.induction: loop for loop in facts.thread_loops if loop.induction}
    for node in graph.of(OpKind.EXTRACT, OpKind.INSERT):
        array, index = node.op.operand("x"), node.op.operand("index")
        if array is None or index is None or graph.kind_of(index) == OpKind.CONST:
            continue
        name = _declared(facts, array)
        by = _told_by(facts, index, loops) if name else ""
        if by:
            yield node, name, by


def _declared(facts: Facts, array: str) -> str:
    """The name of an array that the kernel fills itself, of more than a few elements; a tile of
    a library, whose extents are in types, is none."""
    graph = facts.threads
    type_ = _type(facts, array)
    if type_ is None or type_.space is not MemorySpace.REGISTER or not type_.shape:
        return ""
    if "?" in type_.shape:
        return ""
    if all(one.isdigit() for one in type_.shape) and prod(map(int, type_.shape)) <= FEW:
        return ""
    begun = graph.upstream(array, lambda node: node.op.kind not in _HANDED_ON)
    if not any(node.op.kind in _FILLED for node in begun):
        return ""
    name = array.rpartition(".")[0] or array
    return name if name and name.isidentifier() else ""


_FILLED = (OpKind.INSERT, OpKind.UNDEF, OpKind.OPAQUE)
_HANDED_ON = frozenset({OpKind.INSERT, OpKind.IF, OpKind.FOR, OpKind.WHILE, OpKind.COPY})

_MADE = frozenset({OpKind.LOAD, OpKind.FOR, OpKind.WHILE})
"""What a place is not followed through: what tells it stands there."""


def _type(facts: Facts, value: str) -> TileType | None:
    graph = facts.threads
    made = graph.producer(value)
    rows = made.op.results if made is not None else ()
    if value in graph.arguments:
        node, region, place = graph.arguments[value]
        rows = (node.op.regions[region].arguments[place],)
    found = next((row.type for row in rows if row.name == value), None)
    return found if isinstance(found, TileType) else None


def _told_by(facts: Facts, index: str, loops: dict[str, Loop]) -> str:
    """What tells a place at run time; empty where nothing does."""
    graph = facts.threads
    if _round(facts, index, loops):
        return ""
    above = list(graph.upstream(index, lambda node: node.op.kind in _MADE))
    feeds = {index, *(feed for node in above for feed in node.op.inputs)}
    if any(_open(facts, loops[feed]) for feed in feeds & loops.keys()):
        return "a loop whose rounds only the run tells"
    if any(node.op.kind == OpKind.LOAD for node in above):
        return "what was loaded"
    if any(node.op.kind in OWN_THREAD for node in above):
        return "the number of the thread"
    return ""


def _round(facts: Facts, index: str, loops: dict[str, Loop]) -> bool:
    """Whether a counter is divided by its own step: that is the number of the round."""
    graph = facts.threads
    made = graph.producer(graph.core(index))
    if made is None or made.op.kind not in (OpKind.DIV, OpKind.FLOOR_DIV):
        return False
    counter, by = made.op.inputs[:2]
    loop = loops.get(graph.core(counter) or "")
    expr = facts.thread_values.expr
    steps = loop.step if loop is not None and not _open(facts, loop) else None
    return steps is not None and not sub(expr(steps), expr(by)).terms


def _open(facts: Facts, loop: Loop) -> bool:
    """Whether a number that is passed or loaded ends a loop."""
    graph = facts.threads
    if loop.high is None:
        return False
    passed = {p.name for p in facts.kernel.entry.parameters} - facts.constexprs
    above = list(graph.upstream(loop.high, lambda node: node.op.kind == OpKind.LOAD))
    feeds = {loop.high, *(feed for node in above for feed in node.op.inputs)}
    told = any(node.op.kind in (OpKind.LOAD, *OWN_THREAD) for node in above)
    return told or bool(feeds & passed)
