"""Steps of a model that are often kernels of their own, one behind the other in one kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, TILE, vary
from extractors.patterns.cases_rows import (
    ADD_POINTER,
    LAYER_NORM_POINTER,
    NORM_BACKWARD,
    ROW_NORM,
    SOFTMAX,
)
from extractors.patterns.cases_rows_threads import ROW_NORM_THREADS
from extractors.patterns.given_scale import given_scales
from extractors.patterns.stored_scale import DYNAMIC, divided_by_largest, quantised_operands
from kb.analysis.convolution import convolution
from kb.analysis.derivatives import logistic
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import is_wide
from kb.analysis.joined_steps import decays, gains_behind, modulations, products_apart, triangles
from kb.analysis.normalisations import normalisations
from kb.analysis.quantised import narrowed
from kb.analysis.rebuilt import normalised
from kb.analysis.rotations import rotations
from kb.analysis.row_operations import shares_of_sum
from kb.analysis.taps import weighted
from kb.evidence import Decision
from kb.ops import OpKind

_QUANTISED = vary(
    LAYER_NORM_POINTER,
    ("    tl.store(y + row * sy + at, (c * r * g + h).to(tl.float16), mask=inside)\n",
     "    o = c * r * g + h\n    s = tl.max(tl.abs(o)) / 448.0\n    tl.store(sy, s)\n"
     "    tl.store(y + row * n + at, (o / s).to(tl.float8e4nv), mask=inside)\n"),
)  # fmt: skip
_QUANTISED_TILE = vary(
    ROW_NORM,
    ("    ct.scatter(out, (row, at), ct.astype(v * r * g, x.dtype), latency=1)\n",
     "    o = v * r * g\n    s = ct.max(ct.abs(o), axis=0, keepdims=True) / 127.0\n"
     "    ct.scatter(stat, row, s)\n    ct.scatter(out, (row, at), ct.astype(o / s, ct.int8))\n"),
)  # fmt: skip
_QUANTISED_THREADS = vary(
    ROW_NORM_THREADS,
    ("half* out,", "signed char* out, const float* scale,"),
    ("= __float2half(v * r * g);",
     "= (signed char)fmaxf(-127.f, fminf(v * r * g / scale[0], 127.f));"),
)  # fmt: skip
_TURNED = (
    POINTER
    + """
