"""Accesses that nothing keeps inside the arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, vary
from extractors.patterns.cases_kept import LEFT
from extractors.patterns.cases_rows import ADD_POINTER
from extractors.patterns.cases_rows_threads import ADD_THREADS, ROW_NORM_CHUNKS_THREADS
from extractors.patterns.cases_unmasked import (
    BLOCKS,
    SUMMED,
    WHOLE_THREADS,
)
from extractors.patterns.thread_guard import leaving_blocks
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Graph, Node
from kb.analysis.idioms import against_extent, comparisons, sides
from kb.analysis.stored import computed
from kb.analysis.symbolic import Atom, AtomKind, of
from kb.analysis.values import Values
from kb.evidence import Decision
from kb.ir import MemorySpace, Op, TypeKind, walk
from kb.ops import ATOMICS, OWN_THREAD, READS, OpKind

_ORDERED = (OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE)
_LOGIC = CASTS | {OpKind.AND, OpKind.OR, OpKind.NOT, OpKind.BIT_AND, OpKind.BIT_OR}
_IDS = (*OWN_THREAD, OpKind.BLOCK_ID)
_CHOICES = (OpKind.IF, OpKind.IF_EXPRESSION, OpKind.SELECT)
_LEAVING = frozenset({OpKind.RETURN, OpKind.BREAK, OpKind.CONTINUE})
_BARE_THREADS = vary(ADD_THREADS, ("if (at < n) ", ""))
_VALUES_THREADS = vary(_BARE_THREADS, ("x[at] + y[at]", "(x[at] > 0.f ? x[at] : y[at])"))
_CHOSEN_THREADS = vary(
    _BARE_THREADS,
    (
        "{\n",
        "{\n    __shared__ float part[32];\n    part[threadIdx.x] = 1.f;\n    __syncthreads();\n",
    ),
    ("x[at] + y[at]", "x[at] + (threadIdx.x < n ? part[threadIdx.x] : 0.f)"),
)
_ROUNDED_THREADS = vary(
    _BARE_THREADS,
    ("out[at] = x[at] + y[at]", "float v = x[at] + y[at];\n    out[at] = unheard_of(v)"),
)
_BARE = vary(
    ADD_POINTER,
    (", mask=inside) +", ") +"),
    ("y + at, mask=inside), mask=inside)", "y + at))"),
)


_SOME = "none on some arrays: whole tiles or tables"
_POINTERS = (Mode.POINTER, Mode.BLOCK_POINTER)


_TABLE = (
    POINTER
    + """
