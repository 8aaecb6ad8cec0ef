"""How scales of quantised operands enter a product."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_threads import PRODUCT_THREADS
from extractors.patterns.routed_weight import routed
from kb.analysis.accesses import BULK, Access
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, LOOPS, TURNS, VIEWS, Node
from kb.analysis.loops import Loop, persistent
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, OpKind

_SCALED = vary(
    PRODUCT,
    ("def product(a, b, out,", "def product(a, b, sa, out,"),
    ("acc = ct.mma(x, y, acc)",
     "f = ct.load(sa, index=(m, k), shape=(TM, 1))\n"
     "        acc = acc + ct.mma(x, y, ct.full((TM, TN), 0.0, dtype=ct.float32)) * f"),
)  # fmt: skip
_LATE = vary(
    PRODUCT,
    ("def product(a, b, out,", "def product(a, b, sa, out,"),
    (
        "ct.astype(acc, out.dtype)",
        "ct.astype(acc * ct.load(sa, index=(m, 0), shape=(TM, 1)), out.dtype)",
    ),
)


SCALED_POINTER = vary(
    PRODUCT_POINTER,
    ("def product(a, b, out,", "def product(a, b, scales, out,"),
    ("acc += tl.dot(x, y)",
     "acc += tl.dot(x, y) * tl.load(scales + m * tl.cdiv(K, TK) + t, mask=m < M, other=0.0)[:, None]"),  # noqa: E501
)  # fmt: skip
_LATE_POINTER = vary(
    PRODUCT_POINTER,
    ("def product(a, b, out,", "def product(a, b, scales, out,"),
    ("    tl.store(out +", "    acc = acc * tl.load(scales + m, mask=m < M, other=0.0)[:, None]\n    tl.store(out +"),  # noqa: E501
)  # fmt: skip


_SPREAD = (
    (
        "scales + m, mask=m < M, other=0.0)[:, None]",
        "scales + tl.broadcast_to(m[:, None], (TM, TN)))",
    ),
)
_SCALED_THREADS = vary(
    PRODUCT_THREADS,
    ("const float* __restrict__ b,", "const float* __restrict__ b, const float* scales,"),
    (
        "        for (int k = 0; k < T; ++k) acc +=",
        "        float own = 0.f;\n        for (int k = 0; k < T; ++k) own +=",
    ),
    (
        "        __syncthreads();\n    }",
        "        acc += own * scales[t / T];\n        __syncthreads();\n    }",
    ),
)


Scaled = tuple[Node, list[Access]]
"""A multiplication, with the loads of its scales."""

_FIRST = frozenset({OpKind.ZEROS, OpKind.FULL, OpKind.CONST, OpKind.UNDEF})
_LOOKED_AT = VIEWS | CASTS | TURNS
_ADDED = LOOPS | {
    OpKind.ADD, OpKind.SUB, OpKind.FMA, OpKind.IF, OpKind.IF_EXPRESSION, OpKind.SELECT,
}  # fmt: skip
"""What products go through that are added up."""


_TILE_BESIDE = vary(
    PRODUCT,
    ("def product(a, b, out,", "def product(a, b, sa, out,"),
    ("ct.astype(acc, out", "ct.astype(acc * ct.load(sa, index=(m, n), shape=(TM, TN)), out"),
)
_FADED = vary(_SCALED, ("out,", "out, g,"), ("TN), 0.0, dtype=ct.float32)) * f", "TN), 0.0, dtype=ct.float32)) * ct.exp(ct.load(g, index=(m, k), shape=(TM, 1))) * f"))  # fmt: skip  # noqa: E501


class BlockScaledAccumulation(Pattern):
    """Every step's product is scaled before it is added; or the whole sum is, after the loop."""

    name = "block-scaled-two-level-accumulation"
    axis = "quant_scaling"
    source = "DeepSeek-AI, DeepSeek-V3 (2024), fine-grained quantisation"
    matches = (
        Case(_SCALED, "per-K-block promotion acc += dot*scale"),
        Case(_LATE, "scale in epilogue"),
        Case(SCALED_POINTER, "per-K-block promotion acc += dot*scale"),
        Case(_LATE_POINTER, "scale in epilogue"),
        Case(vary(_LATE_POINTER, *_SPREAD), "scale in epilogue"),
        Case(_SCALED_THREADS, "per-K-block promotion acc += dot*scale"),
        Case(
            vary(
                PRODUCT_POINTER,
                (
                    "acc += tl.dot(x, y)",
                    'acc = tl.dot_scaled(x, None, "e4m3", y, None, "e4m3", acc)',
                ),
            ),
            "mma_scaled",
        ),
    )
    near_misses = (
        NearMiss(
            vary(_LATE_POINTER, (_SPREAD[0][0], "scales + m[:, None] * N + n[None, :])")),
            why="another tile of the same size, no scale",
        ),
        NearMiss(_TILE_BESIDE, why="a tile of the same size, no scale"),
        NearMiss(_FADED, why="what exponentials weigh is no sum of quantised products"),
        NearMiss(
            vary(_LATE_POINTER, ("x = tl.load(", "x = tl.load(scales + m)[:, None] * tl.load(")),
            why="a weight of the rows, which an operand has taken up before",
        ),
        NearMiss(
            vary(
                SCALED_POINTER,
                ("acc += tl.dot", "tl.store(out + t, tl.dot"),
                ("[:, None]\n        pa", "[:, None])\n        pa"),
            ),
            why="every round stores a product of its own",
        ),
        NearMiss(PRODUCT, why="nothing is scaled"),
        NearMiss(PRODUCT_POINTER, why="nothing is scaled"),
        NearMiss(PRODUCT_THREADS, why="nothing is scaled"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        native = facts.graph.of(OpKind.MMA_SCALED)
        if native:
            yield self.decide(facts, "mma_scaled", native)
        inside: list[Where] = []
        after: list[Where] = []
        weighted = {node for node, _ in routed(facts)}
        for product in facts.contractions:
            scaled = self._chain if facts.score_products else self._scaled
            for node, scales in scaled(facts, product):
                if node in weighted:
                    continue
                loop = facts.loop(node.loop) if node.loop is product.loop else None
                if loop is None or persistent(loop, facts.values):
                    after += [*scales, node]
                elif facts.score_products or _carried(facts, loop, node):
                    inside += [*scales, node]
        if inside:
            yield self.decide(facts, "per-K-block promotion acc += dot*scale", inside)
        if after:
            yield self.decide(facts, "scale in epilogue", after)

    def _chain(self, facts: Facts, product: Node) -> list[Scaled]:
        """Multiplications right after a product, each by a loaded number."""
        found: list[Scaled] = []
        value = product.result
        while True:
            users = facts.graph.users(value)
            if len(users) == 1 and users[0].op.kind in VIEWS | CASTS:
                value = users[0].result
                continue
            steps = [n for n in users if n.op.kind == OpKind.MUL]
            if len(users) != 1 or not steps:
                return found
            (other,) = [v for v in steps[0].op.inputs[:2] if v != value] or [value]
            loaded = facts.access(
                facts.graph.producer(facts.graph.through(other, VIEWS | CASTS)) or product
            )
            if loaded is None or loaded.is_store:
                return found
            found.append((steps[0], [loaded]))
            value = steps[0].result

    def _scaled(self, facts: Facts, product: Node) -> list[Scaled]:
        """Products of a result with a loaded row, column or number."""
        weights = _weights(facts)
        sums = [n for n in facts.reductions if facts.graph.rests_on(n.result, product)]

        def reduced(value: str) -> bool:
            return any(facts.graph.rests_on(value, n) and not n.loops for n in sums)

        found: list[Scaled] = []
        seen: set[Node] = set()
        for node in facts.graph.downstream(product.result, 40):
            if node.op.kind != OpKind.MUL or node in seen:
                continue
            seen.add(node)
            for value, other in (node.op.inputs[:2], node.op.inputs[1::-1]):
                narrow = len([e for e in facts.types.shape(other) if e != "1"]) < 2
                scales = [s for s in self._loaded(facts, other) if s.array not in weights]
                if scales and facts.graph.rests_on(value, product) and not reduced(value):
                    if narrow or all(_narrow(facts, scale) for scale in scales):
                        found += [(node, scales)] if self._sums_products(facts, value) else []
        return found

    def _sums_products(self, facts: Facts, value: str) -> bool:
        """True for products of matrices and sums of such, perhaps scaled before; what is computed
        with anything else, as with exponentials or other tiles, is no quantised sum."""
        pending, seen = [value], {value}
        for current in pending:
            node = facts.graph.producer(current)
            feeds = facts.graph.feeds(current)
            if node is not None and node in facts.contractions:
                feeds = tuple(v for role, v in node.op.operands if role == "acc")
            elif node is not None and facts.access(node) is not None:
                feeds = ()
            elif node is not None and node.op.kind == OpKind.MUL:
                feeds = tuple(v for v in feeds[:2] if not self._factor(facts, v))
            elif node is not None and node.op.kind in _FIRST:
                feeds = ()
            elif node is not None and node.op.kind in _LOOKED_AT:
                feeds = feeds[:1]
            elif node is not None and node.op.kind not in _ADDED:
                return False
            pending += [v for v in feeds if v not in seen]
            seen.update(feeds)
        return True

    def _factor(self, facts: Facts, value: str) -> bool:
        """A number, loaded scales, or such as are made of the largest elements."""
        made = facts.graph.producer(facts.graph.core(value))
        scales = self._loaded(facts, value)
        if (
            facts.graph.roots(value, OpKind.REDUCE_MAX)
            and sum(extent != "1" for extent in facts.types.shape(value)) < 2
        ):
            return not facts.graph.roots(value, OpKind.EXP, OpKind.EXP2, *CONTRACTIONS)
        return made is None or bool(scales) or facts.number(value) is not None

    def _loaded(self, facts: Facts, value: str) -> list[Access]:
        """The loads that a scale is, or that it is the product of."""
        made = facts.graph.producer(facts.graph.core(value))
        if made is not None and made.op.kind in LOOPS:
            core = facts.graph.core(value)
            ways = [(c.init, c.next) for x in facts.loops for c in x.carried if c.result == core]
            return [load for way in ways for v in way for load in facts.held_loads(v)]
        if made is None or made.op.kind != OpKind.MUL:
            return facts.held_loads(value)
        sides = [facts.held_loads(v) for v in made.op.inputs[:2]]
        return [load for side in sides for load in side] if all(sides) else []


def _narrow(facts: Facts, scale: Access) -> bool:
    """True for a row, a column or a number, also where it is loaded once for every element."""
    if len([e for e in facts.types.shape(scale.value) if e != "1"]) < 2:
        return True
    return scale.mode not in BULK and len(_lanes(scale)) < 2


def _weights(facts: Facts) -> set[str | None]:
    """Arrays that a tile is multiplied by, as it was loaded, before a product: gates and weights of
    rows. What belongs to numbers of few bits meets them after a cast."""
    found = set[str | None]()
    for node in facts.graph.of(OpKind.MUL):
        for tile, factor in (node.op.inputs[:2], node.op.inputs[1::-1]):
            wide = sum(extent != "1" for extent in facts.types.shape(tile)) > 1
            loads = facts.graph.ends(tile, VIEWS) if wide else []
            if not any(facts.access(n) for n in loads):
                continue
            if any(facts.graph.rests_on(p.result, node) for p in facts.contractions):
                made = facts.graph.producer(facts.graph.core(factor))
                sides = made.op.inputs[:2] if made is not None and made.kind == OpKind.MUL else ()
                found |= {a.array for v in (factor, *sides) for a in facts.held_loads(v)}
    return found


def _carried(facts: Facts, loop: Loop, scaled: Node) -> bool:
    """Whether a loop adds up what was scaled."""
    return any(facts.graph.rests_on(state.next, scaled) for state in loop.carried)


def _lanes(access: Access) -> set[str]:
    return {a.value for e in access.index for a in e.atoms() if a.kind is AtomKind.LANE}
