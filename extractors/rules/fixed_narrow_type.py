# ruff: noqa: E501
"""What is computed is narrowed to one 16-bit type, whatever the type of the arrays is."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.host.events import CheckRecord
from extractors.host.facts import Material
from extractors.host.values import Expr
from extractors.patterns.cases import ATTENTION, ATTENTION_POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import COPIES, TURNS, VIEWS, Node
from kb.evidence import Finding
from kb.ops import OpKind
from kb.planner.evaluation import DTYPE_BYTES

_NARROW = frozenset({"f16", "bf16"})
_EIGHT_BITS = frozenset({"f8e4m3", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz"})
_CHOSEN = vary(
    PRODUCT_POINTER,
    ("TK: tl.constexpr)", "TK: tl.constexpr, H: tl.constexpr)"),
    ("    tl.store(", "    if H:\n        acc = acc.to(tl.bfloat16)\n    else:\n        acc = acc.to(tl.float16)\n    tl.store("),
    ("acc.to(tl.float16), mask", "acc, mask"),
)  # fmt: skip
_EIGHT_BITS_TOO = vary(
    _CHOSEN, ("if H:", "if out.dtype.element_ty == tl.float8e5:"), ("tl.bfloat16", "tl.float8e5")
)
_DEMANDED = (
    PRODUCT_POINTER
    + """
