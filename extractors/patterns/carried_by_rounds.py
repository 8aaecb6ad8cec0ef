"""What rounds hand on besides sums: ends that draw near, counts, flags, a state, what was loaded
ahead; or nothing."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.accumulator_carried import AccumulatorCarried
from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases_threads import PRODUCT_THREADS
from extractors.patterns.shared_sums import SharedSums
from kb.analysis.carried_sums import leads
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.idioms import begun
from kb.analysis.loops import Carried, Loop, Role, updates
from kb.evidence import Decision
from kb.ir import TileType, TypeKind
from kb.ops import COMPARISONS, READS, WRITES, OpKind

_FOUND = """__global__ void found(const int* x, int* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    int same = 0;
    for (int i = 0; i < n; ++i) {
        if (x[i] == x[at]) ++same;
    }
    out[at] = same;
}
"""
_FLAG = """__global__ void seen(const int* x, int* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    bool seen = false;
    for (int i = 0; i < n; ++i) {
        if (x[i] == x[at]) seen = true;
    }
    if (!seen) out[at] = at;
}
"""
_NARROWED = """__global__ void place(const float* x, const float* at, int* out, int n) {
    int low = 0, high = n;
    float mine = at[blockIdx.x * blockDim.x + threadIdx.x];
    while (low < high) {
        int mid = (low + high) / 2;
        if (x[mid] < mine) low = mid + 1; else high = mid;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = low;
}
"""
_STATE = """template <int W>
__global__ void fade(const float* x, const float* by, float* out, int n) {
    float state[W];
    int own = (blockIdx.x * blockDim.x + threadIdx.x) * W;
#pragma unroll
    for (int i = 0; i < W; ++i) state[i] = x[own + i];
    for (int t = 0; t < n; ++t) {
        float top = 0.f;
#pragma unroll
        for (int i = 0; i < W; ++i) {
            state[i] = state[i] * by[t];
            top = fmaxf(top, state[i]);
        }
        out[t * blockDim.x + threadIdx.x] = top;
    }
}
"""
_AHEAD = """__global__ void copy(const float4* x, float4* out, int n) {
    int own = threadIdx.x;
    float4 now = x[own];
    for (int i = 0; i < n; ++i) {
        float4 next = now;
        if (i + 1 < n) next = x[(i + 1) * 32 + own];
        out[i * 32 + own] = now;
        now = next;
    }
}
"""
_COPIED = """__global__ void copy(const float* x, float* out, int n) {
    for (int i = 0; i < n; ++i)
        out[i * blockDim.x + threadIdx.x] = x[i * blockDim.x + threadIdx.x] * 2.f;
}
"""
_NOTHING = "no carry"
_STOPS = READS | COMPARISONS
_CHOOSING = (OpKind.SELECT, OpKind.IF)
_BETWEEN = (OpKind.ADD, OpKind.SUB, OpKind.FMA)
_PLACING = CASTS | {*_BETWEEN, OpKind.MUL, OpKind.DIV, OpKind.FLOOR_DIV, OpKind.SHIFT_RIGHT}
_WHOLE = ("i", "u")
"""How the names of types of whole numbers begin."""

_COMPUTING = frozenset({OpKind.MUL, OpKind.FMA})


class CarriedByRounds(Pattern):
    """What a loop of a thread that runs keeps from round to round, where it adds nothing up."""

    name = "values-kept-from-round-to-round"
    axis = "loop_carried_state"
    source = "Appel, Modern Compiler Implementation: values that are live around a loop"
    matches = (
        Case(_FOUND, "count of what is found"),
        Case(_FLAG, "flag that rounds set"),
        Case(_NARROWED, "range narrowed in every round"),
        Case(_STATE, "state in registers, updated in every round"),
        Case(_AHEAD, "loaded ahead for the next round"),
        Case(_COPIED, _NOTHING),
    )
    near_misses = (
        NearMiss(
            _FOUND.replace("if (x[i] == x[at]) ++same", "++same"), why="rounds are counted",
            value="count of what is found",
        ),
        NearMiss(
            _FLAG.replace("if (x[i] == x[at]) seen", "if (i == at) seen"),
            why="nothing that is loaded sets the flag",
            value="flag that rounds set",
        ),
        NearMiss(
            _NARROWED.replace("(low + high) / 2", "low"),
            why="no place between the ends",
            value="range narrowed in every round",
        ),
        NearMiss(
            _STATE.replace("state[i] * by[t]", "x[t] * by[t]"),
            why="every round begins anew",
            value="state in registers, updated in every round",
        ),
        NearMiss(
            _AHEAD.replace("now = next", "now = x[i]"),
            why="the round that comes next reads it anew",
            value="state in registers, updated in every round",
        ),
        NearMiss(PRODUCT_THREADS, why="a sum is carried, told as such"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: dict[str, list[Node | None]] = {}
        for loop in facts.rolled_loops if facts.of_threads else ():
            for value, states in _kept(facts, loop):
                found.setdefault(value, []).extend(_where(facts, states))
        for value, where in found.items():
            yield self.decide(facts, value, where)
        if not found and _nothing(facts):
            told = (AccumulatorCarried(), SharedSums())
            if not any(True for one in told for _ in one.seen(facts)):
                loops = [x.node for x in facts.rolled_loops]
                kept = [s for s in facts.stores if any(map(s.node.inside, loops))]
                yield self.decide(facts, _NOTHING, [*loops, *kept])


def _kept(facts: Facts, loop: Loop) -> Iterable[tuple[str, list[Carried]]]:
    """What a loop keeps, by what it is for."""
    several = [c for c in loop.carried if _of_choices(facts, loop, c)]
    chosen = [c for c in several if c.argument in _ways(facts, c)]
    pairs = [(a, b) for a in several for b in chosen if a is not b and _between(facts, loop, a, b)]
    ends = list(dict.fromkeys(c for pair in pairs for c in pair))
    if ends:
        yield "range narrowed in every round", ends
    for state in loop.carried:
        if state in ends or state.role not in (Role.OTHER, Role.COUNTER, Role.SUM):
            continue
        if state in chosen and _asks(facts, loop, state):
            if _type(loop, state).dtype == "i1":
                yield "flag that rounds set", [state]
            elif _counted(facts, state):
                yield "count of what is found", [state]
        elif _ahead(facts, loop, state):
            yield "loaded ahead for the next round", [state]
        elif _updated(facts, state, loop):
            yield "state in registers, updated in every round", [state]


def _type(loop: Loop, state: Carried) -> TileType:
    found = next((r.type for r in loop.node.op.results if r.name == state.result), None)
    return found or TileType(TypeKind.UNKNOWN)


def _of_choices(facts: Facts, loop: Loop, state: Carried) -> bool:
    """A number that a round chooses the next one of."""
    made = facts.graph.producer(facts.graph.core(state.next))
    scalar = _type(loop, state).kind is TypeKind.SCALAR
    return scalar and made is not None and made.op.kind in _CHOOSING


def _ways(facts: Facts, state: Carried) -> list[str]:
    """What the choices of a round may give for a state."""
    pending, found = [state.next], list[str]()
    for value in pending:
        core = facts.graph.core(value) or value
        made = facts.graph.producer(core)
        if made is None or made.op.kind not in _CHOOSING or len(pending) > 64:
            found.append(core)
            continue
        pending += [v for v in facts.graph.feeds(core) if v != made.op.operand("condition")]
    return found


def _between(facts: Facts, loop: Loop, one: Carried, other: Carried) -> bool:
    """Whether a round makes a number of one end, and moves both ends there or beside it."""
    for node in facts.graph.of(*_BETWEEN):
        if node.inside(loop.node) and other.argument in map(facts.graph.core, node.op.inputs):
            if all(_goes_to(facts, end, node) for end in (one, other)):
                return True
    return False


def _goes_to(facts: Facts, state: Carried, node: Node) -> bool:
    """Whether a state may become what an operation gives, perhaps computed on."""
    graph = facts.graph
    return any(
        node in graph.upstream(value, lambda n: n.op.kind not in _PLACING)
        for value in _ways(facts, state)
        if value != state.argument
    )


def _asks(facts: Facts, loop: Loop, state: Carried) -> bool:
    """Whether what a round loads decides if the state changes."""
    if not facts.graph.users(state.result):
        return False
    loads = [a.node for a in facts.loads if a.node.inside(loop.node)]
    steps = updates(facts.graph, state.argument, state.next)
    tests = [n.op.operand("condition") or "" for n in steps if n.op.kind in _CHOOSING]
    return any(facts.graph.rests_on(t, load) for t in tests for load in loads)


def _counted(facts: Facts, state: Carried) -> bool:
    """Whether the one way that is not as before adds a number."""
    others = [v for v in _ways(facts, state) if v != state.argument]
    made = [facts.graph.producer(v) for v in others]
    return bool(made) and all(
        n is not None
        and n.op.kind == OpKind.ADD
        and state.argument in map(facts.graph.core, n.op.inputs)
        and any(isinstance(facts.values.literal(v), int) for v in n.op.inputs)
        for n in made
    )


def _updated(facts: Facts, state: Carried, loop: Loop) -> bool:
    """Registers of a thread, filled before the loop, of which every round makes the next ones."""
    first = facts.graph.producer(state.init)
    if not _type(loop, state).shape or first is None or first.op.kind == OpKind.UNDEF:
        return False
    if state.role is not Role.OTHER or not leads(facts.graph, state.next, state.argument):
        return False
    steps = updates(facts.graph, state.argument, state.next)
    loops = [n for n in steps if n.op.kind == OpKind.FOR]
    names = [state.argument, *(a.name for n in loops for a in n.op.regions[-1].arguments[1:])]
    within = [n for n in facts.graph.of(*_COMPUTING) if n in steps or any(map(n.inside, loops))]
    of_numbers = [n for n in within if not facts.types.dtype(n.result).startswith(_WHOLE)]
    sides = [v for n in of_numbers for v in n.op.inputs]
    return bool(facts.feeding(state.next)) and any(
        leads(facts.graph, v, name) for v in sides for name in names
    )


def _ahead(facts: Facts, loop: Loop, state: Carried) -> bool:
    """What a round loads and the next one stores, as it is."""
    graph = facts.graph
    if state.role is not Role.OTHER or not state.next:
        return False
    loads = [a.node for a in facts.loads if a.node.inside(loop.node)]
    way = VIEWS | CASTS | {*_CHOOSING, OpKind.COPY, OpKind.INSERT, OpKind.EXTRACT}
    up = graph.upstream(state.next, lambda n: n.op.kind not in way)
    stored = [s for s in facts.stores if s.node.inside(loop.node)]
    return any(n in loads for n in up) and any(
        graph.core(s.value) == state.argument for s in stored
    )


def _nothing(facts: Facts) -> bool:
    """Whether the loops of a thread hand nothing on but where they are, and leave nothing for the
    next round in the memory of the block."""
    loops = facts.rolled_loops if facts.of_threads else ()
    kept = (c for x in facts.loops for c in x.carried if c.role is not Role.COUNTER)
    shared = [n for n in facts.threads.of(*WRITES) if n.op.attribute("space") == "shared"]
    return bool(loops) and next(kept, None) is None and not any(n.loops for n in shared)


def _where(facts: Facts, states: list[Carried]) -> list[Node | None]:
    graph = facts.graph
    found = [graph.producer(begun(facts, c.init)) for c in states]
    for state in states:
        made = graph.producer(graph.core(state.next))
        found.append(made)
        found += [graph.producer(v) for v in _ways(facts, state) if v != state.argument]
        steps = updates(graph, state.argument, state.next)
        found += [n for n in steps if not n.op.regions and made is not None and n.inside(made)]
    return found
