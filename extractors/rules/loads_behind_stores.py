# ruff: noqa: E501
"""Loads wait for stores to arrays that nothing tells apart from theirs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Subject
from kb.analysis.facts import Facts
from kb.analysis.graph import LOOPS, Lines, Node
from kb.analysis.pointed import array_of
from kb.evidence import Finding, Severity
from kb.ir import Parameter, ParameterKind, TileType
from kb.ops import OpKind

_ANY = frozenset({"i8", "u8"})
"""Types by which memory of every type may be read and written. Source: C++, [basic.lval]."""

_COPY = """
__global__ void copy(const float* x, float* out, int rows, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    out[(size_t)blockIdx.x * n + i] = x[(size_t)blockIdx.x * n + i];
  }
}
"""
_TWICE = """
__global__ void copy(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = 2.0f * x[i];
  out[i + n] = 2.0f * x[i + n];
}
"""


class LoadsBehindStores(Rule):
    """A loop loads from one array and stores to another of the same type, and neither pointer is
    promised to be the only way to what it points to: for the compiler a store may change what the
    next round loads, and the load stays behind it."""

    name = "loads-behind-stores"
    dialects = ("cuda",)
    matches = (
        Case(_COPY, "`x` behind stores to `out`"),
        Case(_TWICE, "`x` behind stores to `out`"),
        Case(
            vary(_COPY, ("float* out", "unsigned char* out"), ("] = x", "] = (unsigned char)x")),
            "`x`",
        ),
    )
    near_misses = (
        NearMiss(vary(_COPY, ("float* x", "float* __restrict__ x")), why="the compiler is told"),
        NearMiss(vary(_COPY, ("float* out", "float* __restrict__ out")), why="told of the other"),
        NearMiss(
            vary(_COPY, ("float* out", "int* out"), ("] = x", "] = (int)x")),
            why="types tell the arrays apart",
        ),
        NearMiss(
            vary(_COPY, ("  for (int i = threadIdx.x; i < n; i += blockDim.x) {", "  int i = threadIdx.x;\n  if (i < n) {")),
            why="the only store comes after the only load",
        ),
        NearMiss(
            vary(_COPY, ("] = x[(size_t)blockIdx.x * n + i]", "] = __ldg(&x[(size_t)blockIdx.x * n + i])")),
            why="the load is of what nobody writes",
        ),
        NearMiss(
            vary(_COPY, ("] = x[(size_t)blockIdx.x * n + i];", "] = 0.0f;"),
                 ("  for", "  float v = x[n];\n  if (v > 0.0f) return;\n  for")),
            why="the load comes before the loop that stores",
        ),
        NearMiss(
            vary(_COPY, ("+ i];\n", "+ i];\n    __syncthreads();\n")), why="a barrier orders them"
        ),
        NearMiss(
            vary(_COPY, ("+ i];\n", "+ i];\n    break;\n")), why="no round comes after the store"
        ),
        NearMiss(
            vary(_COPY, ("const float* x, ", ""), ("] = x[(size_t)blockIdx.x * n + i]", "] += 1.0f")),
            why="what is loaded is what is stored",
        ),
    )  # fmt: skip

    def find(self, subject: Subject) -> Iterable[Finding]:
        facts = subject.facts
        pairs = list(_pairs(facts)) if facts.of_threads else []
        if not pairs:
            return
        home = facts.kernel.entry.span.path
        told = ", ".join(
            dict.fromkeys(f"loads of `{a}` behind stores to `{b}`" for (_, a), (_, b) in pairs[:3])
        )
        nodes = [node for pair in pairs for node, _ in pair if node.op.span.path == home]
        names = {name for pair in pairs for _, name in pair}
        yield self.finding(
            subject,
            f"{told} stay there: neither pointer is `__restrict__`, so that a store may change what "
            "is loaded after it, and no such load is begun before the store",
            "declare the pointers `const __restrict__` where the arrays do not overlap",
            [*_declared(facts, names), *nodes],
            Severity.NOTE,
        )


def _pairs(facts: Facts) -> Iterator[tuple[tuple[Node, str], tuple[Node, str]]]:
    """A load and a store before it, of two arrays that nothing tells apart."""
    given = {p.name: p for p in facts.kernel.entry.parameters if p.kind is ParameterKind.ARRAY}
    open_ = {name: p for name, p in given.items() if "restrict" not in p.annotation.split()}
    loads = [(n, a) for n in facts.threads.of(OpKind.LOAD) if (a := _array(facts, n, open_))]
    stores = [(n, a) for n in facts.threads.of(OpKind.STORE) if (a := _array(facts, n, open_))]
    told: set[tuple[str, str]] = set()
    for load, read in loads:
        if str(load.op.attribute("cache") or "") in ("nc", "readonly"):
            continue
        for store, written in stores:
            apart = read == written or (read, written) in told
            if not apart and _behind(facts, load, store) and _alike(facts, load, store):
                told.add((read, written))
                yield (load, read), (store, written)


def _array(facts: Facts, node: Node, given: dict[str, Parameter]) -> str:
    """The array that a load or a store of the language goes to, where it is one of those given;
    none for an instruction, which no promise moves."""
    if node.op.attribute("opcode") is not None:
        return ""
    array = array_of(facts.threads, node)
    return array if array in given else ""


def _behind(facts: Facts, load: Node, store: Node) -> bool:
    """Whether a load comes after a store with no barrier between: further down, or in the next
    round of a loop."""
    if store.excludes(load):
        return False
    graph = facts.threads
    if store.index < load.index and store.parent is load.parent:
        return not any(store.index < one.index < load.index for one in graph.of(*_ORDERING))
    loop = next((x for x in load.around() if x.op.kind in LOOPS and store.inside(x)), None)
    if loop is None or any(one.inside(loop) for one in graph.of(*_ORDERING)):
        return False
    leaving = [one for one in graph.of(OpKind.BREAK, OpKind.RETURN) if one.parent is store.parent]
    return not any(one.index > store.index and one.branch == store.branch for one in leaving)


_ORDERING = (OpKind.BARRIER, OpKind.FENCE)


def _alike(facts: Facts, load: Node, store: Node) -> bool:
    """Whether what is loaded and what is stored may lie at one place, by their types."""
    types = [_moved(facts, load), _moved(facts, store)]
    return types[0] == types[1] != "" or bool(_ANY & set(types))


def _moved(facts: Facts, node: Node) -> str:
    """The type of the elements of the array."""
    pointer = node.op.operand("pointer") or node.op.inputs[0]
    made = facts.threads.producer(pointer)
    rows = made.op.results if made is not None else ()
    type_ = next((row.type for row in rows if row.name == pointer), None)
    return type_.dtype.replace("?", "") if isinstance(type_, TileType) else ""


def _declared(facts: Facts, names: set[str]) -> list[Lines]:
    return [p.span.lines for p in facts.kernel.entry.parameters if p.name in names and p.span]
