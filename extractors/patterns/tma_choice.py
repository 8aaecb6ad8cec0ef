"""Whether the copy engine may serve an access."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_pointer import PRODUCT_DESCRIPTOR
from extractors.patterns.cases_rows import NORM_PERSISTENT
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, Node
from kb.dtypes import may_be_float
from kb.evidence import Decision
from kb.ops import READS, OpKind

_COPIES = (
    (OpKind.ASYNC_COPY, "asynchronous copies by threads"),
    (OpKind.BULK_COPY, "bulk copies by the copy engine"),
)
_SUMS = (
    OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV, OpKind.FMA, OpKind.MAXIMUM, OpKind.MINIMUM,
)  # fmt: skip
_HELD = CASTS | {OpKind.COPY, OpKind.EXTRACT, OpKind.BITCAST}
_ASYNC = """#include <cuda_pipeline.h>
__global__ void turn(const float4* x, float4* out) {
    __shared__ float4 buf[256];
    __pipeline_memcpy_async(&buf[threadIdx.x], &x[blockIdx.x * 256 + threadIdx.x], 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[blockIdx.x * 256 + threadIdx.x] = buf[255 - threadIdx.x];
}
"""
_MOVED = """__global__ void put(const uint4* rows, const int* slots, uint4* cache, int wide) {
    int slot = slots[blockIdx.x];
    for (int i = threadIdx.x; i < wide; i += blockDim.x)
        cache[slot * wide + i] = rows[blockIdx.x * wide + i];
}
"""
_DOUBLED = _MOVED.replace("uint4", "float4").replace(
    "        cache[slot * wide + i] = rows[blockIdx.x * wide + i];",
    "    { float4 v = rows[blockIdx.x * wide + i]; v.x *= 2.f; cache[slot * wide + i] = v; }",
)


class TmaChoice(Pattern):
    """The flag of an access that allows or forbids the tensor memory accelerator; or copies into
    shared memory that no register holds; or those that registers hold: of a product, or of a kernel
    that stores the vectors it loads and computes nothing of them."""

    name = "per-access-tma-opt-in-opt-out"
    axis = "copy_engine"
    source = "cuTile documentation, load and store: allow_tma"
    matches = (
        Case(NORM_PERSISTENT, "allow_tma=False"),
        Case(vary(NORM_PERSISTENT, ("allow_tma=False", "allow_tma=True")), "allow_tma=True"),
        Case(PRODUCT_DESCRIPTOR, "tensor descriptors"),
        Case(_ASYNC, "asynchronous copies by threads"),
        Case(PRODUCT_THREADS, "loads through registers"),
        Case(_MOVED, "loads through registers"),
    )
    near_misses = (
        NearMiss(PRODUCT, why="the compiler may choose"),
        NearMiss(PRODUCT_POINTER, why="the compiler may choose"),
        NearMiss(_ASYNC, why="no register holds what is copied", value="loads through registers"),
        NearMiss(
            _MOVED.replace("uint4", "float"),
            why="single elements",
            value="loads through registers",
        ),
        NearMiss(
            _DOUBLED,
            why="something is computed of what is loaded",
            value="loads through registers",
        ),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: dict[str, list[Access]] = {}
        for access in facts.accesses:
            if access.allow_tma is None:
                continue
            literal = facts.values.literal(access.allow_tma)
            value = (
                f"allow_tma={literal}" if isinstance(literal, bool) else "allow_tma by parameter"
            )
            found.setdefault(value, []).append(access)
        for value, members in found.items():
            yield self.decide(facts, value, members)
        described = [a for a in facts.accesses if a.mode is Mode.DESCRIPTOR]
        if described and not facts.of_threads:
            yield self.decide(facts, "tensor descriptors", described)
        for kind, value in _COPIES:
            copies = facts.threads.of(kind)
            if copies:
                yield self.decide(facts, value, copies)
        if not facts.of_threads:
            return
        staged: list[Where] = [*(_staged(facts) if facts.contractions else _moved(facts))]
        if staged:
            yield self.decide(facts, "loads through registers", staged)


def _staged(facts: Facts) -> list[Node]:
    """Stores to shared memory of what was just loaded, with their loads."""
    shared = facts.shared
    found: list[Node] = []
    for store in facts.threads.of(OpKind.STORE):
        value = facts.threads.through(store.op.operand("value"), _HELD)
        for load in facts.threads.ends(value, _HELD):
            if load.op.kind == OpKind.LOAD and shared.holds(store.op):
                if not shared.holds(load.op):
                    found += [load, store]
    return found


def _moved(facts: Facts) -> list[Access]:
    """Vectors that threads load and store as they are, with the stores; none where copies are left
    to another engine, or where anything is computed of what is loaded."""
    if facts.threads.of(*(kind for kind, _ in _COPIES)):
        return []
    types = facts.types
    found: dict[Access, None] = {}
    for store in facts.stores:
        above = facts.graph.upstream(store.value, lambda n: n.op.kind in READS)
        if any(n.op.kind in _SUMS and may_be_float(types.dtype(n.result)) for n in above):
            return []
        held = facts.held_loads(store.value) if not store.is_atomic else []
        same = [a for a in held if types.dtype(a.value) == types.dtype(store.value)]
        made = () if held else facts.feeding(store.value)
        if len(same) < len(held) or any(may_be_float(types.dtype(a.value)) for a in made):
            return []
        wide = [a for a in same if _vector(facts, a)]
        found |= dict.fromkeys([*wide, store] if wide else [])
    return [*found]


def _vector(facts: Facts, access: Access) -> bool:
    """Whether a thread moves several elements at once by their type."""
    made = facts.threads.producer(access.value)
    kinds = [r.type for r in made.op.results if r.name == access.value] if made is not None else []
    return any(kind is not None and kind.shape for kind in kinds)