@triton.jit
def turn(x, table, out, n, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    by = tl.load(table + at)
    v = tl.load(x + row * n + at % n)
    tl.store(out + row * n + at, v * by, mask=at < n)
"""
)
_AROUND = "modulo wrap instead of mask"
_WHOLE = "none: extents are whole tiles"
_RESIZED = (
    POINTER
    + """
@triton.jit
def resize(x, out, high, wide, by, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    row = at // wide % high
    to = out + tl.program_id(1) * high * wide + row * wide + at % wide
    tl.store(to, tl.load(x + tl.program_id(1) * n + (row * by).to(tl.int32)))
"""
)


_SINGLE = "none: single elements, exact extents"
_NUMBERS = (
    POINTER
    + """
@triton.jit
def largest(parts, out, n, MANY):
    row = tl.program_id(0)
    top = 0.0
    for k in range(MANY):
        top = tl.maximum(top, tl.load(parts + row * MANY + k))
    tl.store(out + row, top)
"""
)


class UnmaskedAccesses(Pattern):
    """No load or store of a tile by pointers has a mask, or by block pointers a bound to check; or
    stores have one, loads of data have none; or no thread asks where it is."""

    name = "accesses-without-a-bounds-check"
    axis = "boundary_handling"
    source = "Triton documentation, load: mask"
    matches = (
        Case(_RESIZED, _AROUND),
        Case(_BARE, "none: extents are whole tiles"),
        Case(SUMMED, "none: extents are whole tiles"),
        Case(_BARE_THREADS, "none: extents are whole tiles"),
        Case(_VALUES_THREADS, "none: extents are whole tiles"),
        Case(WHOLE_THREADS, "none: extents are whole tiles"),
        Case(_CHOSEN_THREADS, "none: extents are whole tiles"),
        Case(_ROUNDED_THREADS, "none: extents are whole tiles"),
        Case(LEFT, "none: extents are whole tiles"),
        Case(BLOCKS, "none: extents are whole tiles"),
        Case(_TABLE, _SOME),
        Case(_NUMBERS, _SINGLE),
        Case(vary(_TABLE, ("table + at)", "table + row % 4 * T + at)")), _SOME),
    )
    near_misses = (
        NearMiss(
            vary(_NUMBERS, ("tl.store(out + row, top)", "tl.store(out + row, top, mask=row < n)")),
            why="the store is masked",
        ),
        NearMiss(
            vary(
                _NUMBERS,
                ("    tl.store(out + row", "    if row < n:\n        tl.store(out + row"),
            ),
            why="a branch keeps the store inside",
        ),
        NearMiss(
            vary(
                _NUMBERS, ("    top = 0.0\n", "    if row >= n:\n        return\n    top = 0.0\n")
            ),
            why="blocks past the end leave",
        ),
        NearMiss(
            _RESIZED, why="lanes past the end begin anew", value="none: extents are whole tiles"
        ),
        NearMiss(vary(_RESIZED, (" % high", "")), why="no row is the first again", value=_AROUND),
        NearMiss(ADD_POINTER, why="every access is masked"),
        NearMiss(vary(_TABLE, ("table + at)", "table + at % n)")), why="positions are kept inside"),
        NearMiss(
            vary(
                _TABLE,
                (
                    "v * by, mask=at < n)",
                    "v * by, mask=at < n)\n    tl.store(table + at, by, mask=at < n)",
                ),
            ),
            why="the array is masked elsewhere",
        ),
        NearMiss(
            vary(_TABLE, ("at % n)", "at, mask=at < n)")), why="told with the padding of the load"
        ),
        NearMiss(vary(_TABLE, ("table + at)", "table + row)")), why="one number"),
        NearMiss(
            vary(ADD_POINTER, (", mask=inside) +", ") +")),
            why="the others are masked",
            value="none: extents are whole tiles",
        ),
        NearMiss(
            vary(BLOCKS, ("tl.load(own)", "tl.load(own, boundary_check=(0,))")),
            why="a bound is checked",
        ),
        NearMiss(PRODUCT, why="tiles of a view are kept inside by the view"),
        NearMiss(
            vary(WHOLE_THREADS, ("K / 64;", "(K + 63) / 64;")), why="the last round may go past"
        ),
        NearMiss(ADD_THREADS, why="threads outside do nothing"),
        NearMiss(
            vary(_BARE_THREADS, ("out[at]", "out[at < n ? at : 0]")),
            why="a choice says where the access goes",
        ),
        NearMiss(
            vary(_ROUNDED_THREADS, ("unheard_of(v)", "unheard_of(v, x)")),
            why="who knows what is accessed, and where",
        ),
        NearMiss(
            vary(LEFT, ("    out[at] =", "    if (at < n) out[at] =")),
            why="threads outside store nothing",
        ),
        NearMiss(
            vary(LEFT, ("    part[", "    if (at >= n) return;\n    part[")),
            why="threads outside leave",
        ),
        NearMiss(ROW_NORM_CHUNKS_THREADS, why="each thread's loop ends with the row"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.of_threads:
            yield from self._of_threads(facts)
            return
        wide = [a for a in facts.accesses if facts.types.shape(a.value)]
        bare = all(a.mode in _POINTERS and _bare(a) for a in wide)
        stored = any(a.is_store for a in wide) or bool(computed(facts, facts.reductions))
        if wide and bare and facts.stores and stored:
            around = all(_around(a) for a in wide if a.is_store) and any(a.is_store for a in wide)
            yield self.decide(facts, _AROUND if around else "none: extents are whole tiles", wide)
        elif not wide and facts.stores and _single(facts):
            yield self.decide(facts, _SINGLE, facts.accesses)
        elif not any(a.padding for a in facts.loads) and (some := unmasked_beside(facts)):
            yield self.decide(facts, _SOME, some)

    def _of_threads(self, facts: Facts) -> Iterable[Decision]:
        """Of threads: places that a thread id moves, where no comparison of an id and no loop that
        starts at the own thread keeps any of them inside."""
        graph = facts.threads
        if leaving_blocks(facts):
            return  # Told with what the blocks ask.
        values = facts.thread_values
        loops = [n for n in graph.of(OpKind.RANGE) if _strided(graph, values, n)]
        placed = [
            n
            for n in graph.of(OpKind.LOAD, OpKind.STORE, *ATOMICS)
            if n.op.attribute("space") != "shared"
            and n.op.operand("mask") is None
            and graph.roots(n.op.operand("pointer"), *OWN_THREAD)
        ]
        tests = any(_keeps(graph, n, placed) for n in graph.of(*_ORDERED) if _positional(graph, n))
        least = graph.node_set(graph.of(OpKind.MINIMUM, OpKind.CLAMP))
        limited = any(graph.rests_on_any(n.op.operand("pointer"), least) for n in placed)
        unknown = any(may_touch(facts, n) for n in graph.of(OpKind.OPAQUE))
        if tests or loops or limited or unknown or graph.of(OpKind.ASYNC_COPY):
            return
        if any(n.op.kind != OpKind.LOAD for n in placed):
            ids = {i for n in placed for i in graph.roots(n.op.operand("pointer"), *_IDS)}
            yield self.decide(facts, "none: extents are whole tiles", [*placed, *ids])
        elif placed and (counted := _counted(graph, values, placed)):
            yield self.decide(facts, "none: extents are whole tiles", [*placed, *counted])


def _single(facts: Facts) -> bool:
    """Whether numbers are loaded and stored without masks, and no branch asks where one is."""
    asked = [n for b in facts.graph.of(OpKind.IF) for n in comparisons(facts, b.op.inputs[0])]
    placed = any(e.has(AtomKind.BLOCK, AtomKind.INDUCTION) for n in asked for e in sides(facts, n))
    return not placed and all(a.mode is Mode.POINTER and _bare(a) for a in facts.accesses)


def unmasked_beside(facts: Facts) -> list[Access]:
    """Data that is loaded by pointers without a mask, from arrays that no access masks, where other
    loads and stores are masked; and what is stored so beside it."""
    wide = [a for a in facts.accesses if facts.types.shape(a.value)]
    pointed = [a for a in wide if a.mode is Mode.POINTER and a.array is not None]
    masked = {a.array for a in pointed if not _bare(a)}
    bare = [
        a
        for a in pointed
        if not a.is_store
        and a.array not in masked
        and any(extent != "1" for extent in facts.types.shape(a.value))
    ]
    if not masked or not bare:
        return stored_past(facts, pointed)
    written = {a.array for a in facts.stores}
    placing = facts.offset_loads | {
        a.value
        for n in facts.graph.of(*_ORDERED)
        for v in n.op.inputs[:2]
        for a in facts.values.expr(v).atoms()
        if a.kind is AtomKind.LOADED
    }
    found = [
        a
        for a in bare
        if a.array not in written
        and a.value not in placing
        and not any(_wrapped(atom) for e in a.index for atom in e.atoms())
    ]
    stores = [a for a in pointed if a.is_store and not a.is_atomic and a.array not in masked]
    return [*found, *stores] if found else stored_past(facts, pointed)


def stored_past(facts: Facts, pointed: list[Access]) -> list[Access]:
    """Stores without a mask of lanes that masks of others hold below an extent: what they are
    stored into goes on past it."""
    masked = {a.array for a in pointed if not _bare(a)}
    if not masked:
        return []
    held = {
        atom.args
        for access in pointed
        for test in comparisons(facts, access.mask)
        if against_extent(facts, test)
        for side in sides(facts, test)
        for atom in side.atoms()
        if atom.kind is AtomKind.LANE
    }
    stores = [a for a in pointed if a.is_store and not a.is_atomic and a.array not in masked]
    return [
        a
        for a in stores
        if any(atom.args in held for i in a.index for atom in i.top() if atom.kind is AtomKind.LANE)
    ]


def _around(access: Access) -> bool:
    """Whether every lane is a remainder where it goes: lanes past the end begin again at the first
    element."""
    lanes = [a for e in access.index for a in e.top() if of(a).has(AtomKind.LANE)]
    return bool(lanes) and all(a.kind is AtomKind.MOD for a in lanes)


def _wrapped(atom: Atom) -> bool:
    """Lanes that are kept inside by a remainder or a minimum; tiles that are so ordered are not."""
    held = atom.kind in (AtomKind.MOD, AtomKind.MINIMUM)
    return held and any(side.has(AtomKind.LANE) for side in atom.args)


def _counted(graph: Graph, values: Values, placed: list[Node]) -> list[Node]:
    """Loops around accesses whose rounds are won by division, with that division: what is left of
    the extent is touched by no thread."""
    found: list[Node] = []
    for loop in {loop: None for n in placed for loop in n.loops if loop.op.kind == OpKind.FOR}:
        walked = graph.producer(graph.through(loop.op.inputs[0], VIEWS))
        ends = graph.roots(walked.op.operand("high"), OpKind.FLOOR_DIV) if walked else []
        exact = [n for n in ends if not graph.roots(n.op.inputs[0], OpKind.ADD, OpKind.SUB)]
        known = walked is not None and values.compile_time(values.expr(walked.op.operand("high")))
        found += [loop, *exact] if exact and known else []
    return found


def _positional(graph: Graph, test: Node) -> bool:
    """Whether a comparison asks for the own position, not for what was loaded there."""
    above = graph.upstream(test.result, lambda n: n.op.kind in READS)
    return any(n.op.kind in OWN_THREAD for n in above)


def _keeps(graph: Graph, test: Node, placed: list[Node]) -> bool:
    """Whether a comparison may keep an access inside: one stands in a branch on it, threads leave
    by it, or it is used for more than branches."""
    pending = [test]
    for current in pending:
        for user in graph.users(current.result):
            if user.op.kind in _LOGIC and user not in pending:
                pending.append(user)
            elif user.op.kind not in _CHOICES or _matters(graph, user, placed):
                return True
    return False


def _matters(graph: Graph, branch: Node, placed: list[Node]) -> bool:
    """Whether a branch or choice holds one of the accesses, says where one goes, or lets threads
    leave."""
    inside = any(node.inside(branch) for node in placed)
    places = any(graph.rests_on(n.op.operand("pointer"), branch) for n in placed)
    return inside or places or any(op.kind in _LEAVING for op in _inner(branch))


def may_touch(facts: Facts, call: Node) -> bool:
    """Whether what is not understood may be an access: it is handed more than numbers."""
    return not all(_is_number(facts, v) for v in call.op.inputs)


def _is_number(facts: Facts, value: str) -> bool:
    """A number, numbers in registers, or that of a round."""
    made = facts.threads.producer(value)
    if made is None:
        atom = facts.thread_values.expr(value).atom
        return atom is not None and atom.kind is AtomKind.INDUCTION
    kind = made.op.results[0].type
    held = kind is not None and kind.space is MemorySpace.REGISTER
    return kind is not None and (kind.kind is TypeKind.SCALAR or held)


def _inner(branch: Node) -> Iterator[Op]:
    for region in branch.op.regions:
        yield from walk(region)


def _strided(graph: Graph, values: Values, walked: Node) -> bool:
    """A range from the own thread to an end that all threads share and no number tells."""
    low, high = walked.op.operand("low"), walked.op.operand("high") or ""
    shared = values.expr(high).constant is None and not graph.roots(high, *OWN_THREAD)
    return shared and bool(graph.roots(low, *OWN_THREAD))


def _bare(access: Access) -> bool:
    return access.mask is None and access.node.op.operand("boundary_check") is None