import torch
def run(a, b):
    assert a.dtype == torch.float16
    M, K = a.shape
    out = torch.empty_like(a)
    product[(M // 64, K // 64)](a, b, out, M, K, K, K, K, K, 64, 64, 64)
    return out
"""
)
_DECLARED = """
using Out = __nv_bfloat16;
__global__ void twice(Out* dst, const float* src, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { dst[i] = (Out)(src[i] * 2.0f); }
}
"""


class FixedNarrowType(Rule):
    """32-bit floats are cast to a 16-bit type that the source names, for a product with values
    loaded from an array of any type, or for a store into one: with the other 16-bit type a product
    does not compile, and a result loses range or digits."""

    name = "fixed-narrow-type"
    matches = (
        Case(vary(ATTENTION, ("p.astype(a.dtype)", "p.astype(ct.float16)")), "`c`"),
        Case(vary(PRODUCT, ("ct.astype(acc, out.dtype)", "ct.astype(acc, ct.bfloat16)")), "bf16"),
        Case(vary(ATTENTION_POINTER, ("p.to(v.dtype)", "p.to(tl.bfloat16)")), "`c`"),
        Case(PRODUCT_POINTER, "`out`"),
        Case(_EIGHT_BITS_TOO, "f16"),
        Case(vary(_DEMANDED, ("a.dtype == torch.float16", "a.dtype == b.dtype")), "f16"),
        Case(
            vary(
                _DEMANDED,
                ("a.dtype == torch.float16", "a.dtype == torch.float8_e5m2 or a.shape[0] > 8"),
            ),
            "f16",
        ),
    )
    near_misses = (
        NearMiss(ATTENTION, why="the types are those of arrays"),
        NearMiss(ATTENTION_POINTER, why="the types are those of arrays"),
        NearMiss(_CHOSEN, why="a flag chooses among the types"),
        NearMiss(
            vary(_CHOSEN, ("if H:", "if out.dtype.element_ty != tl.float16:"),
                 ("acc = acc.to(tl.bfloat16)", "acc = acc.to(tl.float8e5)")),
            why="the type of the array is asked for",
        ),
        NearMiss(
            vary(_CHOSEN, ("acc.to(tl.bfloat16)", "acc * 1.0")), why="a flag leaves the cast out"
        ),
        NearMiss(
            vary(PRODUCT_POINTER, ("acc.to(tl.float16), mask", "acc, mask"),
                 ("    tl.store(", "    if K > 64:\n        tl.store(out, acc.to(tl.float16))\n    tl.store(")),
            why="another store keeps 32 bits",
        ),
        NearMiss(_DECLARED, why="the element type of the array is declared"),
        NearMiss(_DEMANDED, why="the host demands the type"),
        NearMiss(
            vary(PRODUCT_POINTER, ("acc.to(tl.float16)", "acc.to(tl.float32)")),
            why="nothing is narrowed",
        ),
    )  # fmt: skip
    seen = (
        Seen(
            "tilegym",
            "tilegym/ops/cutile/layer_norm_legacy.py",
            "_persistent_layer_norm_fwd_kernel",
            192,
        ),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        facts = subject.facts
        if _demanded(subject.host.material):
            return
        found: dict[tuple[str, str], list[Node]] = {}
        for product in facts.contractions:
            for role, other in (("lhs", "rhs"), ("rhs", "lhs")):
                arrays = _open(facts, product.op.operand(other))
                for cast in _fixed(facts, product.op.operand(role)) if arrays else ():
                    name = _named(facts, cast)
                    found.setdefault((name, arrays[0]), []).append(cast)
        for (name, array), casts in found.items():
            yield self.finding(
                subject,
                f"an operand of a product is rounded to {name} whatever the element type of "
                f"`{array}` is, which it is multiplied with: another 16-bit type does not compile, "
                "and loses range or digits",
                f"cast to the element type of `{array}`",
                casts,
            )
        for (name, array), casts in _stored(facts).items():
            yield self.finding(
                subject,
                f"what is stored to `{array}` is rounded to {name} first, whatever its element "
                "type is: a wider type loses digits, and the other 16-bit type range or digits",
                f"cast to the element type of `{array}`, or leave the cast to the store",
                casts,
            )


def _demanded(material: Material | None) -> bool:
    """Whether the host demands one element type of an array on the way to a launch."""
    if material is None:
        return False
    roots = {material.roots.get(id(launch), -1): launch for launch in material.launches}
    for launch in roots.values():
        for event in material.beside(launch):
            whole = event.cond if isinstance(event, CheckRecord) else None
            joined = isinstance(whole, Expr) and whole.op == "and"
            for part in whole.args if joined and isinstance(whole, Expr) else (whole,):
                args = part.args if isinstance(part, Expr) and part.op == "==" else ()
                if [isinstance(a, Expr) and a.op == "attr" and a.args[1] == "dtype"
                    for a in args].count(True) == 1:  # fmt: skip
                    return True
    return False


def _stored(facts: Facts) -> dict[tuple[str, str], list[Node]]:
    """Casts to a named type right before a store, by type and array; nothing of arrays that are
    stored in one of several types, or without a cast, or whose element type is known."""
    found: dict[str, dict[str, list[Node]]] = {}
    for store in facts.stores:
        if store.array is None or _typed(facts, store):
            continue
        cut = _fixed(facts, store.value)
        for cast in cut:
            casts = found.setdefault(store.array, {}).setdefault(_named(facts, cast), [])
            casts += [] if cast in casts else [cast]
        if not cut:
            found.setdefault(store.array, {})[""] = []
    return {
        (name, array): casts
        for array, by_name in found.items()
        for name, casts in by_name.items()
        if len(by_name) == 1 and casts
    }


def _typed(facts: Facts, store: Access) -> bool:
    """Whether the element type of what is stored to is declared: no other type can lie there."""
    places = (store.array, store.node.op.operand("pointer"))
    return any(facts.types.dtype(place) in DTYPE_BYTES for place in places)


def _open(facts: Facts, value: str | None) -> list[str]:
    """Arrays of no known element type that a value was loaded from as it stands."""
    if not facts.types.dtype(value).startswith("dtypeof"):
        return []
    return [load.array for load in facts.held_loads(value) if load.array is not None]


def _fixed(facts: Facts, value: str | None) -> list[Node]:
    """Casts of 32-bit floats to the one 16-bit type that the source names; on other sides of a
    branch there may be casts to 8 bits."""
    ends = facts.graph.ends(value, VIEWS | TURNS)
    named = {_named(facts, node) for node in ends}
    narrow = named & _NARROW
    if len(narrow) != 1 or not named <= narrow | _EIGHT_BITS:
        return []
    casts = [node for node in ends if _named(facts, node) in narrow and _wide(facts, node)]
    return [cast for cast in casts if not _asked(facts, cast, *narrow)]


def _named(facts: Facts, cast: Node) -> str:
    """The type that the source names where it casts; nothing where it takes that of an array."""
    if cast.op.kind != OpKind.CAST or len(cast.op.inputs) < 2:
        return ""
    made = facts.graph.producer(facts.graph.through(cast.op.inputs[1], COPIES))
    literal = made is not None and made.op.kind == OpKind.DTYPE
    return facts.types.named(cast.op.inputs[1]) if literal else ""


def _wide(facts: Facts, cast: Node) -> bool:
    """Whether 32-bit floats are cast; numbers that the host passes are such, too."""
    dtype = facts.types.dtype(cast.op.inputs[0])
    arrays = {access.array for access in facts.accesses}
    passed = [p.name for p in facts.kernel.entry.parameters if p.name not in arrays]
    return dtype == "f32" or dtype in [f"dtypeof({name})" for name in passed]


def _asked(facts: Facts, cast: Node, named: str) -> bool:
    """Whether a branch around a cast compares an element type with the one it is cast to."""
    for guard in facts.guards(cast):
        for node in facts.graph.upstream(guard.op.inputs[0]):
            if node.op.kind == OpKind.DTYPE and str(node.op.attribute("name")) == named:
                return True
    return False
