"""Weights of rows, such as gates, that are multiplied into an operand before its product, or into
what the product gave."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, TURNS, VIEWS, Node
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, OpKind

_GATED = vary(
    PRODUCT_POINTER,
    ("(a, b, out,", "(a, b, g, out,"),
    ("        acc += tl.dot(x, y)",
     "        gate = tl.load(g + t * TK + k)\n"
     "        x = (x * tl.exp(gate)[None, :]).to(x.dtype)\n        acc += tl.dot(x, y)"),
)  # fmt: skip
_PLAIN = vary(_GATED, ("tl.exp(gate)", "gate"))
_GATED_TILE = vary(
    PRODUCT,
    ("ct.mma(x, y, acc)", "ct.mma((x * ct.load(b, index=(k, 0), shape=(1, TK))).astype(a.dtype), y, acc)"),  # noqa: E501
)  # fmt: skip
_WEIGHED = vary(
    PRODUCT_POINTER,
    ("(a, b, out,", "(a, b, g, out,"),
    ("acc.to(", "(acc * tl.load(g + m)[:, None]).to("),
)
_WEIGHED_TILE = vary(
    PRODUCT,
    ("ct.astype(acc, out.dtype)",
     "ct.astype(acc * ct.load(b, index=(m, 0), shape=(TM, 1)), out.dtype)"),
)  # fmt: skip
_VALUE = "row weights multiplied into the operand"
_AFTER = "row weights multiplied into the result"
_LOOKS = VIEWS | TURNS
_ON = VIEWS | TURNS | CASTS | {
    OpKind.MUL, OpKind.SELECT, OpKind.IF, OpKind.IF_EXPRESSION, OpKind.FOR,
}  # fmt: skip


class RowWeights(Pattern):
    """A loaded tile is multiplied by a loaded vector, or by its exponential, spread over the tile,
    and cast to the type of an array again, on its way into a matrix product; or what matrix
    products gave is multiplied by a loaded vector on its way to a store."""

    name = "row-weights-multiplied-into-an-operand"
    axis = "scale_placement"
    source = "Yang et al., Gated Delta Networks (2025): beta and decay on keys and values"
    matches = (
        Case(_GATED, _VALUE),
        Case(_PLAIN, _VALUE),
        Case(_GATED_TILE, _VALUE),
        Case(_WEIGHED, _AFTER),
        Case(_WEIGHED_TILE, _AFTER),
    )
    near_misses = (
        NearMiss(
            vary(_PLAIN, ("x = (x * gate[None, :]).to(x.dtype)",
                          "x = (x.to(tl.float16) * gate[None, :])")),
            why="what is stored in few bits is scaled for the product",
        ),
        NearMiss(vary(_PLAIN, ("x * gate[None, :]", "x * x")), why="no weights of rows"),
        NearMiss(_GATED_TILE.replace("shape=(1, TK)", "shape=(TM, TK)"), why="one per element"),
        NearMiss(vary(_WEIGHED, ("acc * tl", "acc + tl")), why="added, no weights", value=_AFTER),
        NearMiss(
            vary(_WEIGHED, ("tl.load(g + m)", "tl.exp(tl.load(g + m))")),
            why="a decay, no weights",
            value=_AFTER,
        ),
        NearMiss(
            vary(_WEIGHED_TILE, ("shape=(TM, 1)", "shape=(TM, TN)")),
            why="one per element",
            value=_AFTER,
        ),
        NearMiss(PRODUCT, why="operands as they were loaded"),
        NearMiss(PRODUCT_POINTER, why="operands as they were loaded"),
        NearMiss(PRODUCT_THREADS, why="operands as they were loaded"),
    )  # fmt: skip

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: list[Node] = []
        for product in facts.contractions:
            for role in ("lhs", "rhs"):
                for cast in facts.graph.ends(product.op.operand(role), _LOOKS):
                    if cast.op.kind in CASTS and _of_an_array(facts, cast):
                        weighed = _weighed(facts, cast.op.inputs[0])
                        found += [*weighed, cast] if weighed else []
        if found:
            yield self.decide(facts, _VALUE, dict.fromkeys(found))
        if after := _after(facts):
            yield self.decide(facts, _AFTER, after)


def _after(facts: Facts) -> list[Node]:
    """Products of what matrix products gave, on its way to a store, and a loaded vector."""
    found: dict[Node, None] = {}
    for store in facts.stores if facts.contractions else ():
        for node in facts.graph.upstream(store.value, lambda n: n.op.kind not in _ON):
            if node.op.kind != OpKind.MUL:
                continue
            for tile, weight in (node.op.inputs[:2], node.op.inputs[1::-1]):
                made = facts.graph.roots(tile, *CONTRACTIONS)
                if made and _lanes(facts, tile) > 1 and _plain(facts, weight):
                    found[node] = None
    return list(found)


def _plain(facts: Facts, weight: str) -> bool:
    """One loaded number for each row or column of a tile, as it was loaded."""
    ends = facts.graph.ends(weight, _LOOKS | CASTS)
    loads = [facts.access(end) for end in ends]
    return _lanes(facts, weight) == 1 and bool(loads) and None not in loads


def _of_an_array(facts: Facts, cast: Node) -> bool:
    return facts.types.dtype(cast.result).startswith("dtypeof")


def _weighed(facts: Facts, value: str) -> list[Node]:
    """Products on the way from a loaded tile to a value, each with a vector spread over it."""
    found: list[Node] = []
    for node in facts.graph.upstream(value, lambda n: n.op.kind not in _LOOKS | {OpKind.MUL}):
        if node.op.kind != OpKind.MUL:
            continue
        for tile, weight in (node.op.inputs[:2], node.op.inputs[1::-1]):
            if _vector(facts, weight) and _lanes(facts, tile) > 1:
                found.append(node)
                break
    last = [n for n in found if any(facts.held_loads(v) for v in n.op.inputs[:2])]
    return found if last else []


def _vector(facts: Facts, value: str) -> bool:
    """One loaded number, or its exponential, for each row or column of a tile."""
    loads = facts.feeding(value)
    made = facts.graph.roots(value, *CONTRACTIONS)
    return _lanes(facts, value) == 1 and bool(loads) and not made


def _lanes(facts: Facts, value: str) -> int:
    return sum(extent != "1" for extent in facts.types.shape(value))
