"""Where the softmax scale is applied: to the queries, to the scores, after the row maximum, or to
the gradient."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import (
    ATTENTION,
    ATTENTION_POINTER,
    BACKWARD_KEYS,
    PRODUCT,
    PRODUCT_POINTER,
    vary,
)
from extractors.patterns.cases_capped import CAPPED, CAPPED_BACKWARD
from extractors.patterns.cases_kept import SCALED_BETWEEN
from extractors.patterns.cases_pointer import (
    BACKWARD_KEYS_POINTER,
    STATE_STEP_POINTER,
    STATE_STEPS_POINTER,
)
from extractors.patterns.cases_rows_pointer import SOFTMAX_POINTER
from extractors.patterns.cases_rows_threads import SOFTMAX_THREADS
from extractors.patterns.cases_scales import NOT_SCALED_LAST, SCALED_LAST, SCALED_PARTS
from extractors.patterns.cases_tensors import FLASH_CAPPED
from extractors.patterns.cases_threads import FLASH_THREADS, PRODUCT_THREADS
from extractors.patterns.side_output import handed
from kb.analysis.exponentials import Exponential, is_log2e
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.idioms import recomputed
from kb.analysis.loops import Role
from kb.analysis.scalings import (
    elementwise,
    produced,
    reduced_elements,
    scalar,
    scaled_between,
    scaled_last,
    scaled_rounds,
    scales,
    scaling,
)
from kb.analysis.specialise import branches
from kb.analysis.tangents import tangents
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, OpKind

_WARM = (
    ("N, so,", "N, rate, so,"),
    ("e = tl.exp(v - tl", "v = v * rate\n        e = tl.exp(v - tl"),
)
_BRANCHED = vary(
    ATTENTION_POINTER,
    ("tl.trans(k)) * rate", "tl.trans(k))"),
    (
        "        keep = cols[None, :] < size\n        if TRI:\n            keep = keep & (rows[:, None] >= cols[None, :])\n",  # noqa: E501
        "        keep = rows[:, None] >= cols[None, :]\n        if TRI:\n",
    ),
    (
        '        s = tl.where(keep, s, float("-inf"))\n'
        "        new = tl.maximum(top, tl.max(s, 1))\n",
        "            s = s * rate + tl.where(keep, 0, -1.0e6)\n"
        "            new = tl.maximum(top, tl.max(s, 1))\n"
        "            s -= new[:, None]\n"
        "        else:\n"
        "            new = tl.maximum(top, tl.max(s, 1) * rate)\n"
        "            s = s * rate - new[:, None]\n",
    ),
    ("p = tl.exp(s - new[:, None])", "p = tl.exp(s)"),
)
_WARM_THREADS = vary(
    SOFTMAX_THREADS,
    ("int rows, int n)", "const float* rates, int rows, int n)"),
    ("        float e =", "        v *= 1.f / rates[row];\n        float e ="),
)
_FACTORS = VIEWS | CASTS | {OpKind.MUL}
_LINEAR = vary(
    PRODUCT_POINTER, ("(a, b, out,", "(a, b, out, rate,"), ("tl.dot(x, y)", "tl.dot(x * rate, y)")
)
_GATED = vary(STATE_STEP_POINTER, (" * rate", ""), ("tl.sum(s * v[None, :], axis=1)",
              "tl.sum(s * tl.exp(v)[None, :], axis=1) * rate"))  # fmt: skip
_NO_END = ("    gk = gk * rate\n", "")
_REBUILT = vary(BACKWARD_KEYS_POINTER, _NO_END)
_REBUILT_SCALED = "scale S before the exponential"
_IN_QUERY = vary(
    _REBUILT,
    ("s = tl.dot(k, tl.trans(q))", "s = tl.dot(k, tl.trans((q * rate2).to(k.dtype)))"),
    ("s * rate2 - lse", "s - lse"),
)
_SOME_MORE = vary(
    BACKWARD_KEYS_POINTER,
    (
        "    gk = gk * rate\n",
        "    if size > 4096:\n        for m in range(R):\n"
        "            gk = tl.dot(k, tl.load(a + m * W + lane[:, None] * W + lane[None, :]), gk)\n"
        "    gk = gk * rate\n",
    ),
    ("s * rate2 - lse", "s - lse"),
)


_BETWEEN = "scale S between its products"


class ScalePlacement(Pattern):
    """The scalar that multiplies scores is found on the operand, before the maximum, on both sides
    of it, or between two products without a softmax."""

    name = "scale-applied-after-the-max-reduce"
    axis = "scale_placement"
    source = "Dao, FlashAttention-2 (2023), section 3.1; max(c s) = c max(s) for c > 0"
    matches = (
        Case(FLASH_CAPPED, "scale folded into (s*scale - m) FMA"),
        Case(ATTENTION, "scale folded into (s*scale - m) FMA"),
        Case(ATTENTION_POINTER, "scale S before max"),
        Case(
            vary(
                ATTENTION_POINTER,
                ("tl.dot(q, tl.trans(k)) * rate", "tl.dot((q * rate).to(k.dtype), tl.trans(k))"),
            ),
            "pre-scale Q",
        ),
        Case(BACKWARD_KEYS, "scale once in the epilogue"),
        Case(_WARM_THREADS, "scale S before max"),
        Case(_SOME_MORE, "scale once in the epilogue"),
        Case(_REBUILT, _REBUILT_SCALED),
        Case(_IN_QUERY, "pre-scale Q"),
        Case(
            vary(
                PRODUCT_POINTER,
                ("(a, b, out,", "(a, b, out, rate,"),
                ("acc.to(", "(acc * rate).to("),
            ),
            "scale once in the epilogue",
        ),
        Case(vary(SOFTMAX_POINTER, *_WARM), "scale S before max"),
        Case(
            vary(SOFTMAX_POINTER, _WARM[0], (_WARM[1][0], _WARM[1][1].replace("* rate", "/ rate"))),
            "scale S before max",
        ),
        Case(STATE_STEP_POINTER, "pre-scale Q"),
        Case(
            vary(
                PRODUCT_POINTER,
                ("(a, b, out,", "(a, b, out, rate,"),
                ("acc.to(", "(acc * tl.exp(m)[:, None] * rate).to("),
            ),
            "scale once in the epilogue",
        ),
        Case(_LINEAR, "pre-scale Q"),
        Case(vary(_LINEAR, ("x * rate", "x * tl.exp(x) * rate")), "pre-scale Q"),
        Case(vary(STATE_STEP_POINTER, ("s * v[None, :]", "s * (v[None, :] * s)")), "pre-scale Q"),
        Case(_GATED, "scale once in the epilogue"),
        Case(STATE_STEPS_POINTER, "pre-scale Q"),
        Case(SCALED_BETWEEN, _BETWEEN),
        *(Case(text, "scale once in the epilogue") for text in SCALED_LAST),
        Case(SCALED_PARTS, "scale every partial product"),
        Case(FLASH_THREADS, "scale folded into (s*scale - m) FMA"),
        Case(_BRANCHED, "scale folded into (s*scale - m) FMA"),
        Case(_BRANCHED, "scale S before max"),
        Case(CAPPED, "scale S before max"),
        Case(vary(ATTENTION_POINTER, ("* rate\n", "* tl.load(rate)\n")), "scale S before max"),
    )
    near_misses = (
        NearMiss(vary(SCALED_BETWEEN, ("s * rate", "s")), why="not scaled", value=_BETWEEN),
        NearMiss(
            vary(_WARM_THREADS, ("rates[row]", "rates[row * n + at]")),
            why="every element has a factor of its own",
        ),
        NearMiss(
            vary(CAPPED, ("tl.trans(k)) * rate", "tl.trans(k))")),
            why="the scores are held below a bound, not scaled",
        ),
        NearMiss(
            vary(
                CAPPED,
                ("tl.trans(k)) * rate", "tl.trans(k))"),
                ("tanh(s / cap)", "tanh(s * (1.0 / cap))"),
            ),
            why="the scores are held below a bound, not scaled",
        ),
        NearMiss(
            vary(_LINEAR, ("x * rate", "x * tl.load(out)")),
            why="the factor is loaded: a scale of what is stored in few bits",
        ),
        *(NearMiss(text, why="no sum that is scaled once it is done") for text in NOT_SCALED_LAST),
        NearMiss(PRODUCT, why="nothing is scaled"),
        NearMiss(
            vary(PRODUCT_POINTER, ("tl.dot(x, y)", "tl.dot(x, y) * M")),
            why="an extent, no scale",
        ),
        NearMiss(
            SCALED_PARTS,
            why="before it is added, not at the end",
            value="scale once in the epilogue",
        ),
        NearMiss(vary(_REBUILT, ("s * rate2 - lse", "s - lse")), why="nothing is scaled"),
        NearMiss(CAPPED_BACKWARD, why="the scores are held below a bound", value=_REBUILT_SCALED),
        NearMiss(
            vary(_BRANCHED, ("s = s * rate - new", "s = s - new"), ("(s, 1) * rate", "(s, 1)")),
            why="the side without a mask does not scale",
            value="scale folded into (s*scale - m) FMA",
        ),
        NearMiss(
            vary(ATTENTION_POINTER, ("* rate\n", "+ tl.load(rate)\n")), why="a shift, no scale"
        ),
        NearMiss(SOFTMAX_POINTER, why="the row enters as it was loaded"),
        NearMiss(vary(STATE_STEP_POINTER, (" * rate", "")), why="nothing is scaled"),
        NearMiss(PRODUCT_POINTER, why="nothing is scaled"),
        NearMiss(PRODUCT_THREADS, why="nothing is scaled"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if recomputed(facts) or not facts.exponentials:
            yield from self._backward(facts)
            if not facts.exponentials:
                yield from self._query(facts)
                yield from self._linear(facts)
            return
        scaled = [
            n
            for n in facts.reductions
            if n.op.kind == OpKind.REDUCE_MAX and (self._scores(facts, n) or self._row(facts, n))
        ]
        placed = [place for maximum in scaled for place in self._around(facts, maximum)]
        if not scaled and facts.of_threads and (running := self._running(facts)):
            yield self.decide(facts, "scale S before max", dict.fromkeys(running))
        for value in dict.fromkeys(value for value, _ in placed):
            where = [node for held, nodes in placed if held == value for node in nodes]
            yield self.decide(facts, value, dict.fromkeys(where))
        if scaled and not placed:
            yield from self._operand(facts)
        yield from self._query(facts)
        if facts.contractions and not scaled:
            yield from self._backward(facts)
            yield from self._linear(facts)
        elif not scaled and (found := scaled_last(facts)):
            yield self.decide(facts, "scale once in the epilogue", dict.fromkeys(found))

    def _around(self, facts: Facts, maximum: Node) -> Iterable[tuple[str, list[Node]]]:
        """How scores are scaled before a row maximum, or itself and the scores after it."""
        before = self._uncapped(facts, reduced_elements(facts, maximum.op.inputs[0]))
        after = [
            n for n in facts.graph.downstream(maximum.result) if self._outer(facts, n, maximum)
        ]
        folded = [
            e
            for e in facts.exponentials
            if e.product is not None
            and not e.rescale
            and not is_log2e(facts.values.literal(e.scale or ""))
        ]
        flags = {branch.node for branch in branches(facts)}
        if after and folded and all(flags & {*facts.guards(n)} for n in before):
            parts = [n for e in folded for n in (e.product, e.difference) if n is not None]
            yield "scale folded into (s*scale - m) FMA", [*after[:1], *parts]
        if before:
            yield "scale S before max", before

    def _running(self, facts: Facts) -> list[Node]:
        """Products with a scalar of scores that one thread takes the largest of."""
        tops = [c.next for x in facts.rolled_loops for c in x.of(Role.RUNNING_MAXIMUM)]
        reach = facts.graph.rests_on
        tops = [v for v in tops if any(reach(v, p) for p in facts.score_products)]
        return [node for value in tops for node in self._uncapped(facts, value)]

    def _uncapped(self, facts: Facts, value: str) -> list[Node]:
        """Products with a scalar on the way to a value; of scores that tanh holds below a bound,
        those before tanh, without the bound."""
        found = scales(facts, value)
        for curve, inner in tangents(facts):
            if not facts.graph.rests_on(value, curve):
                continue
            last = [n for n in found if facts.graph.rests_on(n.result, curve)]
            caps = {facts.graph.core(scaling(facts, n)) for n in last}
            first = [n for n in scales(facts, inner) if scaling(facts, n) is not None]
            found = [n for n in found if n not in last]
            found += [n for n in first if self._divisor(facts, scaling(facts, n)) not in caps]
        return found

    def _before(self, facts: Facts, power: Exponential) -> list[Node]:
        """Products with a scalar that an exponential rests on, without the bound of tanh."""
        made = power.product
        return self._uncapped(facts, made.result if made is not None else power.score or "")

    def _divisor(self, facts: Facts, factor: str | None) -> str | None:
        """A factor; of a reciprocal, what it divides by."""
        made = produced(facts, factor) if factor is not None else None
        divided = made is not None and made.op.kind == OpKind.DIV
        over = facts.values.literal(made.op.inputs[0]) if made is not None and divided else None
        return facts.graph.core(made.op.inputs[1] if made is not None and over == 1 else factor)

    def _scores(self, facts: Facts, maximum: Node) -> bool:
        return any(facts.graph.rests_on(maximum.result, p) for p in facts.score_products)

    def _row(self, facts: Facts, maximum: Node) -> bool:
        """The maximum of a loaded row of scores, which their exponentials are taken below."""
        return not facts.contractions and any(
            e.score is not None and not e.rescale and facts.graph.rests_on(e.statistic, maximum)
            for e in facts.exponentials
        )

    def _query(self, facts: Facts) -> Iterable[Decision]:
        """A loaded vector times a scalar, on its way into a product that is summed by lanes, or
        added to a state."""
        if facts.contractions:
            return
        states = {c.next for loop in facts.loops for c in loop.carried}
        added = {n.result for v in states for n in elementwise(facts, v)} & {
            v for n in facts.graph.of(OpKind.ADD) for v in n.op.inputs[:2]
        }
        summed = {facts.graph.core(n.op.inputs[0]) for n in facts.graph.of(OpKind.REDUCE_SUM)}
        found = []
        for made in facts.graph.of(OpKind.MUL):
            if made.result not in summed | added:
                continue
            if sum(e != "1" for e in facts.types.shape(made.result)) < 2:
                continue
            for factor in facts.graph.upstream(made.result, lambda n: n.op.kind not in _FACTORS):
                if factor is made or factor.op.kind != OpKind.MUL:
                    continue
                if scaling(facts, factor) and any(map(facts.held_loads, factor.op.inputs[:2])):
                    found.append(factor)
        if found:
            yield self.decide(facts, "pre-scale Q", dict.fromkeys(found))

    def _outer(self, facts: Facts, node: Node, maximum: Node) -> bool:
        """The row maximum itself times a scalar."""
        if node.op.kind != OpKind.MUL:
            return False
        cores = [facts.graph.core(v) for v in node.op.inputs[:2]]
        other = next((v for v in node.op.inputs[:2] if facts.graph.core(v) != maximum.result), None)
        return maximum.result in cores and other is not None and scalar(facts, other)

    def _operand(self, facts: Facts) -> Iterable[Decision]:
        for product in facts.score_products:
            for role in ("lhs", "rhs"):
                found = scales(facts, product.op.operand(role) or "")
                if found:
                    yield self.decide(facts, "pre-scale Q", found)
                    return

    def _linear(self, facts: Facts) -> Iterable[Decision]:
        """A loaded tile times a parameter, on its way into a matrix product without a softmax."""
        if facts.score_products:
            return
        handed = facts.graph.function.parameter_names
        found = [
            node
            for product in facts.contractions
            for role in ("lhs", "rhs")
            for node in scales(facts, product.op.operand(role) or "")
            if node.kind == OpKind.MUL
            and facts.graph.core(scaling(facts, node)) in handed
            and facts.feeding(node.result)
            and not facts.graph.roots(node.result, *CONTRACTIONS)
        ]
        if found:
            yield self.decide(facts, "pre-scale Q", dict.fromkeys(found))
        if between := scaled_between(facts):
            yield self.decide(facts, _BETWEEN, between)

    def _backward(self, facts: Facts) -> Iterable[Decision]:
        """A gradient accumulator is multiplied by a scalar after its loop, or scores that are
        rebuilt are, and what is made of them in every round."""
        rebuilt = recomputed(facts)
        partial = [] if rebuilt else scaled_rounds(facts)
        found = [] if rebuilt else [n for n in scaled_last(facts) if n not in partial]
        summed = {c.result: loop for loop in facts.loops for c in loop.of(Role.ACCUMULATOR)}
        for node in facts.graph.of(OpKind.MUL) if summed else ():
            if (rate := scaling(facts, node)) is not None:
                tiles = [v for v in node.op.inputs[:2] if v != rate]
                ends = {v for tile in tiles for v in handed(facts, tile)} & {*summed}
                found += [node] if any(not node.inside(summed[v].node) for v in ends) else []
        scores = [e for e in facts.exponentials if e.node in rebuilt and e.score is not None]
        before = [n for e in scores for n in self._before(facts, e)]
        if partial:
            yield self.decide(facts, "scale every partial product", dict.fromkeys(partial))
        if found:
            yield self.decide(facts, "scale once in the epilogue", dict.fromkeys(found))
        elif before:
            again = [
                n
                for n in facts.graph.of(OpKind.MUL)
                if scaling(facts, n) is not None
                and any(facts.graph.rests_on(n.result, e.node) for e in scores)
            ]
            yield self.decide(facts, _REBUILT_SCALED, dict.fromkeys((*before, *again)))
        elif scores:
            yield from self._operand(facts)
