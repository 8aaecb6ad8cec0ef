"""Several query heads read one key head: its index is the query head's, divided."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, BACKWARD_KEYS, vary
from extractors.patterns.cases_pointer import BACKWARD_KEYS_POINTER, DECODE_PART, FLASH_POINTER
from extractors.patterns.cases_threads import BACKWARD_KEYS_THREADS, FLASH_THREADS
from kb.analysis.accesses import Access, AccessReader, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.loops import Role, persistent
from kb.analysis.symbolic import Atom, AtomKind, Expr, nested, of
from kb.evidence import Decision
from kb.ops import COMPARISONS, OpKind

_CHOSEN = (
    "    kv = head // R\n",
    "    if R > 1:\n        kv = head // R\n    else:\n        kv = head\n",
)
_DECODE = vary(
    DECODE_PART,
    ("W: tl.constexpr,", "G: tl.constexpr, N: tl.constexpr, W: tl.constexpr,"),
    ("    share = ", "    kv = who % N // G\n    share = "),
    ("    place = at", "    place = kv * hop * T + at"),
)

_STATE_THREADS = """__global__ void step(const float* x, const float* b, const float* c, const float* state, float* out, int n, int per) {
    __shared__ float own[128];
    int head = blockIdx.x, group = head / per;
    float v = x[head * n + threadIdx.x], sum = 0.f;
    own[threadIdx.x] = b[group * 128 + threadIdx.x] * c[group * 128 + threadIdx.x];
    __syncthreads();
    for (int i = 0; i < 128; ++i) sum += (state[(head * n + threadIdx.x) * 128 + i] + v) * own[i];
    out[head * n + threadIdx.x] = sum;
}
"""  # noqa: E501
_FIRST = vary(
    ATTENTION,
    ("    kv = head // R\n", "    kv = head * TH // R\n"),
    ("R: Int,", "R: Int, TH: Int,"),
)
_PAGED = vary(
    ATTENTION,
    ("index=(bat, kv, 0, j), shape=(1, 1, W, TN), order=(0, 1, 3, 2)",
     "index=(bat, 0, kv, 0, j), shape=(1, 1, 1, W, TN), order=(0, 1, 2, 4, 3)"),
    ("index=(bat, kv, j, 0), shape=(1, 1, TN, W)", "index=(bat, 0, kv, j, 0), shape=(1, 1, 1, TN, W)"),  # noqa: E501
)  # fmt: skip
_FIRST_ONE = vary(
    FLASH_POINTER,
    ("    tl.store(", "    if head % R == 0:\n        tl.store(out, head)\n    tl.store("),
)


class GqaHeadSharing(Pattern):
    """One array is indexed by a head, another by that head divided by a group size."""

    name = "gqa-head-sharing-by-integer-division"
    axis = "kv_head_mapping"
    source = "Ainslie et al., GQA: Training Generalized Multi-Query Transformer Models (2023)"
    matches = (
        Case(ATTENTION, "integer-division sharing"),
        Case(FLASH_POINTER, "integer-division sharing"),
        Case(_DECODE, "integer-division sharing"),
        Case(FLASH_THREADS, "integer-division sharing"),
        Case(vary(ATTENTION, _CHOSEN), "integer-division sharing"),
        Case(vary(FLASH_POINTER, _CHOSEN), "integer-division sharing"),
        Case(_STATE_THREADS, "integer-division sharing"),
        Case(_FIRST, "integer-division sharing"),
        Case(_PAGED, "integer-division sharing"),
        Case(_FIRST_ONE, "integer-division sharing"),
        Case(
            vary(FLASH_THREADS, ("kv = head / R", "kv = R > 1 ? head / R : head")),
            "integer-division sharing",
        ),
    )
    near_misses = (
        NearMiss(
            vary(_DECODE, ("who % N // G", "who % N")), why="every query head has its own key head"
        ),
        NearMiss(
            vary(ATTENTION, ("kv = head // R", "kv = head")),
            why="every query head has its own key head",
        ),
        NearMiss(
            vary(ATTENTION, (_CHOSEN[0], _CHOSEN[1].replace("head // R", "head"))),
            why="every query head has its own key head on either side",
        ),
        NearMiss(
            vary(_FIRST, ("head * TH // R", "head * TM // TN")),
            why="a place is counted in tiles, no head is divided",
        ),
        NearMiss(
            vary(_FIRST_ONE, ("tl.store(out, head)", "tl.store(out + head % R, head)")),
            why="the remainder is a place, too: two numbers in one",
        ),
        NearMiss(
            vary(_STATE_THREADS, ("head / per", "head / 128")), why="parts of an extent, no heads"
        ),
        NearMiss(
            vary(_STATE_THREADS, ("* own[i];", "* 2.f;"), ("sum;", "sum * own[threadIdx.x];")),
            why="a factor of the result, no operand of the sum",
        ),
        NearMiss(BACKWARD_KEYS, why="the query head is built from the key head, not divided"),
        NearMiss(
            BACKWARD_KEYS_POINTER, why="the query head is built from the key head, not divided"
        ),
        NearMiss(
            BACKWARD_KEYS_THREADS, why="the query head is built from the key head, not divided"
        ),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.contractions and not facts.graph.of(OpKind.REDUCE_SUM):
            if not facts.of_threads:
                return
        shared = [n for n in facts.graph.of(OpKind.FLOOR_DIV) if self._shares(facts, n)]
        if shared:
            readers = [a for n in shared for a in facts.loads if _uses(facts, n, _index(facts, a))]
            yield self.decide(facts, "integer-division sharing", (*shared, *readers))

    def _shares(self, facts: Facts, node: Node) -> bool:
        head = facts.values.expr(node.op.inputs[0])
        quotient = facts.values.expr(node.result).atom
        if (
            quotient is None
            or head.constant is not None
            or head.has(AtomKind.LANE, AtomKind.LOADED)
            or not (head.has(AtomKind.BLOCK) or head.has(AtomKind.INDUCTION))
            or (head.has(AtomKind.INDUCTION) and not self._item(facts, head))
        ):
            return False
        if any(_same(facts, node, n) and _places(facts, n) for n in facts.graph.of(OpKind.MOD)):
            return False
        divided = [a for a in facts.loads if _uses(facts, node, _index(facts, a))]
        own = {
            a for a in (head.atom, _with_batch(head), _tiled(facts, node, head)) if a is not None
        }
        whole = [
            a
            for a in facts.accesses
            if not _uses(facts, node, _index(facts, a))
            and any(head == e or own & set(e.top()) for e in _index(facts, a))
        ]
        feeds = [
            a
            for a in divided
            if any(
                facts.graph.rests_on(p.result, a.node) and _summed(facts, p, a)
                for p in _products(facts)
            )
        ]
        if not feeds and whole and self._counted(facts, node):
            feeds = [a for a in divided if a.array in _summed_by_threads(facts) and _spread(a)]
        if not feeds or not whole:
            return False
        return _same_rank(divided, whole) or _meet(facts, feeds, whole)

    def _counted(self, facts: Facts, node: Node) -> bool:
        """True for the number of a block over one that the problem gives: no part of an extent."""
        head, by = (facts.values.expr(v) for v in node.op.inputs[:2])
        return head.atom is not None and head.atom.kind is AtomKind.BLOCK and by.constant is None

    def _item(self, facts: Facts, head: Expr) -> bool:
        """True when the only loop variables of a head are those of walks over work items."""
        walks = {
            facts.values.expr(loop.induction).atom
            for loop in facts.loops
            if persistent(loop, facts.values)
        }
        return all(a in walks for a in head.atoms() if a.kind is AtomKind.INDUCTION)


def _same(facts: Facts, node: Node, other: Node) -> bool:
    """The remainder to a quotient: the number is two numbers in one."""
    pairs = zip(node.op.inputs[:2], other.op.inputs[:2], strict=True)
    return all(facts.values.expr(a) == facts.values.expr(b) for a, b in pairs)


def _places(facts: Facts, remainder: Node) -> bool:
    """True when a remainder is more than asked about: only a choice of the first one of a group
    compares it."""
    users = facts.graph.users(remainder.result)
    return not users or any(user.op.kind not in COMPARISONS for user in users)


def _tiled(facts: Facts, node: Node, head: Expr) -> Atom | None:
    """The number of a tile of heads, where a head is the first one of it, divided by what is no
    extent of a tile."""
    group = facts.values.expr(node.op.inputs[1])
    if (
        not facts.score_products
        or len(head.terms) != 1
        or {a.value for a in group.atoms()} & facts.tile_extents
    ):
        return None
    blocks = [a for a in head.terms[0][0] if of(a).has(AtomKind.BLOCK)]
    return blocks[0] if len(blocks) == 1 else None


def _meet(facts: Facts, divided: list[Access], whole: list[Access]) -> bool:
    """True when a product of scores takes in what the head finds and what its quotient finds."""
    return any(
        any(facts.graph.rests_on(product.op.operand(one), a.node) for a in divided)
        and any(facts.graph.rests_on(product.op.operand(other), a.node) for a in whole)
        for product in facts.score_products
        for one, other in (("lhs", "rhs"), ("rhs", "lhs"))
    )


def _with_batch(head: Expr) -> Atom | None:
    """The number that a head is the remainder of: that of the batch and the head in one."""
    atom = head.atom
    return atom.args[0].atom if atom is not None and atom.kind is AtomKind.MOD else None


def _products(facts: Facts) -> list[Node]:
    """Matrix products; or sums of elementwise products of two loaded tiles."""
    return facts.contractions or [
        total
        for total in facts.graph.of(OpKind.REDUCE_SUM)
        if facts.graph.kind_of(facts.graph.core(total.op.inputs[0])) == OpKind.MUL
        and len({a.array for a in facts.feeding(total.op.inputs[0])}) > 1
    ]


def _summed_by_threads(facts: Facts) -> set[str | None]:
    """Arrays in what threads of no matrix product multiply, other arrays on either side, and add up
    in a loop."""
    found: set[str | None] = set()
    for loop in facts.loops if facts.of_threads and not facts.contractions else ():
        for carried in loop.of(Role.SUM):
            step = facts.graph.producer(facts.graph.core(carried.next))
            sides = [] if step is None else [facts.graph.core(v) for v in step.op.inputs]
            made = [step] if step is not None and step.op.kind == OpKind.FMA else [
                n for v in sides if (n := facts.graph.producer(v)) and n.op.kind == OpKind.MUL
            ]  # fmt: skip
            for product in made:
                arrays = [{a.array for a in facts.feeding(v)} for v in product.op.inputs[:2]]
                if all(arrays) and arrays[0] != arrays[1]:
                    found |= arrays[0] | arrays[1]
    return found


def _spread(access: Access) -> bool:
    """Whether threads load different elements: a number for all of them is no operand."""
    return any(i.has(AtomKind.LANE) for i in access.index)


def _index(facts: Facts, access: Access) -> tuple[Expr, ...]:
    """Where an access is, with where its block pointer begins."""
    if access.mode is not Mode.BLOCK_POINTER:
        return access.index
    made = AccessReader(facts.graph, facts.values).block_pointer(access.base)
    begin = () if made is None else (facts.values.expr(made.op.inputs[0]),)
    return (*access.index, *begin)


def _summed(facts: Facts, total: Node, access: Access) -> bool:
    """True when a sum of elementwise products runs along a loaded tile: a statistic for all that is
    summed is no operand. Matrix products always do."""
    if total.op.kind != OpKind.REDUCE_SUM:
        return True
    shape = facts.types.shape(total.op.inputs[0])
    axis = facts.values.literal(total.op.operand("axis"))
    along = shape[axis : axis + 1 or None] if isinstance(axis, int) else shape
    return set(along) <= set(facts.types.shape(access.value))


def _uses(facts: Facts, node: Node, index: tuple) -> bool:  # type: ignore[type-arg]
    """True when an index holds a quotient, perhaps on one side of a choice."""
    atom = facts.values.expr(node.result).atom
    return any(atom in set(part.top()) for e in index for part in nested(e))


def _same_rank(divided: list, whole: list) -> bool:  # type: ignore[type-arg]
    return any(len(a.index) == len(b.index) for a in divided for b in whole)
