"""Steps of a model that are often kernels of their own, one behind the other in one kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_biased import (
    BIASED,
    BIASED_FLAT_THREADS,
    BIASED_THREADS,
    BIASED_TILE,
)
from extractors.patterns.cases_pairs import COMPARED_ROWS
from extractors.patterns.cases_rows import (
    ADD_POINTER,
    LAYER_NORM_POINTER,
    NORM_BACKWARD,
    ROW_NORM,
    SOFTMAX,
)
from extractors.patterns.cases_rows_threads import ROW_NORM_THREADS
from extractors.patterns.cases_stages import (
    BESIDE,
    CONVOLVED,
    CURVED,
    DECAYED,
    EMBEDDED,
    GATE,
    GATE_THREADS,
    GATE_TILE,
    GATED,
    GATED_BACK,
    GATED_BEFORE_THREADS,
    LISTED,
    LOWER,
    MASKED,
    MODULATED,
    OVER_CLASSES,
    PACKED,
    POWERS,
    QUANTISED,
    QUANTISED_THREADS,
    QUANTISED_TILE,
    RECTIFIED,
    ROUTED,
    SCALED,
    SCATTERED_THREADS,
    SOFT_TARGET,
    SUMMED_UP,
    TARGET,
    TURNED,
    TURNED_TILE,
    TWICE,
)
from extractors.patterns.given_scale import GIVEN, given_scales
from extractors.patterns.indirect_access import chosen_rows
from extractors.patterns.random_source import DRAWS
from extractors.patterns.routed_weight import routed
from extractors.patterns.stored_scale import (
    DYNAMIC,
    QUANTISE,
    QUANTISE_THREADS,
    QUANTISE_TILE,
    divided_by_largest,
    largest_sizes,
    quantised_operands,
)
from kb.analysis.accesses import Access
from kb.analysis.composed_steps import (
    activated,
    scaled,
    softmax_gradients,
    weighted_sums,
)
from kb.analysis.composed_sums import (
    listed_rows,
)
from kb.analysis.derivatives import differentiated
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import is_wide
from kb.analysis.joined_steps import decays, log_of_sum, modulations, products_apart
from kb.analysis.operations import attends
from kb.analysis.packing import packed
from kb.analysis.quantised import narrowed
from kb.analysis.single_steps import (
    aims,
    chosen,
    convolved,
    gated,
    masked,
    norms,
    norms_again,
    scanned,
    shared_out,
    shared_rows,
    shifted,
    turned,
)
from kb.evidence import Decision
from kb.ops import OpKind

_SCALINGS = frozenset({OpKind.MUL, OpKind.DIV})
_ARITHMETIC = frozenset({OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV, OpKind.FMA})
_FACTORS = frozenset({OpKind.RSQRT, OpKind.SQRT, OpKind.REDUCE_SUM, OpKind.SIGMOID, OpKind.TANH})
"""What may multiply a product without being made of it: an inverse root, or a gate."""
Step = tuple[str, list[Node]]
Stage = Callable[[Facts], list[Node]]


def _quantised(facts: Facts) -> list[Node]:
    """Where few bits are made: scaled, held between bounds, or divided by the largest element."""
    casts = [node for pair in narrowed(facts) for node in pair]
    return casts or given_scales(facts) or divided_by_largest(facts)


def _dropped(facts: Facts) -> list[Node]:
    return facts.graph.of(*DRAWS)


def _gathered(facts: Facts) -> list[Node]:
    """Rows that loaded numbers choose, where no product takes them."""
    if facts.contractions:
        return []
    wide = (a for a in facts.loads if facts.of_threads or is_wide(facts, a.value))
    return [a.node for a in chosen_rows(facts, wide)]


def _scaled(facts: Facts) -> list[Node]:
    return scaled(facts, _quantised(facts))


_LEFT_OUT = vary(
    PRODUCT_POINTER,
    ("(a, b, out,", "(a, b, out, table,"),
    ("    tl.store(out", "    seen = tl.load(table + m[:, None] * N + n[None, :])\n"
     "    acc = tl.where(seen > 0, acc, -1.0e6)\n    tl.store(out"),
)  # fmt: skip
_BY_LARGEST = "largest element and quantisation in one kernel"
_MANY = 24
"""Products of one kernel that are looked at."""
_APART = "several products in one kernel"
_STAGES: tuple[tuple[str, Stage], ...] = (
    ("gather", _gathered),
    ("dropout", _dropped),
    ("decay", decays),
    ("modulation", modulations),
    ("gain", shared_rows),
    ("bias", shifted),
    ("convolution", convolved),
    ("softmax", shared_out),
    ("weighted sum", weighted_sums),
    ("softmax gradient", softmax_gradients),
    ("selection", chosen),
    ("normalisation", norms),
    ("second normalisation", norms_again),
    ("rotation", turned),
    ("activation", activated),
    ("gate", gated),
    ("log-sum-exp", log_of_sum),
    ("target", aims),
    ("mask", masked),
    ("scan", scanned),
    ("scaling", _scaled),
    ("quantisation", _quantised),
    ("packing", packed),
)
_WEIGHT = "routing weight"
_BEFORE = frozenset({"normalisation", "rotation", "activation"})
"""Steps that an operand of a product may go through."""
_PLACED = frozenset({"gather", "scatter"})
_LIGHT = frozenset({"mask", "scan", "packing"})
"""Steps that need another one beside them that is no move."""
_CUT = frozenset({"scaling", "quantisation", "packing"})
_INHERENT = frozenset({"softmax", "weighted sum", "decay", "mask", "selection", "log-sum-exp"})
"""Steps that an attention has of itself."""


@lru_cache(maxsize=2)
def steps(facts: Facts) -> list[Step]:
    """Every step that a kernel takes, by its name, with its places; none of too many products."""
    if len(facts.contractions) > _MANY:
        return []
    seen = [(name, nodes) for name, stage in _STAGES if (nodes := stage(facts))]
    if differentiated(facts):
        seen = [("gradient" if name == "gate" else name, nodes) for name, nodes in seen]
    return _beside(facts, seen, facts.contractions) if facts.contractions else seen


def _between(facts: Facts, steps: list[Node], store: Access) -> list[Node]:
    """Arithmetic on tiles from the first step to the store, without products and sums."""
    if facts.of_threads or facts.contractions or facts.reductions or store.value is None:
        return []
    way = facts.graph.upstream(store.value, None, facts.graph.node_set(steps))
    return [n for n in way if n.op.kind in _ARITHMETIC and is_wide(facts, n.result)]


def _beside(facts: Facts, seen: list[Step], products: list[Node]) -> list[Step]:
    """The products of a kernel, and of other steps those before and behind them."""
    scores = attends(facts)
    found: list[Step] = [("attention" if scores else "product", products)]
    for name, nodes in seen:
        after = [n for n in nodes if _after(facts, n, products)]
        fed = [n for n in nodes if name in _BEFORE and _fed(facts, n, products)]
        if (own := [n for n in nodes if n in after or n in fed]) and not (
            scores and name in _INHERENT
        ):
            found.append((name, own))
    if listed := [] if scores else listed_rows(facts):
        found.insert(0, ("permutation", listed))
    if weights := [n for n, _ in routed(facts)]:
        found.append((_WEIGHT, weights))
    if before := quantised_operands(facts):
        found.insert(0, ("quantisation", before))
    return found


def _fed(facts: Facts, node: Node, products: list[Node]) -> bool:
    """Whether an operand of a product is made of a step that rests on no product."""
    if any(facts.graph.rests_on(node.result, p) for p in products):
        return False
    return any(facts.graph.rests_on(v, node) for p in products for v in p.op.inputs[:2])


def _after(facts: Facts, node: Node, products: list[Node]) -> bool:
    """Whether a step takes, or scales, what a product gave, and gives no product an operand."""
    taken = any(facts.graph.rests_on(node.result, p) for p in products)
    if node.op.kind in _FACTORS and not taken:
        scaled = [n for n in facts.graph.downstream(node.result, 12) if n.op.kind in _SCALINGS]
        taken = any(facts.graph.rests_on(n.result, p) for n in scaled for p in products)
    return taken


class StagesJoined(Pattern):
    """What one of these steps gives goes into another and is stored after it: permutation, product,
    attention, convolution, softmax and its gradient, weighted sum, selection, normalisation,
    rotation, activation, gate, target, mask, scaling, quantisation with its largest element."""

    name = "steps-joined-in-one-kernel"
    axis = "fusion"
    source = "NVIDIA, TensorRT-LLM, fused normalisation and quantisation kernels"
    matches = (
        Case(QUANTISED, "normalisation and quantisation in one kernel"),
        Case(QUANTISED_TILE, "normalisation and quantisation in one kernel"),
        Case(QUANTISED_THREADS, "normalisation and quantisation in one kernel"),
        Case(TURNED, "normalisation and rotation in one kernel"),
        Case(TURNED_TILE, "rotation and quantisation in one kernel"),
        Case(GATED, "normalisation, activation and gate in one kernel"),
        Case(GATED_BACK, "normalisation, activation and gate in one kernel"),
        Case(DYNAMIC, "quantisation and product in one kernel"),
        Case(RECTIFIED, "product and activation in one kernel"),
        Case(SCALED, "product and normalisation in one kernel"),
        Case(ROUTED, "softmax and selection in one kernel"),
        Case(CONVOLVED, "convolution and activation in one kernel"),
        Case(SOFT_TARGET, "softmax and target in one kernel"),
        Case(PACKED, "largest element, quantisation and packing in one kernel"),
        Case(QUANTISE, _BY_LARGEST),
        Case(QUANTISE_TILE, _BY_LARGEST),
        Case(QUANTISE_THREADS, _BY_LARGEST),
        Case(_LEFT_OUT, "product and mask in one kernel"),
        Case(MODULATED, "modulation and normalisation in one kernel"),
        Case(DECAYED, "product and decay in one kernel"),
        Case(LOWER, "product and mask in one kernel"),
        Case(CURVED, "gain and activation in one kernel"),
        Case(BIASED, "bias and activation in one kernel"),
        Case(BIASED_TILE, "bias and activation in one kernel"),
        Case(BIASED_THREADS, "bias and activation in one kernel"),
        Case(BIASED_FLAT_THREADS, "bias and activation in one kernel"),
        Case(BESIDE, _APART),
        Case(GATE, "activation and gate in one kernel"),
        Case(GATE_TILE, "activation and gate in one kernel"),
        Case(GATE_THREADS, "activation and gate in one kernel"),
        Case(GATED_BEFORE_THREADS, "activation and gate in one kernel"),
        Case(TARGET, "softmax and target in one kernel"),
        Case(OVER_CLASSES, "product and log-sum-exp in one kernel"),
        Case(MASKED, "softmax gradient and mask in one kernel"),
        Case(TWICE, "normalisation and second normalisation in one kernel"),
        Case(LISTED, "permutation and product in one kernel"),
        Case(EMBEDDED, "gather and normalisation in one kernel"),
        Case(SCATTERED_THREADS, "quantisation and scatter in one kernel"),
        Case(SUMMED_UP, "activation and scan in one kernel"),
    )
    near_misses = (
        NearMiss(COMPARED_ROWS, why="a decay between rows of one array is no share of a softmax"),
        NearMiss(
            vary(TURNED, ("a * c - b * s)", "a * c - s)")), why="nothing is turned, only shifted"
        ),
        NearMiss(
            vary(TURNED_TILE, (" * k, ct.float8_e4m3fn)", ", ct.float16)")), why="rotation alone"
        ),
        NearMiss(
            vary(GATED, ("* z * tl.sigmoid(z))", "* z)")),
            why="what multiplies the normalised row is loaded",
        ),
        NearMiss(
            vary(RECTIFIED, ("tl.maximum(acc, 0.0)", "tl.maximum(acc, N)")),
            why="held above a size",
        ),
        NearMiss(
            vary(CONVOLVED, (" * tl.load(w)", ""), (" * tl.load(w + 1)", "")),
            why="neighbours are added, no weights are loaded",
        ),
        NearMiss(
            vary(ROUTED, ("best, place =", "best = place ="), (", return_indices=True", "")),
            why="the largest share alone, no place",
        ),
        NearMiss(
            POWERS,
            why="the exponent of the scale is held above zero",
            value="activation and quantisation in one kernel",
        ),
        NearMiss(
            vary(CURVED, ("g + at,", "g + row * n + at,"), ("h + at,", "h + row * n + at,")),
            why="what multiplies and what is added belongs to the row",
            value="gain and activation in one kernel",
        ),
        NearMiss(vary(BIASED, ("(h + at,", "(h + row * n + at,")), why="a row of its own is added"),
        NearMiss(
            vary(BIASED_TILE, ("index=(0,)", "index=(row,)")), why="a row of its own is added"
        ),
        NearMiss(vary(BIASED_THREADS, ("h[i]", "h[row * n + i]")), why="a row of its own is added"),
        NearMiss(vary(BIASED_FLAT_THREADS, ("h[i % n]", "h[i]")), why="an array like the other"),
        NearMiss(vary(GATE, (" * u,", " * v,")), why="one tile, no gate"),
        NearMiss(vary(GATE_TILE, ("* u)", "* 2.0)")), why="a number, no gate"),
        NearMiss(vary(GATE_THREADS, (" * y[i]", " * 2.0f")), why="a number, no gate"),
        NearMiss(vary(GATED_BEFORE_THREADS, ("2 * i + 1", "2 * i")), why="one element, no gate"),
        NearMiss(vary(SOFT_TARGET, ("p - 0.9 *", "p * 0.9 *")), why="nothing is taken off"),
        NearMiss(
            vary(PACKED, ("low | (high << 4)", "low + high")),
            why="one number in a byte",
            value="largest element, quantisation and packing in one kernel",
        ),
        NearMiss(GIVEN, why="the scale is given"),
        NearMiss(vary(_LEFT_OUT, ("-1.0e6", "0.5")), why="no low number"),
        NearMiss(vary(OVER_CLASSES, ("tl.log(", "tl.abs(")), why="no logarithm of the sum"),
        NearMiss(vary(TARGET, ("tl.load(y + row)", "n // 2")), why="no label is loaded"),
        NearMiss(vary(MASKED, ("at <= row", "at < W")), why="no side of a diagonal"),
        NearMiss(vary(SCATTERED_THREADS, ("slots[blockIdx.x]", "blockIdx.x")), why="rows in order"),
        NearMiss(vary(SUMMED_UP, ("1.0 / (1.0 + ct.exp(-v))", "v")), why="a scan alone"),
        NearMiss(vary(LISTED, ("tl.load(ids + m)", "m")), why="rows in order"),
        NearMiss(ROW_NORM, why="normalisation alone"),
        NearMiss(NORM_BACKWARD, why="the gradient of a normalisation alone"),
        NearMiss(ROW_NORM_THREADS, why="normalisation alone"),
        NearMiss(LAYER_NORM_POINTER, why="normalisation alone"),
        NearMiss(ADD_POINTER, why="one addition"),
        NearMiss(SOFTMAX, why="no such step"),
        NearMiss(PRODUCT, why="no such step"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        products = facts.contractions
        if len(products) > _MANY:
            return
        apart = products_apart(facts)
        if apart:
            yield self.decide(facts, _APART, apart)
        seen = steps(facts)
        store, met = max(_met(facts, seen), key=lambda one: len(one[1]), default=(None, []))
        found = [node for _, nodes in met for node in nodes]
        if {name for name, _ in met} <= _CUT:
            met = [*_largest(facts, met), *met]
        if store is not None and len(met) > 1 and not (_told(met) or _alone(met)):
            *first, last = (name for name, _ in met)
            value = f"{', '.join(first)} and {last} in one kernel"
            yield self.decide(facts, value, [*found, *_between(facts, found, store), store])


def _met(facts: Facts, seen: list[Step]) -> Iterable[tuple[Access, list[Step]]]:
    """For every store the steps that the stored element has gone through."""
    for store in facts.stores:
        on_the_way = facts.graph.resting(store.value)
        own = ((name, [n for n in ns if on_the_way >> n.index & 1]) for name, ns in seen)
        met = [(name, nodes) for name, nodes in own if nodes]
        if met and not facts.contractions and chosen_rows(facts, [store]):
            met.append(("scatter", [store.node]))
        yield store, met


def _largest(facts: Facts, met: list[Step]) -> list[Step]:
    """The largest elements that a scale is made of, by which what is cut to few bits is scaled."""
    cut = [n for name, nodes in met if name == "quantisation" for n in nodes]
    tops = largest_sizes(facts) if cut else []
    found = [top for top in tops if any(facts.graph.rests_on(n.result, top) for n in cut)]
    return [("largest element", found)] if found else []


def _alone(met: list[Step]) -> bool:
    """Whether all but one step only say where elements come from or go, or which are left."""
    names = {name for name, _ in met}
    if names == _PLACED:
        return False
    return len(names - _PLACED) < (2 if names - _PLACED <= _LIGHT else 1)


def _told(met: list[Step]) -> bool:
    """Whether the steps are a product and the weights of its rows, which have their own pattern."""
    return [name for name, _ in met] == ["product", _WEIGHT]
