"""What an access tells the caches."""

from __future__ import annotations

import re
from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import vary
from extractors.patterns.cases_rows import ADD_POINTER, COPY
from extractors.patterns.cases_rows_threads import ADD_THREADS, ONE_THREAD
from kb.analysis.accesses import Mode
from kb.analysis.facts import Facts
from kb.evidence import Decision
from kb.ops import OpKind

_NAMES = {".cs": "streaming (.cs)", ".ca": "cache at all levels (.ca)", ".cg": "cache at L2 (.cg)",
          ".wb": "write back (.wb)", ".wt": "write through (.wt)", ".cv": "do not cache (.cv)",
          ".nc": "read-only"}  # fmt: skip
_GIVEN = "given by the caller"
_LEVELS = re.compile(r"L[12]::\w+")
"""What a copy into shared memory asks of a cache beyond the one that its width makes it pass."""

_COPIED = """__global__ void stage(const float* x, float* out) {
    __shared__ float part[1024];
    unsigned to = __cvta_generic_to_shared(part + threadIdx.x * 4);
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;"
                 ::"r"(to), "l"(x + threadIdx.x * 4));
    asm volatile("cp.async.wait_all;");
    __syncthreads();
    out[threadIdx.x] = part[threadIdx.x];
}
"""
_BY_PARAMETER = vary(
    ADD_POINTER,
    ("T: tl.constexpr", "T: tl.constexpr, KEEP: tl.constexpr"),
    ("x + at, mask=inside)", "x + at, mask=inside, eviction_policy=KEEP)"),
)
_LAST = ("KEEP: tl.constexpr", 'KEEP: tl.constexpr = "evict_last"')


class CacheModifier(Pattern):
    """The cache modifier or eviction policy of a load or store; none where pointers could carry
    one."""

    name = "cache-modifier-per-access"
    axis = "cache_hint"
    source = "NVIDIA, PTX ISA, cache operators; Triton documentation, load: eviction_policy"
    matches = (
        Case(
            vary(
                ADD_POINTER,
                ("x + at, mask=inside)", 'x + at, mask=inside, eviction_policy="evict_first")'),
            ),
            "evict_first",
        ),
        Case(
            vary(
                ADD_POINTER, ("x + at, mask=inside)", 'x + at, mask=inside, cache_modifier=".cs")')
            ),
            "streaming (.cs)",
        ),
        Case(_BY_PARAMETER, "given by the caller"),
        Case(
            vary(_BY_PARAMETER, ("KEEP: tl.constexpr", 'KEEP: tl.constexpr = "evict_last"')),
            "evict_last",
        ),
        Case(ADD_POINTER, "none"),
        Case(ADD_THREADS, "none"),
        Case(ONE_THREAD, "none"),
        Case(
            vary(ADD_THREADS, ("out[at] = x[at] + y[at]", "__stcs(out + at, x[at] + y[at])")),
            "streaming (.cs)",
        ),
        Case(vary(ADD_THREADS, ("= x[at]", "= __ldg(x + at)")), "read-only"),
        Case(_COPIED, "L2::128B"),
    )
    near_misses = (
        NearMiss(ADD_POINTER, why="no modifier is given", value="streaming (.cs)"),
        NearMiss(_BY_PARAMETER, why="a modifier is given", value="none"),
        NearMiss(
            _COPIED.replace(".L2::128B", ""), why="the width of the copy asks for it", value="cg"
        ),
        NearMiss(COPY, why="tiles of views carry no such hint"),
        NearMiss(ADD_THREADS, why="no modifier is given", value="streaming (.cs)"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: dict[str, list[Where]] = {}
        handed = {p.name: str(p.default or "") for p in facts.kernel.entry.parameters}
        for access in facts.accesses:
            for role in ("cache_modifier", "eviction_policy"):
                asked = facts.graph.core(access.node.op.operand(role))
                literal = facts.values.literal(asked)
                if isinstance(literal, str) and literal:
                    found.setdefault(_NAMES.get(literal, literal), []).append(access)
                elif asked in handed and asked is not None:
                    value = handed[asked] or _GIVEN
                    where: list[Where] = [*facts.declared(asked), access]
                    found.setdefault(_NAMES.get(value, value), []).extend(where)
            said = access.node.op.attribute("cache")
            if isinstance(said, str):
                found.setdefault(_NAMES.get(f".{said}", said), []).append(access)
        for copy in facts.threads.of(OpKind.ASYNC_COPY):
            levels = _LEVELS.findall(str(copy.op.attribute("cache") or ""))
            if levels:
                found.setdefault(".".join(levels), []).append(copy)
        for value, members in found.items():
            yield self.decide(facts, value, members)
        plain = [a for a in facts.accesses if a.mode is Mode.POINTER and not a.is_atomic]
        threads = facts.of_threads
        if not found and plain and (threads or any(facts.types.shape(a.value) for a in plain)):
            yield self.decide(facts, "none", plain)
