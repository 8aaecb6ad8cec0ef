"""What is read and what is written are arrays of their own, and the compiler is not told so."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases_rows import ADD_POINTER
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.record_fields import struct_of
from kb.evidence import Decision
from kb.ir import ParameterKind
from kb.ops import READS, OpKind

_COPIED = """__global__ void twice(const float* x, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = 2.f * x[at];
}
"""
_FIELDS = """struct Given { const float* x; float* out; int n; };
__global__ void twice(const Given given) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < given.n) given.out[at] = 2.f * given.x[at];
}
"""
_FILLED = """__global__ void fill(float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = 1.f;
}
"""


class ArraysApart(Pattern):
    """No pointer is promised to be the only way to its array; some arrays are only read, the others
    only written."""

    name = "read-and-written-arrays-apart-without-a-promise"
    axis = "aliasing"
    source = "NVIDIA, CUDA C++ Programming Guide, __restrict__"
    matches = (Case(_COPIED, "out of place"), Case(_FIELDS, "out of place"))
    near_misses = (
        NearMiss(
            _COPIED.replace("const float* x", "const float* __restrict__ x"),
            why="the compiler is told so",
        ),
        NearMiss(_COPIED.replace("out[at] =", "out[at] +="), why="the output is read, too"),
        NearMiss(
            _FIELDS.replace("given.out[at] =", "given.out[at] +="), why="the output is read, too"
        ),
        NearMiss(_FILLED, why="nothing is read"),
        NearMiss(ADD_POINTER, why="the language has no such promise"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        parameters = facts.kernel.entry.parameters
        words = {p.name: p.annotation.split() for p in parameters}
        # What a field of a struct promises of `void` is gone where it becomes a pointer to numbers.
        promised = any("restrict" in said and said[0] != "void" for said in words.values())
        if not facts.of_threads or promised:
            return
        arrays = [p.name for p in parameters if p.kind is ParameterKind.ARRAY]
        kept = {name for name in arrays if "const" in words[name]}
        read = kept | {name for a in facts.loads if (name := _given(facts, a))}
        written = {name for a in facts.stores if (name := _given(facts, a))}
        structs = {struct_of(facts.kernel.entry, name) for name in read | written} - {""}
        if _struct_in_a_call(facts, structs):
            return  # which fields a call reads and writes is unknown
        if read and written and not read & written:
            stores = [a for a in facts.stores if a.array in written]
            declared = facts.declared(*read, *written)
            yield self.decide(facts, "out of place", [*declared, *stores])


def _struct_in_a_call(facts: Facts, structs: set[str]) -> bool:
    """Whether a call that is not understood is handed one of the structs, or an address that is
    made of one of its pointers."""
    given = facts.kernel.entry.parameters
    pointers = {p.name for p in given if p.struct and p.kind is ParameterKind.ARRAY}
    asked = structs | pointers if structs else set()
    seen: set[str] = set()
    pending = [v for node in facts.graph.of(OpKind.OPAQUE) for v in node.op.inputs if asked]
    for value in pending:
        if value in asked:
            return True
        made = facts.graph.producer(value)
        if value not in seen and (made is None or made.op.kind not in READS):
            seen.add(value)
            pending += [v for v in facts.graph.feeds(value) if v not in seen]
    return False


def _given(facts: Facts, access: Access) -> str:
    """The parameter, or the field of one, that an access goes to; empty for memory of the block."""
    entry, name = facts.kernel.entry, access.array or ""
    return name if name in entry.parameter_names or struct_of(entry, name) else ""
