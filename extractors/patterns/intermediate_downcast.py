"""In which precision probabilities enter the second product."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, BACKWARD_KEYS, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_pointer import DECODE_PART, FLASH_POINTER
from extractors.patterns.cases_threads import FLASH_THREADS, PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.narrowing import narrowing, stored_states
from kb.evidence import Decision

_BY_TYPE = vary(
    FLASH_POINTER,
    ("        acc = tl.dot(p.to(a.dtype.element_ty), v, acc)",
     "        if a.dtype.element_ty == tl.float8e5:\n            p = p.to(tl.float8e5)\n"
     "        else:\n            p = p.to(tl.float16)\n        acc = tl.dot(p, v, acc)"),
)  # fmt: skip
_TWO_LOOPS = vary(
    PRODUCT_POINTER,
    ("    tl.store(",
     "    for t in range(0, tl.cdiv(K, TK)):\n"
     "        z = tl.load(b + n[:, None] * sb + t * TK + k[None, :])\n"
     "        tl.store(out + m[:, None] * K + t * TK + k[None, :], tl.dot(acc.to(z.dtype), z))\n"
     "    tl.store("),
)  # fmt: skip


_MATCHED = "operand cast to the type of the other"
_OTHERS = vary(PRODUCT_POINTER, ("tl.dot(x, y)", "tl.dot(x.to(b.dtype.element_ty), y)"))
_OTHERS_EITHER = vary(
    _OTHERS,
    ("TK: tl.constexpr", "TK: tl.constexpr, WHOLE: tl.constexpr"),
    (
        "        y = tl.load(pb, mask=k[:, None] < K - t * TK, other=0.0)\n",
        "        if WHOLE:\n            y = tl.load(pb)\n        else:\n"
        "            y = tl.load(pb, mask=k[:, None] < K - t * TK, other=0.0)\n",
    ),
)
_OTHERS_TILE = vary(PRODUCT, ("ct.mma(x, y, acc)", "ct.mma(x, y.astype(a.dtype), acc)"))


class IntermediateDowncast(Pattern):
    """The operand of a product is itself computed from a product, and narrowed right before; or a
    loaded one is cast to the type of the other."""

    name = "intermediate-downcast-before-the-second-mma"
    axis = "intermediate_dtype"
    source = (
        "Dao et al., FlashAttention (2022): P is rounded to the input type for the second product"
    )
    matches = (
        Case(ATTENTION, "cast P to input dtype"),
        Case(BACKWARD_KEYS, "cast P to input dtype"),
        Case(vary(ATTENTION, ("p.astype(a.dtype)", "p")), "keep fp32/tf32"),
        Case(FLASH_POINTER, "cast P to input dtype"),
        Case(
            vary(
                DECODE_PART, ("tl.sum(weight[:, None] *", "tl.sum(weight.to(tl.float16)[:, None] *")
            ),
            "cast P to input dtype",
        ),
        Case(
            vary(
                DECODE_PART,
                ("weight = tl.exp(score - peak)", "weight = tl.exp((score - peak).to(tl.float32))"),
            ),
            "keep fp32/tf32",
        ),
        Case(_BY_TYPE, "cast P to input dtype"),
        Case(_TWO_LOOPS, "cast P to input dtype"),
        Case(FLASH_THREADS, "cast P to input dtype"),
        Case(_OTHERS, _MATCHED),
        Case(_OTHERS_TILE, _MATCHED),
        Case(_OTHERS_EITHER, _MATCHED),
    )
    near_misses = (
        NearMiss(
            vary(
                PRODUCT,
                ("ct.mma(x, y, acc)", "ct.mma(x.astype(out.dtype), y.astype(out.dtype), acc)"),
            ),
            why="loaded tiles are cast, not results of a product",
        ),
        NearMiss(
            vary(_OTHERS, ("x.to(b.dtype", "x.to(a.dtype")), why="the type that it was loaded in"
        ),
        NearMiss(
            vary(_OTHERS, (".element_ty), y)", ".element_ty), y.to(tl.float16))")),
            why="both are cast",
        ),
        NearMiss(
            vary(ATTENTION, ("p.astype(a.dtype)", "p.astype(ct.tfloat32)")),
            why="what the matrix unit makes of 32 bits anyway",
            value="cast P to input dtype",
        ),
        NearMiss(PRODUCT_POINTER, why="no operand is computed from a product"),
        NearMiss(PRODUCT_THREADS, why="no operand is computed from a product"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found = narrowing(facts)
        if found.casts:
            states = [cast for cast, _ in stored_states(facts)]
            yield self.decide(facts, "cast P to input dtype", [*found.casts, *found.into, *states])
        if found.matched:
            yield self.decide(facts, _MATCHED, dict.fromkeys(found.matched))
        if found.kept:
            yield self.decide(facts, "keep fp32/tf32", found.kept)
