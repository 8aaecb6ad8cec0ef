"""Outputs that lie as an input does and that the host makes anew: nothing is overwritten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from extractors.detect import Detection
from extractors.host.facts import HostFacts, Material
from extractors.host.passes import differentiable
from extractors.host.render import leaves
from extractors.host.sides import routes_of
from extractors.host.values import Expr, Value
from extractors.patterns.in_place_update import InPlaceUpdate
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.idioms import is_wide
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision

OUT_OF_PLACE = "out of place"
_FIXED = frozenset({AtomKind.PARAMETER, AtomKind.EXTENT})


def kept_apart(
    detection: Detection, host: HostFacts, told: Sequence[Decision]
) -> Iterator[Decision]:
    """Stores of what was computed from a tile that was loaded from the same place of another array,
    where every launch is given an output of its own. The `forward` of a differentiable function
    must leave its inputs alone: there nothing is chosen."""
    facts, material, pattern = detection.facts, host.material, InPlaceUpdate()
    silent = facts.contractions or facts.of_threads or any(d.axis == pattern.axis for d in told)
    if silent or material is None or not material.launches or _is_forward(material):
        return
    stores = [s for s in facts.stores if _beside_input(facts, s) and _anew(material, s.array)]
    if stores:
        decision = pattern.decide(facts, OUT_OF_PLACE, stores)
        names = dict.fromkeys(s.array for s in stores if s.array is not None)
        made = [n for s in material.sites() for name in names for n in material.bound(s, name)]
        yield replace(decision, lines=tuple(sorted({*decision.lines, *made})))


def _is_forward(material: Material) -> bool:
    """Whether the `forward` of a class of torch.autograd leads to the kernel."""
    routes = routes_of(material.tree, material.kernels)
    passes = differentiable(material.tree)
    return any(material.signature.name in routes.of([forward]) for forward, _ in passes)


def _beside_input(facts: Facts, store: Access) -> bool:
    """Whether one of the tiles that a stored one is computed from lies in its array as it does."""
    narrow = facts.types.dtype(store.value).startswith(("f8", "i", "u", "bool"))
    if store.is_atomic or not is_wide(facts, store.value) or narrow:
        return False
    shape = facts.types.shape(store.value)
    return any(
        load.array != store.array
        and load.mode is store.mode
        and facts.types.shape(load.value) == shape
        and _moving(load) == _moving(store)
        for load in facts.feeding(store.value)
    )


def _moving(access: Access) -> list[Counter[tuple[bool, tuple[str, ...]]]]:
    """What moves the place of an access, and whether by single elements; not by how much rows lie
    apart. Numbers tell neighbours from each other."""
    return [
        Counter(
            (len(moved) == len(factors), moved or (str(number),))
            for factors, number in expr.terms
            if (moved := tuple(sorted(str(a) for a in factors if a.kind not in _FIXED)))
            or not factors
        )
        for expr in access.index
    ]


def _anew(material: Material, array: str | None) -> bool:
    """Whether every launch is given a tensor that the host has just made."""
    given = [value for launch in material.launches for n, value in launch.args if n == array]
    return bool(given) and all(_fresh(material, value) for value in given)


def _fresh(material: Material, value: Value) -> bool:
    facts = [material.machine.tensors.get(leaf) for leaf in leaves(value) if isinstance(leaf, Expr)]
    return bool(facts) and all(fact is not None and fact.base is None for fact in facts)
