"""How far ahead loads are asked for."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import COPY, ROW_NORM_CHUNKS
from extractors.patterns.cases_rows_pointer import COPY_POINTER, ROW_NORM_CHUNKS_POINTER
from extractors.patterns.cases_rows_threads import COPY_THREADS, ROW_NORM_CHUNKS_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from extractors.patterns.product_summed import SUM_THREADS
from kb.analysis import symbolic as s
from kb.analysis.accesses import Access
from kb.analysis.buffers import turned_over
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import AtomKind
from kb.analysis.thread_products import thread_products
from kb.dialects.registry import latency_hints
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, READS, OpKind

_BUFFERED = """#include <cuda_pipeline.h>
__global__ void stage(const float* x, float* out, int n) {
    __shared__ float buf[2][256];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&buf[0][t], &x[t], 4);
    __pipeline_commit();
    float acc = 0.f;
    for (int i = 1; i < n; ++i) {
        __pipeline_memcpy_async(&buf[i & 1][t], &x[i * 256 + t], 4);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        acc += buf[(i + 1) & 1][t];
        __syncthreads();
    }
    out[blockIdx.x * 256 + t] = acc;
}
"""

_TURNED_OVER = """__global__ void sums(const float* x, float* out, int n) {
    __shared__ float part[2][256];
    int now = 0;
    float acc = 0.f;
    part[0][threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    for (int i = 256; i < n; i += 256) {
        part[now ^ 1][threadIdx.x] = x[i + threadIdx.x];
        acc += part[now][255 - threadIdx.x];
        __syncthreads();
        now ^= 1;
    }
    out[threadIdx.x] = acc + part[now][255 - threadIdx.x];
}
"""
_RING = """#include <cstdint>
__device__ void fill(uint32_t to, const void* from, uint32_t bar) {
    asm volatile("cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%0], [%1], 4096, [%2];"
                 :: "r"(to), "l"(from), "r"(bar) : "memory");
}
__device__ void await(uint32_t bar, uint32_t parity) {
    asm volatile("{ .reg .pred P; LAB_A: mbarrier.try_wait.parity.shared::cta.b64 P, [%0], %1; @P bra DONE; bra LAB_A; DONE: }"
                 :: "r"(bar), "r"(parity) : "memory");
}
template <int DEEP> __global__ void sums(const float* x, float* out, int n) {
    extern __shared__ char held[];
    uint32_t base = (uint32_t)__cvta_generic_to_shared(held);
    if (threadIdx.x < 32) {
        for (int i = 0; i < n; ++i) {
            int slot = i % DEEP;
            await(base + 64 + slot * 8, (i / DEEP & 1) ^ 1);
            fill(base + 1024 + slot * 4096, x + i * 1024, base + slot * 8);
        }
    } else {
        float acc = 0.f;
        for (int i = 0; i < n; ++i) {
            await(base + (i % DEEP) * 8, i / DEEP & 1);
            acc += *(float*)(held + 1024 + (i % DEEP) * 4096 + threadIdx.x * 4);
        }
        out[threadIdx.x] = acc;
    }
}
"""  # noqa: E501
_ONE_BUFFER = _TURNED_OVER.replace("[now ^ 1]", "[0]").replace("[now]", "[0]")


class PrefetchDepth(Pattern):
    """A hint on a load or store, or on the loop around it."""

    name = "software-pipelining-depth-hint-per-memory-op"
    axis = "prefetch_depth"
    source = "cuTile documentation, load: latency; Triton documentation, tl.range: num_stages"
    matches = (
        Case(ATTENTION, "latency 2"),
        Case(
            vary(
                PRODUCT_POINTER,
                ("in range(0, tl.cdiv(K, TK))", "in tl.range(0, tl.cdiv(K, TK), num_stages=3)"),
            ),
            "num_stages 3",
        ),
        Case(PRODUCT, "compiler-inferred"),
        Case(PRODUCT_THREADS, "compiler-inferred"),
        Case(_BUFFERED, "manual double buffering"),
        Case(_RING, "num_stages DEEP"),
        Case(_TURNED_OVER, "manual double buffering"),
        Case(_BUFFERED.replace("wait_prior(1)", "wait_prior(0)"), "num_stages 1"),
        Case(SUM_THREADS, "compiler-inferred"),
        Case(ROW_NORM_CHUNKS, "compiler-inferred"),
        Case(ROW_NORM_CHUNKS_POINTER, "compiler-inferred"),
        Case(COPY, "compiler-inferred"),
    )
    near_misses = (
        NearMiss(_RING.replace("i % DEEP", "0"), why="one buffer, no ring"),
        NearMiss(_ONE_BUFFER, why="what is read is what was just written"),
        NearMiss(COPY_POINTER, why="no loop, no hint"),
        NearMiss(COPY_THREADS, why="no loop, no hint"),
        NearMiss(vary(SUM_THREADS, ("a[row", "(row")), why="one side alone is loaded"),
        NearMiss(
            vary(ROW_NORM_CHUNKS, ("j * T + lanes))", "j * T + lanes), latency=4)")),
            why="the loads say how far ahead",
            value="compiler-inferred",
        ),
        NearMiss(ROW_NORM_CHUNKS_THREADS, why="loads of this language take no hint"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        hinted = [a for a in facts.accesses if a.latency is not None]
        groups: dict[str, list[Access]] = {}
        for access in hinted:
            groups.setdefault(_depth(facts, access), []).append(access)
        for value, members in groups.items():
            arrays = dict.fromkeys(a.array for a in members if a.array is not None)
            given = [facts.graph.producer(a.latency) for a in members]
            yield self.decide(facts, value, [*members, *given], ", ".join(arrays) or None)
        staged = False
        for loop in facts.loops:
            stages = loop.range.op.operand("num_stages") if loop.range is not None else None
            if stages is not None:
                staged = True
                number = facts.values.expr(stages).constant
                yield self.decide(
                    facts,
                    f"num_stages {number if number is not None else 'by parameter'}",
                    (loop.range,),
                )
        copies = facts.threads.of(OpKind.ASYNC_COPY, OpKind.BULK_COPY)
        waits = [n for n in facts.threads.of(OpKind.ASYNC_WAIT) if n.loop and _of_copies(n)]
        waits = [n for n in waits if n.loop and any(c.inside(n.loop) for c in copies)] or waits
        depths: dict[str, list[Node]] = {}
        for wait in waits if copies else ():
            staged = True
            depths.setdefault(_stages(facts, wait), []).append(wait)
        if len(depths) > 1:
            depths.pop("num_stages 1", None)  # the last copies are waited for, too
        for value, same in depths.items():
            yield self.decide(facts, value, [*copies, *same])
        rings = _rings(facts, copies) if not depths else {}
        for value, same in rings.items():
            yield self.decide(facts, value, same)
        turned = turned_over(facts) if not copies else []
        if turned:
            yield self.decide(facts, "manual double buffering", turned)
        if not hinted and not staged and not turned and not copies:
            fed = self._fed(facts)
            if fed:
                heads = [a.loop for a in fed if a.loop is not None]
                yield self.decide(facts, "compiler-inferred", [*fed, *heads])

    def _fed(self, facts: Facts) -> list[Access]:
        """Loads in a loop that feed its matrix products, or the products that threads add up; where
        a program of tiles has no products, all of its loops. In a language whose loads may be given
        a latency, all that there are where none is in a loop."""
        products = [p for p in facts.contractions if p.op.kind in CONTRACTIONS]
        if not products:
            fed = {a.node: a for _, pair in thread_products(facts) for loads in pair for a in loads}
            if fed or facts.of_threads:
                return [a for a in fed.values() if a.loop is not None]
            rolled = {loop.node for loop in facts.rolled_loops}
            inside = [a for a in facts.loads if a.loop in rolled]
            return inside or ([*facts.loads] if latency_hints(facts.kernel.dialect) else [])
        return [
            a
            for a in facts.loads
            if a.loop is not None and any(facts.graph.rests_on(p.result, a.node) for p in products)
        ]


def _of_copies(wait: Node) -> bool:
    """Whether a wait is for copies into shared memory: not for matrix products, nor for groups of
    bulk copies, which are stores."""
    others = ("wgmma", "tcgen05", "cp.async.bulk", "store")
    return not str(wait.op.attribute("opcode") or "").startswith(others)


def _rings(facts: Facts, copies: list[Node]) -> dict[str, list[Node]]:
    """Copies in a loop that a barrier waits for, by the number of buffers that they go round."""
    found: dict[str, list[Node]] = {}
    if not facts.threads.of(OpKind.BARRIER_WAIT):
        return found
    for copy in (c for c in copies if c.loop and not c.op.operand("source")):
        made = facts.threads.producer(copy.op.operand("target"))
        count = s.number(1)
        if made is not None and made.op.kind == OpKind.ADVANCE:
            made = facts.threads.producer(made.op.operand("pointer"))
            shape = _outermost(facts, made)
            count = facts.thread_values.expr(shape[0]) if shape else s.number(0)
        if made is not None and made.op.kind == OpKind.ALLOCATE and count != s.number(0):
            found.setdefault(f"num_stages {count}", []).append(copy)
        for turn in () if found else _turns(facts, copy):
            count = facts.thread_values.expr(turn.op.inputs[1])
            waits = [w for w in facts.threads.of(OpKind.BARRIER_WAIT) if w.loop in copy.loops]
            found.setdefault(f"num_stages {count}", []).extend((copy, turn, *waits))
    return found


def _outermost(facts: Facts, made: Node | None) -> tuple[str, ...]:
    """The extents of an array, as far as they are written out: those before a shape that is put
    behind them."""
    shape = made.op.operand("shape") if made is not None else None
    joined = facts.threads.producer(shape)
    if joined is not None and joined.op.kind == OpKind.ADD:
        return facts.thread_values.items(joined.op.inputs[0])
    return facts.thread_values.items(shape)


def _turns(facts: Facts, copy: Node) -> list[Node]:
    """Where the rounds of a loop around a copy, or a counter of them, start again from the first
    buffer: a remainder in the address that is filled."""
    target = copy.op.operand("target") or next(iter(copy.op.inputs), "")
    return [
        node
        for node in facts.threads.upstream(target, lambda n: n.op.kind in READS)
        if node.op.kind == OpKind.MOD and _of_rounds(facts, node, copy)
    ]


def _of_rounds(facts: Facts, turn: Node, copy: Node) -> bool:
    """Whether what is divided counts rounds: of a loop around the copy, or carried by one."""
    atoms = facts.thread_values.expr(turn.op.inputs[0]).atoms()
    if any(atom.kind is AtomKind.INDUCTION for atom in atoms):
        return any(loop in copy.loops for loop in turn.loops)
    return any(
        held is not None and held[0] in copy.loops and held[2] > 0
        for node in facts.threads.upstream(turn.op.inputs[0], lambda n: n.op.kind != OpKind.ADD)
        for held in (facts.threads.arguments.get(v) for v in (*node.op.inputs, turn.op.inputs[0]))
    )


def _stages(facts: Facts, wait: Node) -> str:
    """Groups of copies that a wait leaves under way, and the one that it waits for."""
    given = wait.op.operand("pending")
    made = facts.threads.producer(given)
    number = made.op.attribute("value") if made is not None else 0
    if isinstance(number, int):
        return "manual double buffering" if number == 1 else f"num_stages {number + 1}"
    return f"num_stages {s.add(facts.thread_values.expr(given or ''), s.number(1))}"


def _depth(facts: Facts, access: Access) -> str:
    number = facts.values.expr(access.latency).constant
    return f"latency {number}" if number is not None else "latency by parameter"
