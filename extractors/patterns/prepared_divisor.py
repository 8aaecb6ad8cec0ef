"""Whole numbers divided by a divisor that the host has prepared: a multiplication and a shift."""

from __future__ import annotations

import re
from collections.abc import Iterable

from extractors.patterns.base import UNKNOWN, Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, vary
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, Node, field_of
from kb.evidence import Decision
from kb.ops import OpKind

PREPARED_THREADS = """#include "divisor.h"
struct Divisor {
    Divisor(int d) : made(d), plain(d) {}
    __device__ void split(unsigned n, unsigned& q, unsigned& r) const {
        q = n / made;
        r = n - q * plain;
    }
    prepared<unsigned> made;
    unsigned plain;
};
__global__ void append(const float* x, float* pages, const int* table, Divisor size, int width) {
    unsigned page, entry;
    size.split(blockIdx.x * blockDim.y + threadIdx.y, page, entry);
    pages[(table[page] * 16 + entry) * width + threadIdx.x] = x[threadIdx.x];
}
"""
_CLASS = """#include "divisor.h"
__global__ void turn(const float* x, float* out, int n, Divisor width) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[(at % width) * n + at / width] = x[at];
}
"""
_HIGH = """__global__ void turn(const float* x, float* out, int n, unsigned by, int shift,
                     int width) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    int row = (__umulhi(at, by) + at) >> shift;
    if (at < n) out[(at - row * width) * n + row] = x[at];
}
"""
_HIGH_POINTER = (
    POINTER
    + """
@triton.jit
def turn(x, out, n, by, shift, width, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    row = (tl.umulhi(at, by) + at) >> shift
    tl.store(out + (at - row * width) * n + row, tl.load(x + at, mask=at < n), mask=at < n)
"""
)
_NUMBER = re.compile(r"(i|u|f|bf|tf)\d+\w*( .*)?|dtypeof\(.*")


class PreparedDivisor(Pattern):
    """A place in memory is won by dividing a whole number by an argument of a class of its own,
    or by the upper half of its product with an argument, shifted by another one."""

    name = "integer-division-by-a-prepared-divisor"
    axis = "division_strength"
    source = "Warren, Hacker's Delight (2012), chapter 10: division by what does not change"
    matches = (
        Case(PREPARED_THREADS, "divisor prepared by the host"),
        Case(_CLASS, "divisor prepared by the host"),
        Case(_HIGH, "divisor prepared by the host"),
        Case(_HIGH_POINTER, "divisor prepared by the host"),
    )
    near_misses = (
        NearMiss(vary(_CLASS, ("Divisor width", "int width")), why="a plain number divides"),
        NearMiss(vary(_HIGH, ("by) + at) >> shift", "by) + at)")), why="nothing is shifted"),
        NearMiss(
            vary(_HIGH_POINTER, ("(tl.umulhi(at, by) + at) >> shift", "at // width")),
            why="a plain number divides",
        ),
        NearMiss(ADD_POINTER, why="nothing is divided"),
        NearMiss(ADD_THREADS, why="nothing is divided"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        quotients = prepared_quotients(facts)
        if quotients:
            yield self.decide(facts, "divisor prepared by the host", quotients)


def prepared_quotients(facts: Facts) -> list[Node]:
    """Quotients and remainders by prepared divisors that address memory or split another one."""
    parts = [n for n in facts.graph.of(OpKind.DIV, OpKind.MOD, OpKind.FLOOR_DIV) if _made(facts, n)]
    for high in facts.graph.of(OpKind.UMULHI):
        parts += _shifted(facts, high)
    if not parts:
        return []
    places = [v for a in facts.accesses for v in a.address]
    return [n for n in parts if any(facts.graph.rests_on(v, n) for v in places)]


def _made(facts: Facts, node: Node) -> bool:
    """A whole number over an argument of a class of its own; or over a field of one, when that
    field has no known type and the quotient is kept as a whole number."""
    over, under = (facts.graph.through(v, COPIES) or v for v in node.op.inputs[:2])
    if not facts.types.dtype(over).startswith(("i", "u")):
        return False
    kind = facts.types.dtype(under)
    if under in facts.graph.function.parameter_names:
        return under not in facts.constexprs and not _number(kind) and kind != UNKNOWN
    field = _nested(facts, under) or _beside(facts, node, under)
    return kind == UNKNOWN and field and _taken_whole(facts, node)


def _nested(facts: Facts, value: str) -> bool:
    """Whether a value is a field of a field of an argument."""
    depth, made = 0, facts.graph.producer(value)
    while made is not None and made.op.kind == OpKind.ATTRIBUTE:
        value, depth = made.op.inputs[0], depth + 1
        made = facts.graph.producer(value)
    held = value in facts.graph.arguments or value in facts.graph.function.parameter_names
    return depth > 1 and held and value not in facts.constexprs


def _beside(facts: Facts, node: Node, under: str) -> bool:
    """Whether another field of the same argument multiplies the quotient, as remainders ask."""
    made = facts.graph.producer(under)
    if made is None or made.op.kind != OpKind.ATTRIBUTE or made.op.inputs[0] in facts.constexprs:
        return False
    others = (n for n in facts.graph.of(OpKind.MUL) if facts.graph.rests_on(n.result, node))
    fields = (facts.graph.producer(v) for n in others for v in n.op.inputs[:2])
    return any(
        one is not None and one.op.kind == OpKind.ATTRIBUTE and one.op.inputs == made.op.inputs
        for one in fields
    )


def _number(dtype: str) -> bool:
    return _NUMBER.fullmatch(dtype) is not None


def _taken_whole(facts: Facts, node: Node) -> bool:
    """Whether a quotient is kept as a whole number."""
    casts = [n for n in facts.graph.users(node.result) if n.op.kind in CASTS]
    return any(facts.types.dtype(n.result).startswith(("i", "u")) for n in casts)


def _shifted(facts: Facts, high: Node) -> list[Node]:
    """The upper half of a product with an argument, and its shift by another argument."""
    if not any(_given(facts, v) for v in high.op.inputs[:2]):
        return []
    found, values = list[Node](), [high.result]
    for value in values:
        for user in facts.graph.users(value):
            if user.op.kind == OpKind.SHIFT_RIGHT and _given(facts, user.op.inputs[1]):
                found += [high, user]
            elif user.op.kind in CASTS | COPIES | {OpKind.ADD} and len(values) < 8:
                values.append(user.result)
    return found


def _given(facts: Facts, value: str) -> bool:
    core = facts.graph.core(value)
    return core in facts.graph.function.parameter_names or field_of(facts.graph, core) is not None
