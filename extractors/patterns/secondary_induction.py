"""How an index follows the iterations: through the loop variable, or through a counter of its
own."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_pointer import PRODUCT_DESCRIPTOR
from extractors.patterns.cases_rows import SOFTMAX_CHUNKS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import COPIES, Node
from kb.analysis.loops import Carried, Role
from kb.analysis.rounds import tested
from kb.evidence import Decision
from kb.ops import COMPARISONS, OpKind

_COUNTED = vary(
    PRODUCT,
    ("    for k in range(", "    at = 0\n    for k in range("),
    ("index=(m, k)", "index=(m, at)"), ("index=(k, n)", "index=(at, n)"),
    ("acc = ct.mma(x, y, acc)", "acc = ct.mma(x, y, acc)\n        at += 1"),
)  # fmt: skip


_COUNTED_THREADS = vary(
    PRODUCT_THREADS,
    ("    float acc = 0.f;", "    float acc = 0.f;\n    int cnt = 0;"),
    ("b[(t + threadIdx.y) * N + n]", "b[(cnt + threadIdx.y) * N + n]"),
    ("        __syncthreads();\n    }", "        __syncthreads();\n        cnt += T;\n    }"),
)


_BOUNDED_THREADS = """template <bool EVEN>
__global__ void copy(const float4* x, float4* out, int rounds, int left) {
    int at = blockIdx.x * rounds * blockDim.x + threadIdx.x;
    for (int i = 0; i < rounds; i++) {
        if (EVEN || i < left) {
            out[at] = x[at];
            at += blockDim.x;
        }
    }
}
"""


_ADVANCED = (
    POINTER
    + """
@triton.jit
def total(x, out, n, k, T: tl.constexpr):
    row = tl.program_id(0)
    p = tl.make_block_ptr(x, (n, k), (k, 1), (row * T, 0), (T, T), (1, 0))
    acc = tl.zeros([T, T], dtype=tl.float32)
    for _ in range(0, k, T):
        acc += tl.load(p, boundary_check=(0, 1))
        p = tl.advance(p, (0, T))
    tl.store(out + row * T + tl.arange(0, T), tl.sum(acc, axis=1))
"""
)


_EITHER_WAY = vary(
    PRODUCT_POINTER,
    ("TM: tl.constexpr", "BACK: tl.constexpr, TM: tl.constexpr"),
    ("        pa += TK\n", "        pa += (TK if not BACK else -TK)\n"),
    ("        pb += TK * sb\n", ""),
)


_PAIRS_THREADS = """__global__ void move(const float* x, float* out, int n) {
    int i = threadIdx.x;
    for (; i + blockDim.x < n; i += 2 * blockDim.x) {
        out[i] = x[i];
        out[i + blockDim.x] = x[i + blockDim.x];
    }
}
"""
_HANDED = COPIES | COMPARISONS | {
    OpKind.IF, OpKind.IF_EXPRESSION, OpKind.SELECT, OpKind.AND, OpKind.OR,
}  # fmt: skip


class SecondaryInduction(Pattern):
    """A carried integer or pointer grows by the same amount every time and addresses memory."""

    name = "secondary-induction-variable-for-tile-index"
    axis = "index_derivation"
    source = "Aho et al., Compilers, induction variables and strength reduction"
    matches = (
        Case(_COUNTED, "carried counter cnt += 1"),
        Case(PRODUCT_POINTER, "carried pointer advanced by a stride"),
        Case(_ADVANCED, "carried pointer advanced by a stride"),
        Case(_COUNTED_THREADS, "carried counter cnt += 1"),
        Case(_EITHER_WAY, "carried pointer advanced by a stride"),
        Case(_BOUNDED_THREADS, "carried counter cnt += 1"),
    )
    near_misses = (
        NearMiss(PRODUCT, why="the loop variable is the index"),
        NearMiss(
            _BOUNDED_THREADS.replace("i < left", "x[i].x > 0.f"),
            why="what is loaded says whether the counter goes on",
        ),
        NearMiss(
            _BOUNDED_THREADS.replace("i < left", "left < i"),
            why="the counter waits before it goes on",
        ),
        NearMiss(
            vary(_EITHER_WAY, ("if not BACK else", "if not tl.load(a + t) > 0 else")),
            why="the way is chosen anew in every round",
        ),
        NearMiss(
            vary(_ADVANCED, ("        p = tl.advance(p, (0, T))\n", "")),
            why="the block stays where it is",
        ),
        NearMiss(_PAIRS_THREADS, why="the loop goes on while there are two more of it"),
        NearMiss(SOFTMAX_CHUNKS, why="the loop variable is scaled"),
        NearMiss(PRODUCT_DESCRIPTOR, why="the loop variable is the index"),
        NearMiss(PRODUCT_THREADS, why="the loop variable is the index"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        counters: list[Node] = []
        pointers: list[Node] = []
        for loop in facts.loops:
            for state in loop.of(Role.COUNTER):
                own = facts.of_threads and state in tested(loop)
                if own or not self._addresses(facts, state):
                    continue
                shaped = bool(facts.types.shape(state.argument)) and not facts.of_threads
                pointer = facts.types.of(state.argument).kind in ("pointer", "array")
                steps = [
                    n
                    for n in facts.graph.upstream(state.next, _grown)
                    if n.inside(loop.node) and n.op.kind not in _HANDED
                ]  # fmt: skip
                (pointers if shaped or pointer else counters).extend(steps)
        pointers += [n for n in facts.graph.of(OpKind.ADVANCE) if n.loops and _carried(facts, n)]
        if counters:
            yield self.decide(facts, "carried counter cnt += 1", counters)
        if pointers:
            yield self.decide(facts, "carried pointer advanced by a stride", pointers)

    def _addresses(self, facts: Facts, state: Carried) -> bool:
        grows = facts.values.increments.get(state.argument)
        if grows is None or grows.constant == 0:
            return False
        roles = ("index", "pointer", "descriptor", "offsets", "item", "lhs", "rhs")
        users = [n for n, role in facts.graph.uses.get(state.argument, ()) if role in roles]
        return any(
            facts.graph.rests_on(value, user) or user is a.node
            for user in users
            for a in facts.accesses
            for role, value in a.node.op.operands
            if role in ("index", "pointer", "offsets")
        )


def _carried(facts: Facts, node: Node) -> bool:
    """True for a pointer that a loop carries, not for a part of an array that is chosen anew."""
    above = facts.graph.upstream(
        node.op.inputs[0], lambda n: n.op.kind not in COPIES | {OpKind.ADVANCE}
    )
    starts = [node.op.inputs[0], *(n.op.inputs[0] for n in above if n.op.kind == OpKind.ADVANCE)]
    return any(facts.graph.core(value) in facts.graph.arguments for value in starts)


def _grown(node: Node) -> bool:
    """Where a carried value was grown, below the branches that leave it as it was."""
    return node.op.kind not in COPIES | {OpKind.IF, OpKind.IF_EXPRESSION, OpKind.SELECT}
