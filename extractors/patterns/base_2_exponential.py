"""Which exponential is taken, and whether log2(e) is folded into a scale."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, ATTENTION_POINTER, TILE
from extractors.patterns.cases_pointer import FLASH_STAGED
from extractors.patterns.cases_rows import ADD_POINTER, SOFTMAX
from extractors.patterns.cases_rows_threads import ADD_THREADS
from extractors.patterns.cases_threads import FLASH_THREADS
from kb.analysis.exponentials import is_log2e
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.evidence import Decision
from kb.ops import OpKind

_POWER = (
    TILE
    + """
@ct.kernel
def power(x, out, T: Int):
    i = ct.bid(0)
    ct.store(out, index=(i,), tile=ct.exp2(ct.load(x, index=(i,), shape=(T,))))
"""
)


class Base2Exponential(Pattern):
    """exp2 whose argument holds the factor log2(e) or, folded elsewhere or not wanted, does not;
    or exp as it is."""

    name = "base-2-exponential-with-folded-log2"
    axis = "math_approximation"
    source = "NVIDIA, PTX ISA, ex2.approx: the hardware's exponential has base two"
    matches = (
        Case(ATTENTION, "exp2 with log2e folded into the scale"),
        Case(ATTENTION_POINTER, "exp"),
        Case(SOFTMAX, "exp"),
        Case(_POWER, "exp2"),
        Case(FLASH_STAGED, "exp2"),
        Case(FLASH_THREADS, "exp2 with log2e folded into the scale"),
    )
    near_misses = (
        NearMiss(
            _POWER,
            why="a power of two is wanted here, no factor is folded",
            value="exp2 with log2e folded into the scale",
        ),
        NearMiss(ADD_POINTER, why="there is no exponential"),
        NearMiss(ADD_THREADS, why="there is no exponential"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        natural = [e.node for e in facts.exponentials if not e.base2]
        if natural:
            yield self.decide(facts, "exp", natural)
        powers = [e.node for e in facts.exponentials if e.base2]
        factors = {node for power in powers for node in _factors(facts, power)}
        if powers and factors:
            folded = any(_ahead(facts, n, p) for n in factors for p in powers)
            scalar = any(not facts.types.shape(n.result) for n in factors)
            value = (
                "exp2 with log2e folded into the scale"
                if folded and scalar
                else "exp2(x*LOG2E + bias) FMA form"
            )
            yield self.decide(facts, value, (*factors, *powers, *_scaled(facts, factors)))
        elif powers:
            yield self.decide(facts, "exp2", powers)


def _ahead(facts: Facts, factor: Node, power: Node) -> bool:
    """Whether a factor is the same in every round of the loop around an exponential."""
    if power.loop is None or not factor.inside(power.loop):
        return True
    made = [facts.graph.producer(v) for v in factor.op.inputs if facts.values.literal(v) is None]
    inside = [one for one in made if one is not None and one.inside(power.loop)]
    loop = power.loop.op
    carried = {a.name for region in loop.regions for a in region.arguments}
    return not inside and not carried & set(factor.op.inputs)


def _scaled(facts: Facts, factors: set[Node]) -> list[Node]:
    """The products with a scale that holds log2(e), right below an exponential, and what is
    subtracted from them."""
    return [
        node
        for e in facts.exponentials
        if e.product is not None and any(facts.graph.rests_on(e.scale, f) for f in factors)
        for node in (e.product, e.difference)
        if node is not None
    ]


def _factors(facts: Facts, power: Node) -> list[Node]:
    """Multiplications by log2(e), or divisions by ln 2, that the argument is computed from."""
    found = []
    for node in facts.graph.roots(power.op.inputs[0], OpKind.MUL, OpKind.FMA, OpKind.DIV):
        literals = [facts.values.literal(v) for v in node.op.inputs[:2]]
        if node.op.kind == OpKind.DIV:
            under = literals[1]
            if isinstance(under, float) and abs(under - 0.6931471805599453) < 1e-3:
                found.append(node)
        elif any(is_log2e(literal) for literal in literals):
            found.append(node)
    return found