@triton.jit
def turn(x, w, cos, sin, out, n, eps, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    a = tl.load(x + row * n + at).to(tl.float32)
    b = tl.load(x + row * n + T + at).to(tl.float32)
    r = tl.rsqrt((tl.sum(a * a) + tl.sum(b * b)) / n + eps)
    a = a * r * tl.load(w + at)
    b = b * r * tl.load(w + T + at)
    c = tl.load(cos + row * T + at)
    s = tl.load(sin + row * T + at)
    tl.store(out + row * n + at, a * c - b * s)
    tl.store(out + row * n + T + at, b * c + a * s)
"""
)
_TURNED_TILE = (
    TILE
    + """
@ct.kernel
def turn(x, cos, sin, out, scales, T: Int):
    row = ct.bid(0)
    a = ct.load(x, index=(row, 0), shape=(1, T))
    b = ct.load(x, index=(row, 1), shape=(1, T))
    c = ct.load(cos, index=(row, 0), shape=(1, T))
    s = ct.load(sin, index=(row, 0), shape=(1, T))
    k = ct.load(scales, index=(row, 0), shape=(1, 1))
    ct.store(out, index=(row, 0), tile=ct.astype((a * c - b * s) * k, ct.float8_e4m3fn))
    ct.store(out, index=(row, 1), tile=ct.astype((b * c + a * s) * k, ct.float8_e4m3fn))
"""
)
_GATED = vary(
    LAYER_NORM_POINTER,
    ("    tl.store(y +", "    z = tl.load(b + n + row * sx + at)\n    tl.store(y +"),
    ("(c * r * g + h)", "((c * r * g + h) * z * tl.sigmoid(z))"),
)
_GATED_BACK = vary(NORM_BACKWARD, ("wdy = dy * g", "wdy = dy * (1.0 / (1.0 + ct.exp(-dy))) * g"))
_RECTIFIED = vary(PRODUCT_POINTER, ("acc.to(tl.float16)", "tl.maximum(acc, 0.0)"))

_ROUTED = (
    POINTER
    + """
@triton.jit
def route(x, out, kind, n, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    v = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    best, place = tl.max(e / tl.sum(e, axis=0), axis=0, return_indices=True)
    tl.store(out + row, best)
    tl.store(kind + row, place)
"""
)
_CONVOLVED = (
    POINTER
    + """
@triton.jit
def blur(x, w, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    u = tl.load(x + at, mask=at < n, other=0.0) * tl.load(w)
    u += tl.load(x + at + 1, mask=at + 1 < n, other=0.0) * tl.load(w + 1)
    tl.store(out + at, u * tl.sigmoid(u), mask=at < n)
"""
)
_POWERS = (
    POINTER
    + """
@triton.jit
def powers(x, out, scales, n, T: tl.constexpr, R: tl.constexpr):
    row = tl.program_id(0) * R + tl.arange(0, R)
    at = row[:, None] * n + tl.arange(0, T)[None, :]
    v = tl.load(x + at)
    e = tl.ceil(tl.log2(tl.max(tl.abs(v), axis=1) / 448.0)) + 127.0
    e = tl.maximum(e, 0.0)
    tl.store(scales + row, e.to(tl.uint8))
    tl.store(out + at, (v / tl.exp2(e - 127.0)[:, None]).to(tl.float8e4nv))
"""
)

_SCALED = vary(
    PRODUCT_POINTER,
    ("        acc +=", "        squares += tl.sum(x * x, axis=1)\n        acc +="),
    ("    for ", "    squares = tl.zeros((TM,), dtype=tl.float32)\n    for "),
    ("acc.to(tl.float16)", "acc * tl.rsqrt(squares / K)[:, None]"),
)
_SCALINGS = frozenset({OpKind.MUL, OpKind.DIV})
_FACTORS = frozenset({OpKind.RSQRT, OpKind.SQRT, OpKind.REDUCE_SUM, OpKind.SIGMOID, OpKind.TANH})
"""What may multiply a product without being made of it: an inverse root, or a gate."""
Stage = Callable[[Facts], list[Node]]


def _norms(facts: Facts) -> list[Node]:
    """Where rows are normalised, or are again for their gradient."""
    norms = normalisations(facts)
    found = [n for norm in norms for n in (norm.root, *_squares(facts, norm.sums))]
    return found or normalised(facts)


def _squares(facts: Facts, sums: Iterable[Node]) -> Iterable[Node]:
    """The sums over rows that a product's loop takes beside it."""
    loops = {p.loop for p in facts.contractions} - {None}
    return (n for n in sums if n.loop in loops)


def _turned(facts: Facts) -> list[Node]:
    return [turn.node for turn in rotations(facts)]


def _activated(facts: Facts) -> list[Node]:
    """Logistic and hyperbolic functions, the error function, and what holds above zero."""
    plain = facts.graph.of(OpKind.SIGMOID, OpKind.TANH, OpKind.ERF)
    curves = [n for n in facts.graph.of(OpKind.DIV) if logistic(facts, n)]
    bounds = [n for n in facts.graph.of(OpKind.MAXIMUM) if _above_zero(facts, n)]
    return plain + curves + bounds


def _above_zero(facts: Facts, node: Node) -> bool:
    """A loaded tile held above zero; not a variance before its root, no exponent, no place."""
    if facts.graph.roots(node.result, OpKind.LOG, OpKind.LOG2):
        return False
    if facts.types.dtype(node.result).startswith(("i", "u")):
        return False
    if not is_wide(facts, node.result) or all(facts.number(v) != 0 for v in node.op.inputs[:2]):
        return False
    if not facts.feeding(node.result) or _magnitude(facts, node):
        return False
    roots = facts.graph.of(OpKind.SQRT, OpKind.RSQRT)
    return not any(facts.graph.rests_on(root.result, node) for root in roots)


def _magnitude(facts: Facts, node: Node) -> bool:
    """Whether absolute values are compared: a largest one is looked for."""
    made = (facts.graph.producer(facts.graph.core(v)) for v in node.op.inputs[:2])
    return any(n is not None and n.op.kind in (OpKind.ABS, OpKind.REDUCE_MAX) for n in made)


def _quantised(facts: Facts) -> list[Node]:
    """Where few bits are made: scaled, held between bounds, or divided by the largest element."""
    casts = [node for pair in narrowed(facts) for node in pair]
    return casts or given_scales(facts) or divided_by_largest(facts)


def _chosen(facts: Facts) -> list[Node]:
    """Sorts, and the places of the largest or least elements."""
    placed = [
        n
        for n in facts.graph.of(OpKind.REDUCE_MAX, OpKind.REDUCE_MIN)
        if facts.values.literal(n.op.operand("return_indices")) is True
    ]
    return placed + facts.graph.of(OpKind.SORT, OpKind.TOPK, OpKind.ARGMAX, OpKind.ARGMIN)


def _routed(facts: Facts) -> list[Node]:
    """Shares of a softmax of which some are selected."""
    return shares_of_sum(facts) if _chosen(facts) else []


def _convolved(facts: Facts) -> list[Node]:
    """Products of inputs and weights by taps."""
    found = None if facts.contractions else convolution(facts)
    if found is not None and found.product is not None:
        return [found.product]
    return [] if facts.contractions else weighted(facts)


def _shared_rows(facts: Facts) -> list[Node]:
    return gains_behind(facts, _activated(facts))


_APART = "several products in one kernel"
_STAGES: tuple[tuple[str, Stage], ...] = (
    ("decay", decays),
    ("mask", triangles),
    ("modulation", modulations),
    ("gain", _shared_rows),
    ("convolution", _convolved),
    ("softmax", _routed),
    ("selection", _chosen),
    ("normalisation", _norms),
    ("rotation", _turned),
    ("activation", _activated),
    ("quantisation", _quantised),
)


def _after(facts: Facts, node: Node, products: list[Node]) -> bool:
    """Whether a step takes, or scales, what a product gave, and gives no product an operand."""
    taken = any(facts.graph.rests_on(node.result, p) for p in products)
    if node.op.kind in _FACTORS and not taken:
        scaled = [n for n in facts.graph.downstream(node.result, 12) if n.op.kind in _SCALINGS]
        taken = any(facts.graph.rests_on(n.result, p) for n in scaled for p in products)
    return taken and not any(facts.graph.rests_on(p.result, node) for p in products)


_MODULATED = vary(
    LAYER_NORM_POINTER,
    ("(y, sy, x, sx,", "(y, sy, x, sx, z, u,"),
    (
        "(c * r * g + h)",
        "((c * r * g + h) * (1.0 + tl.load(z + row * sx + at, mask=inside, other=0.0))"
        " + tl.load(u + row * sx + at, mask=inside, other=0.0))",
    ),
)
_DECAYED = vary(
    PRODUCT_POINTER,
    ("acc.to(", "(acc * tl.exp(tl.load(a + m) - tl.load(b + m))[:, None]).to("),
)
_LOWER = vary(PRODUCT_POINTER, ("acc.to(", "tl.where(m[:, None] >= n[None, :], acc, 0.0).to("))
_BESIDE = vary(
    PRODUCT_POINTER,
    ("    acc = ", "    own = tl.dot(tl.load(a + m[:, None] * 16 + n[None, :]), tl.load(b + m[:, None] * 16 + n[None, :]))\n    tl.store(b + m[:, None] * 16 + n[None, :], own)\n    acc = "),  # noqa: E501
)  # fmt: skip
_CURVED = (
    POINTER
    + """
@triton.jit
def curve(out, x, g, h, n, W: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, W)
    v = tl.load(x + row * n + at, mask=at < n)
    y = tl.sigmoid(v) * tl.load(g + at, mask=at < n) + tl.load(h + at, mask=at < n)
    tl.store(out + row * n + at, y, mask=at < n)
"""
)


class StagesJoined(Pattern):
    """What one of these steps gives goes into another and is stored after it: product,
    convolution, softmax, selection, normalisation, rotation, activation, quantisation."""

    name = "steps-joined-in-one-kernel"
    axis = "fusion"
    source = "NVIDIA, TensorRT-LLM, fused normalisation and quantisation kernels"
    matches = (
        Case(_QUANTISED, "normalisation and quantisation in one kernel"),
        Case(_QUANTISED_TILE, "normalisation and quantisation in one kernel"),
        Case(_QUANTISED_THREADS, "normalisation and quantisation in one kernel"),
        Case(_TURNED, "normalisation and rotation in one kernel"),
        Case(_TURNED_TILE, "rotation and quantisation in one kernel"),
        Case(_GATED, "normalisation and activation in one kernel"),
        Case(_GATED_BACK, "normalisation and activation in one kernel"),
        Case(DYNAMIC, "quantisation and product in one kernel"),
        Case(_RECTIFIED, "product and activation in one kernel"),
        Case(_SCALED, "product and normalisation in one kernel"),
        Case(_ROUTED, "softmax and selection in one kernel"),
        Case(_CONVOLVED, "convolution and activation in one kernel"),
        Case(_MODULATED, "modulation and normalisation in one kernel"),
        Case(_DECAYED, "product and decay in one kernel"),
        Case(_LOWER, "product and mask in one kernel"),
        Case(_CURVED, "gain and activation in one kernel"),
        Case(_BESIDE, _APART),
    )
    near_misses = (
        NearMiss(
            vary(_TURNED, ("a * c - b * s)", "a * c - s)")), why="nothing is turned, only shifted"
        ),
        NearMiss(
            vary(_TURNED_TILE, (" * k, ct.float8_e4m3fn)", ", ct.float16)")), why="rotation alone"
        ),
        NearMiss(
            vary(_GATED, ("* z * tl.sigmoid(z))", "* z)")),
            why="what multiplies the normalised row is loaded",
        ),
        NearMiss(
            vary(_RECTIFIED, ("tl.maximum(acc, 0.0)", "tl.maximum(acc, N)")),
            why="held above a size",
        ),
        NearMiss(
            vary(_CONVOLVED, (" * tl.load(w)", ""), (" * tl.load(w + 1)", "")),
            why="neighbours are added, no weights are loaded",
        ),
        NearMiss(
            vary(_ROUTED, ("best, place =", "best = place ="), (", return_indices=True", "")),
            why="the largest share alone, no place",
        ),
        NearMiss(
            _POWERS,
            why="the exponent of the scale is held above zero",
            value="activation and quantisation in one kernel",
        ),
        NearMiss(
            vary(_CURVED, ("g + at,", "g + row * n + at,"), ("h + at,", "h + row * n + at,")),
            why="what multiplies and what is added belongs to the row",
        ),
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
        if facts.score_products or len(products) > 8:
            return
        seen = [(name, nodes) for name, stage in _STAGES if (nodes := stage(facts))]
        if products:
            seen = [
                (name, after)
                for name, nodes in seen
                if (after := [n for n in nodes if _after(facts, n, products)])
            ]
            seen.insert(0, ("product", products))
            if before := quantised_operands(facts):
                seen.insert(0, ("quantisation", before))
        apart = products_apart(facts)
        if apart:
            yield self.decide(facts, _APART, apart)
        if len(seen) < 2 or apart:
            return
        for store in facts.stores:
            met = [
                (name, own)
                for name, nodes in seen
                if (own := [n for n in nodes if facts.graph.rests_on(store.value, n)])
            ]
            if len(met) > 1:
                *first, last = (name for name, _ in met)
                found = [node for _, nodes in met for node in nodes]
                value = f"{', '.join(first)} and {last} in one kernel"
                yield self.decide(facts, value, [*found, store])
                return
