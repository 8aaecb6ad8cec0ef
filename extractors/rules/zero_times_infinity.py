"""An exponential is multiplied with its own argument, which may be minus infinity."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Subject
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, TURNS, VIEWS, Node
from kb.evidence import Finding
from kb.ops import COMPARISONS, READS, OpKind

_SAME = CASTS | COPIES | VIEWS | TURNS
_WEIGHT = _SAME | {OpKind.MUL}
MAX_FOLLOWED = 400
"""Values that a product is followed through."""

_DIVERGENCE = (
    POINTER
    + """
@triton.jit
def divergence(x, y, out, n, T: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, T)
    a = tl.load(x + row * n + at, mask=at < n, other=float("-inf")).to(tl.float32)
    b = tl.load(y + row * n + at, mask=at < n, other=float("-inf")).to(tl.float32)
    tl.store(out + row * n + at, tl.exp(a) * (a - b), mask=at < n)
"""
)
_TILES = (
    TILE
    + """
@ct.kernel
def divergence(x, y, out, T: Int):
    a = ct.astype(ct.load(x, index=(ct.bid(0), 0), shape=(1, T)), ct.float32)
    b = ct.astype(ct.load(y, index=(ct.bid(0), 0), shape=(1, T)), ct.float32)
    p = ct.exp(a)
    ct.store(out, index=(ct.bid(0), 0), tile=p * (a - b))
"""
)


class ZeroTimesInfinity(Rule):
    """A loaded logarithm is raised to a probability and multiplied with itself, perhaps less
    another: where the probability is zero the logarithm is minus infinity, and the product a
    NaN."""

    name = "zero-times-infinity"
    dialects = ("cuda", "cutile", "triton")
    matches = (
        Case(_DIVERGENCE, "`x`"),
        Case(_TILES, "`x`"),
        Case(
            vary(_DIVERGENCE, ("tl.exp(a) * (a - b)", "tl.exp(a - 1.0) * (a - 1.0 - b)")), "`x`"
        ),
        Case(
            "__global__ void entropy(const float* x, float* out) {\n"
            "  float v = x[blockIdx.x * blockDim.x + threadIdx.x];\n"
            "  out[blockIdx.x * blockDim.x + threadIdx.x] = expf(v) * v;\n}\n",
            "`x`",
        ),
    )  # fmt: skip
    near_misses = (
        NearMiss(vary(_DIVERGENCE, ("* (a - b)", "* (b - 1.0)")), why="another is weighed"),
        NearMiss(
            vary(
                _DIVERGENCE,
                ("tl.exp(a) * (a - b)", "tl.where(a > -1e30, tl.exp(a) * (a - b), 0.0)"),
            ),
            why="a select takes the product out where the logarithm is that small",
        ),
        NearMiss(
            vary(_DIVERGENCE, ("    tl.store", "    a = tl.maximum(a, -80.0)\n    tl.store")),
            why="the logarithm is kept above a number",
        ),
        NearMiss(vary(_TILES, ("p * (a - b)", "p * ct.sum(a)")), why="no element meets its own"),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        facts = subject.facts
        found: dict[str, list[Node]] = {}
        for array, nodes in _products(facts):
            found.setdefault(array, []).extend(nodes)
        if found:
            names = ", ".join(f"`{name}`" for name in found)
            yield self.finding(
                subject,
                f"the exponential of {names} is multiplied with the same logarithm: where the "
                "probability is zero that is 0 times -inf, a NaN, and nothing takes it out",
                "select 0 where the logarithm is -inf, or keep it above a finite number",
                [node for nodes in found.values() for node in nodes],
            )


def _products(facts: Facts) -> Iterator[tuple[str, list[Node]]]:
    """Products of an exponential and its argument: the array that was loaded, the places."""
    for power in facts.graph.of(OpKind.EXP, OpKind.EXP2):
        raised = {node for node, sign in _terms(facts, power.op.inputs[0]) if sign > 0}
        for product, other in _weighed(facts, power) if raised else ():
            for node, _ in _terms(facts, other):
                access = facts.access(node)
                if node in raised and access is not None and access.array is not None:
                    if not _guarded(facts, product, node):
                        yield access.array, [power, product]


def _terms(facts: Facts, value: str) -> Iterator[tuple[Node, int]]:
    """Loads that are terms of a sum, as they are or times a number, with their signs."""
    pending = [(value, 1)]
    for at, sign in pending:
        node = facts.graph.producer(at)
        if node is None or len(pending) > MAX_FOLLOWED:
            continue
        given = node.op.inputs
        if node.op.kind == OpKind.SUB:
            pending += [(given[0], sign), (given[1], -sign)]
        elif node.op.kind == OpKind.ADD:
            pending += [(one, sign) for one in given[:2]]
        elif node.op.kind == OpKind.NEG:
            pending.append((given[0], -sign))
        elif node.op.kind in _SAME:
            pending.append((given[0], sign))
        elif node.op.kind == OpKind.MUL:
            pending += list(_scaled(facts, given, sign))
        elif node.op.kind in READS:
            yield node, sign


def _scaled(facts: Facts, given: Sequence[str], sign: int) -> Iterator[tuple[str, int]]:
    """What is multiplied with a number of the source."""
    for one, other in (given[:2], given[1::-1]):
        number = facts.values.literal(facts.graph.core(other))
        if isinstance(number, int | float) and number:
            yield one, sign if number > 0 else -sign


def _weighed(facts: Facts, power: Node) -> Iterator[tuple[Node, str]]:
    """Products with an exponential, and with such products, and what it is multiplied with."""
    pending = [power.result]
    for value in pending:
        for user in facts.graph.users(value):
            if user.op.kind == OpKind.MUL:
                yield from ((user, one) for one in user.op.inputs[:2] if one != value)
            if user.op.kind in _WEIGHT and len(pending) < MAX_FOLLOWED:
                pending += [one.name for one in user.op.results if one.name not in pending]


def _guarded(facts: Facts, product: Node, load: Node) -> bool:
    """Whether a select that asks for the logarithm decides about the product."""
    selects = (
        n
        for n in facts.graph.downstream(product.result, MAX_FOLLOWED)
        if n.op.kind == OpKind.SELECT
    )
    return any(
        test.op.kind in COMPARISONS and facts.graph.rests_on(test.result, load)
        for select in selects
        for test in facts.graph.upstream(select.op.inputs[0])
    )
