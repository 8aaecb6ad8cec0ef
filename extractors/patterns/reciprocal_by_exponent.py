"""A reciprocal whose bits are written: the exponent of a power of two taken from a constant."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER
from kb.analysis.facts import Facts
from kb.analysis.float_bits import keeps_bits
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.evidence import Decision
from kb.ops import OpKind

_PLACES = frozenset({23, 7})
"""Bits below the exponent of a 32-bit float and of a bfloat16. Source: IEEE 754; NVIDIA, CUDA C++
Programming Guide, floating-point types."""
_ON = VIEWS | CASTS | {OpKind.COPY, OpKind.BIT_OR, OpKind.BIT_AND, OpKind.SELECT, OpKind.VECTOR,
                       OpKind.IF, OpKind.IF_EXPRESSION, OpKind.MAXIMUM, OpKind.MINIMUM,
                       OpKind.SHIFT_LEFT, OpKind.EXTRACT, OpKind.INSERT}  # fmt: skip
_BEFORE = VIEWS | CASTS | {OpKind.COPY, OpKind.MAXIMUM, OpKind.MINIMUM, OpKind.BIT_AND}
_MOST = 32
"""Values that bits are followed through."""

_WRITTEN = "no division: bits of the reciprocal written, multiplied per element"
_WHOLE = """__global__ void narrow(const float* x, const unsigned char* e, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    float by = __uint_as_float((254u - e[at / 32]) << 23);
    out[at] = x[at] * by;
}
"""
_PAIRS = """__global__ void narrow(const unsigned* x, const unsigned char* e, unsigned* out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned by = 254 - e[at / 16] << 7;
    if (e[at / 16] == 255) by = 32704;
    by = by | by << 16;
    unsigned made;
    asm volatile("mul.rn.bf16x2 %0, %1, %2;" : "=r"(made) : "r"(x[at]), "r"(by));
    out[at] = made;
}
"""


_TILES = (
    POINTER
    + """
@triton.jit
def narrow(x, e, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    by = ((254 - tl.load(e + at // 32, mask=at < n).to(tl.int32)) << 23).to(tl.float32, bitcast=True)
    tl.store(out + at, tl.load(x + at, mask=at < n) * by, mask=at < n)
"""  # noqa: E501
)


class ReciprocalByExponent(Pattern):
    """What a power of two is divided by is not divided: the bits of its reciprocal are written,
    with the exponent taken from a constant, and elements are multiplied with it."""

    name = "reciprocal-by-the-bits-of-the-exponent"
    axis = "division_strength"
    source = "Open Compute Project, Microscaling Formats (2023): scales of eight bits, all exponent"
    matches = (
        Case(_WHOLE, _WRITTEN),
        Case(_TILES, _WRITTEN),
        Case(_PAIRS, _WRITTEN),
    )
    near_misses = (
        NearMiss(_WHOLE.replace("(254u - e[at / 32])", "(unsigned)e[at / 32]"), why="the scale"),
        NearMiss(_WHOLE.replace("x[at] * by", "x[at] / by"), why="something is divided"),
        NearMiss(_WHOLE.replace("<< 23", "<< 4"), why="no exponent is written"),
        NearMiss(
            _WHOLE.replace("__uint_as_float(", "(float)("), why="a whole number becomes a float"
        ),
        NearMiss(_TILES.replace("(254 - ", "("), why="the scale itself is made of its exponent"),
        NearMiss(_PAIRS.replace("mul.rn.bf16x2", "add.rn.bf16x2"), why="nothing is multiplied"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: list[Node] = []
        for shift in facts.graph.of(OpKind.SHIFT_LEFT):
            taken = _taken_from(facts, shift)
            products = _products(facts, shift) if taken is not None else []
            if taken is not None and products:
                found += [taken, shift, *products]
        if found:
            yield self.decide(facts, _WRITTEN, found)


def _taken_from(facts: Facts, shift: Node) -> Node | None:
    """The difference of a constant and a number that a shift moves to the place of an exponent."""
    if facts.number(shift.op.inputs[1]) not in _PLACES:
        return None
    value: str | None = shift.op.inputs[0]
    for _ in range(_MOST):
        made = facts.graph.producer(value)
        if made is None or not made.op.inputs:
            return None
        if made.op.kind == OpKind.SUB:
            first, second = made.op.inputs[:2]
            known = facts.number(first) is not None and facts.number(second) is None
            return made if known else None
        if made.op.kind not in _BEFORE:
            return None
        value = made.op.inputs[0]
    return None


def _products(facts: Facts, shift: Node) -> list[Node]:
    """Products of floats with what the shifted bits are seen as: by a cast that keeps them, or by
    an instruction for pairs of floats in a word."""
    pending, seen_as = [shift.result], {shift.result: False}
    found: list[Node] = []
    for current in pending:
        for user in facts.graph.users(current):
            kept = seen_as[current] or keeps_bits(facts, user)
            if user.op.kind in (OpKind.MUL, OpKind.FMA):
                pairs = "bf16x2" in str(user.op.attribute("opcode")).split(".")
                whole = facts.types.dtype(user.result)[:1] in ("i", "u")
                found += [user] if pairs or (kept and not whole) else []
                continue
            handed = user.op.kind == OpKind.YIELD or user.op.kind in _ON or keeps_bits(facts, user)
            for value in facts.graph.onward(user, current) if handed else ():
                if value not in seen_as and len(pending) < _MOST:
                    seen_as[value] = kept
                    pending.append(value)
    return found
