"""Whether the copy engine may serve an access."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_pointer import PRODUCT_DESCRIPTOR
from extractors.patterns.cases_rows import NORM_PERSISTENT
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.evidence import Decision
from kb.ops import OpKind

_COPIES = (
    (OpKind.ASYNC_COPY, "asynchronous copies by threads"),
    (OpKind.BULK_COPY, "bulk copies by the copy engine"),
)
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


class TmaChoice(Pattern):
    """The flag of an access that allows or forbids the tensor memory accelerator; or copies into
    shared memory that no register holds."""

    name = "per-access-tma-opt-in-opt-out"
    axis = "copy_engine"
    source = "cuTile documentation, load and store: allow_tma"
    matches = (
        Case(NORM_PERSISTENT, "allow_tma=False"),
        Case(vary(NORM_PERSISTENT, ("allow_tma=False", "allow_tma=True")), "allow_tma=True"),
        Case(PRODUCT_DESCRIPTOR, "tensor descriptors"),
        Case(_ASYNC, "asynchronous copies by threads"),
    )
    near_misses = (
        NearMiss(PRODUCT, why="the compiler may choose"),
        NearMiss(PRODUCT_POINTER, why="the compiler may choose"),
        NearMiss(PRODUCT_THREADS, why="the compiler may choose"),
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
        if described and facts.program is facts.source:
            yield self.decide(facts, "tensor descriptors", described)
        for kind, value in _COPIES:
            copies = facts.threads.of(kind)
            if copies:
                yield self.decide(facts, value, copies)
