"""Where a rotation has its sines and cosines from: computed in the kernel, or read from a table."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.rotations import Turn, rotations
from kb.evidence import Decision
from kb.ops import REDUCTIONS, OpKind

_TURN = (
    POINTER
    + """
@triton.jit
def turn(x, out, n, base, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    angle = row * tl.exp(at * base)
    c = tl.cos(angle)
    s = tl.sin(angle)
    a = tl.load(x + row * n + at)
    b = tl.load(x + row * n + T + at)
    tl.store(out + row * n + at, a * c - b * s)
    tl.store(out + row * n + T + at, a * s + b * c)
"""
)
_TABLE = vary(
    _TURN,
    ("    angle = row * tl.exp(at * base)\n", ""),
    ("tl.cos(angle)", "tl.load(base + row * n + at)"),
    ("tl.sin(angle)", "tl.load(base + row * n + T + at)"),
)
_TABLE_TILE = (
    TILE
    + """
@ct.kernel
def turn(x, cos, sin, out, T: Int):
    row = ct.bid(0)
    c = ct.load(cos, index=(row, 0), shape=(1, T))
    s = ct.load(sin, index=(row, 0), shape=(1, T))
    a = ct.load(x, index=(row, 0), shape=(1, T))
    b = ct.load(x, index=(row, 1), shape=(1, T))
    ct.store(out, index=(row, 0), tile=a * c - b * s)
    ct.store(out, index=(row, 1), tile=b * c + a * s)
"""
)
_THREADS = """__global__ void turn(const float* x, float* out, float base, int h) {
    int row = blockIdx.x;
    int at = threadIdx.x;
    float c, s;
    sincosf(row * powf(base, at), &s, &c);
    float a = x[row * 2 * h + at];
    float b = x[row * 2 * h + at + h];
    out[row * 2 * h + at] = a * c - b * s;
    out[row * 2 * h + at + h] = b * c + a * s;
}
"""
_SIGNED = """__global__ void turn(half* x, const half* c, const half* s, int far, int wide) {
    int at = blockIdx.x * wide + threadIdx.x;
    half k = c[threadIdx.x], l = s[threadIdx.x];
    half u = x[at], w = x[at + far];
    x[at] = __hfma(u, k, __hmul(w, __hneg(l)));
    x[at + far] = __hfma(w, k, __hmul(u, l));
}
"""
_WAVES = """__global__ void embed(const float* times, float* out, int half, float rate) {
    float time = times[blockIdx.x];
    for (int i = threadIdx.x; i < half; i += blockDim.x) {
        float angle = time * expf(-rate * i);
        out[blockIdx.x * half * 2 + i] = cosf(angle);
        out[blockIdx.x * half * 2 + half + i] = sinf(angle);
    }
}
"""
_ADDS = CASTS | VIEWS | {OpKind.ADD, OpKind.SUB, OpKind.FMA, OpKind.YIELD}
_COMPUTED = "sines and cosines computed in the kernel"
_FREQUENCIES = "frequencies, sines and cosines computed in the kernel"
_READ = "sines and cosines read from a table"


class RotationAngles(Pattern):
    """The factors of a rotation are sines and cosines that the kernel takes, or loads; or it takes
    those of angles whose frequencies are powers of an element's number."""

    name = "sines-and-cosines-of-a-rotation"
    axis = "recompute"
    source = "Su et al., RoFormer (2021), section 3.4: rotary position embedding"
    matches = (
        Case(_TURN, _COMPUTED),
        Case(_TABLE, _READ),
        Case(_TABLE_TILE, _READ),
        Case(_THREADS, _COMPUTED),
        Case(_WAVES, _FREQUENCIES),
        Case(_SIGNED, _READ),
    )
    near_misses = (
        NearMiss(
            vary(_TURN, ("a * c - b * s", "a * c - s")),
            why="no rotation: one element",
            value=_COMPUTED,
        ),
        NearMiss(vary(_TABLE, ("a * c - b * s", "a * c + b * s")), why="added twice"),
        NearMiss(
            vary(_TABLE_TILE, ("a * c - b * s", "a * c + b * s")), why="added twice, no rotation"
        ),
        NearMiss(
            vary(_THREADS, ("a * c - b * s", "a * c + b * s")),
            why="added twice, no rotation",
            value=_COMPUTED,
        ),
        NearMiss(
            vary(
                _TABLE,
                ("a * c - b * s", "tl.sum(a * c - b * s)"),
                ("a * s + b * c", "tl.sum(a * s + b * c)"),
            ),
            why="a product of complex numbers, summed",
        ),
        NearMiss(_SIGNED.replace("__hneg(l)", "l"), why="added twice, no rotation"),
        NearMiss(_WAVES.replace("sinf", "cosf"), why="only cosines"),
        NearMiss(_WAVES.replace("expf(-rate * i)", "rate"), why="one frequency, and given"),
        NearMiss(ADD_POINTER, why="no rotation"),
        NearMiss(PRODUCT, why="no rotation"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        turns = rotations(facts)
        if not turns and (both := _both(facts)):
            yield self.decide(facts, _COMPUTED, both)
        elif not turns and (waves := _of_frequencies(facts)):
            yield self.decide(facts, _FREQUENCIES, waves)
        for made in (True, False):
            nodes = [
                node
                for turn in turns
                for node in (_taken(facts, turn) if made else _loaded(facts, turn))
            ]
            if nodes:
                yield self.decide(facts, _COMPUTED if made else _READ, nodes)
                return


def _both(facts: Facts) -> list[Node]:
    """Sines and cosines of the same angles of which both multiply loaded elements that go into one
    store, where what they turn is held in registers that are told apart by numbers alone."""
    found: list[Node] = []
    for nodes in _by_angle(facts).values():
        users = {u.op.kind for n in nodes for u in facts.graph.users(n.result)}
        if not users & {OpKind.MUL, OpKind.FMA, *CASTS}:
            found += nodes if all(_multiplies(facts, n) for n in nodes) else ()
    return found


def _of_frequencies(facts: Facts) -> list[Node]:
    """Sines and cosines of the same angles, both of which are stored, or what is made of them, with
    the powers of an element's number that the angles are made of."""
    found: list[Node] = []
    for angle, nodes in _by_angle(facts).items():
        powers = [
            n for n in facts.graph.roots(angle, OpKind.EXP, OpKind.EXP2, OpKind.POW)
            if facts.graph.roots(n.result, OpKind.ARANGE)
        ]  # fmt: skip
        kept = [n for n in nodes if any(facts.graph.rests_on(s.value, n) for s in facts.stores)]
        if powers and len(kept) == len(nodes):
            found += [*powers, *nodes]
    return found


def _by_angle(facts: Facts) -> dict[str, list[Node]]:
    """Angles of which both the sine and the cosine are taken."""
    taken: dict[str, list[Node]] = {}
    for node in facts.graph.of(OpKind.SIN, OpKind.COS):
        taken.setdefault(facts.graph.core(node.op.inputs[0]) or "", []).append(node)
    return {
        angle: nodes
        for angle, nodes in taken.items()
        if {n.op.kind for n in nodes} == {OpKind.SIN, OpKind.COS}
    }


def _multiplies(facts: Facts, node: Node) -> bool:
    """Whether loaded elements are multiplied by it and stored."""
    return any(
        user.op.kind in (OpKind.MUL, OpKind.FMA)
        and any(facts.feeding(v) for v in user.op.inputs[:2] if not facts.graph.rests_on(v, node))
        and facts.stored_in(user.result)
        for user in facts.graph.downstream(node.result, 200)
    )


def _taken(facts: Facts, turn: Turn) -> list[Node | Access]:
    return [n for value in turn.by for n in facts.graph.roots(value, OpKind.SIN, OpKind.COS)]


def _loaded(facts: Facts, turn: Turn) -> list[Node | Access]:
    """Loads of the factors, where what was turned is stored; a sum of it is a product of complex
    numbers. Where both sides are loaded alike, the factors are those that lie less as the result
    does."""
    if _summed(facts, turn.node.result):
        return []
    sides = [
        [a for value in pair for a in facts.held_loads(value) or facts.feeding(value)]
        for pair in (turn.by, turn.turned)
    ]
    placed = {
        atom for s in facts.stored_in(turn.node.result) for e in s.index for atom in e.atoms()
    }
    shared = [
        len({atom for a in side for e in a.index for atom in e.atoms()} & placed) for side in sides
    ]
    return [*sides[1 if shared[1] < shared[0] and sides[1] else 0]]


def _summed(facts: Facts, value: str) -> bool:
    """Whether a value goes into a reduction, by itself or added to others."""
    pending, seen = [value], {value}
    for current in pending:
        for user in facts.graph.users(current):
            if user.kind in REDUCTIONS:
                return True
            if user.kind in _ADDS:
                new = [v for v in facts.graph.onward(user, current) if v not in seen]
                seen.update(new)
                pending += new
    return False
