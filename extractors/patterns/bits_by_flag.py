"""Results that are stored in one of two types, by a flag."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, combinations

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, TURNS, VIEWS, Node
from kb.evidence import Decision

_EITHER = (
    POINTER
    + """
@triton.jit
def either(x, out, n, SHORT: tl.constexpr, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n).to(tl.float32) * 2.0
    if SHORT:
        tl.store(out + at, v.to(tl.bfloat16), mask=at < n)
    else:
        tl.store(out + at, v.to(tl.float16), mask=at < n)
"""
)
_EITHER_TILE = """import cuda.tile as ct
@ct.kernel
def either(x, out, SHORT: ct.Constant[bool], T: ct.Constant[int]):
    v = ct.astype(ct.load(x, index=(ct.bid(0),), shape=(T,)), ct.float32) * 2.0
    if SHORT:
        ct.store(out, index=(ct.bid(0),), tile=ct.astype(v, ct.bfloat16))
    else:
        ct.store(out, index=(ct.bid(0),), tile=v)
"""
_EITHER_THREADS = """#include <cuda_fp16.h>
template <bool SHORT>
__global__ void either(const float* x, void* out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[at] * 2.f;
    if constexpr (SHORT) {
        ((half*)out)[at] = __float2half(v);
    } else {
        ((float*)out)[at] = v;
    }
}
"""
_SHORT = ("f16", "bf16")
_LOOKS = VIEWS | TURNS


class BitsByFlag(Pattern):
    """On the two sides of a branch one computed value is stored into one array: on one side cast
    to 16 bits, on the other not, or to another 16-bit type."""

    name = "stored-in-one-of-two-types-by-a-flag"
    axis = "intermediate_dtype"
    source = "Micikevicius et al., Mixed Precision Training (2018)"
    matches = (
        Case(_EITHER, "stored in bf16 or f16, by a flag"),
        Case(_EITHER_TILE, "stored in bf16 or as computed, by a flag"),
        Case(_EITHER_THREADS, "stored in f16 or as computed, by a flag"),
    )
    near_misses = (
        NearMiss(vary(_EITHER, ("tl.float16", "tl.bfloat16")), why="one type"),
        NearMiss(vary(_EITHER, ("v.to(tl.float16)", "(v + 1).to(tl.float16)")), why="two values"),
        NearMiss(
            vary(_EITHER, ("    else:\n        tl.store", "    if SHORT:\n        tl.store")),
            why="no two sides",
        ),
        NearMiss(_EITHER_TILE.replace("ct.bfloat16", "ct.float32"), why="32 bits on both sides"),
        NearMiss(_EITHER_THREADS.replace("((float*)out)[at] = v;", ""), why="stored on one side"),
        NearMiss(PRODUCT, why="there is no flag"),
        NearMiss(PRODUCT_POINTER, why="there is no flag"),
        NearMiss(PRODUCT_THREADS, why="there is no flag"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: dict[str, list[Where]] = {}
        ends: dict[tuple[str | None, str | None], list[tuple[Access, Node | None, str]]] = {}
        for store in facts.stores:
            if not store.is_atomic and store.value:
                cast = _cast(facts, store)
                alike = (store.array, _made(facts, store, cast))
                ends.setdefault(alike, []).append((store, cast, _type(facts, cast)))
        for (one, cast, kind), (other, again, its) in chain.from_iterable(
            combinations(same, 2) for same in ends.values()
        ):
            if kind != its and one.node.excludes(other.node):
                names = sorted({kind, its} - {""}) + ["as computed"] * ("" in (kind, its))
                value = f"stored in {' or '.join(names)}, by a flag"
                places = [n for n in (cast, again) if n is not None]
                found.setdefault(value, []).extend((*places, one, other))
        for value, where in found.items():
            yield self.decide(facts, value, dict.fromkeys(where))


def _cast(facts: Facts, store: Access) -> Node | None:
    """The cast of a computed value right before it is stored."""
    made = facts.graph.producer(facts.graph.through(store.value, _LOOKS))
    return made if made is not None and made.op.kind in CASTS else None


def _type(facts: Facts, cast: Node | None) -> str:
    """The 16-bit type that is cast to; empty when none is."""
    kind = facts.types.dtype(cast.result) if cast is not None else ""
    return kind if kind in _SHORT else ""


def _made(facts: Facts, store: Access, cast: Node | None) -> str | None:
    below = cast.op.inputs[0] if cast is not None else store.value
    made = facts.graph.core(facts.graph.through(below, _LOOKS))
    return made if facts.feeding(made) else None
