"""Outputs that are arrays of their own, made by the host for this launch or given by the caller:
nothing that is read is overwritten."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from extractors.detect import Detection
from extractors.host.dispatch import made_of
from extractors.host.facts import HostFacts, Material
from extractors.host.origins import lines_of
from extractors.host.render import leaves
from extractors.host.values import Expr, Value
from extractors.patterns.in_place_update import InPlaceUpdate
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.evidence import Decision

OUT_OF_PLACE = "out of place"


def kept_apart(
    detection: Detection, host: HostFacts, told: Sequence[Decision]
) -> Iterator[Decision]:
    """Stores to arrays that the kernel does not read, or only after it has written them, where no
    launch gives one of them what it gives an array that is read; nothing of the others where one
    does."""
    facts, material, pattern = detection.facts, host.material, InPlaceUpdate()
    silent = facts.of_threads or any(d.axis == pattern.axis for d in told)
    if silent or material is None or not material.launches:
        return
    back = {s.array for s in facts.stores if _read_back(facts, s)}
    read = {a.array for a in facts.loads} - {*back, None}
    written = dict.fromkeys(s.array for s in facts.stores if s.array not in {*read, None})
    names = [name for name in written if name is not None and _apart(material, name, read)]
    if not names or not read or any(_shared(material, name, read) for name in written):
        return
    stores = [s for s in facts.stores if s.array in names]
    decision = pattern.decide(facts, OUT_OF_PLACE, [*facts.declared(*names), *stores])
    handed = [(site, name) for site in material.sites() for name in names]
    made = [line for site, name in handed for line in material.given(site, name)]
    made += [
        lines_of(one)
        for site, name in handed
        for one in made_of(material, site, name, callers=True)
        if isinstance(one, ast.Call)
    ]
    yield replace(decision, lines=tuple(sorted({*decision.lines, *made})))


def _read_back(facts: Facts, store: Access) -> bool:
    """Whether elements are loaded from an array after the kernel stored some, and never before."""
    loads = [a.node for a in facts.loads if a.array == store.array]
    return bool(loads) and all(
        store.node.index < load.index and not store.node.excludes(load) for load in loads
    )


def _apart(material: Material, name: str, read: set[str | None]) -> bool:
    """Whether every launch gives an output something else than the arrays that are read."""
    found = False
    for launch in material.launches:
        given = [value for n, value in launch.args if n == name]
        taken = {t for n, value in launch.args if n in read for t in _tensors(material, value)}
        for value in given:
            own = _tensors(material, value)
            if not own or own & taken:
                return False
            found = True
    return found


def _shared(material: Material, name: str | None, read: set[str | None]) -> bool:
    """Whether a launch gives an output what it gives an array that is read."""
    for launch in material.launches:
        given = {t for n, value in launch.args if n == name for t in _tensors(material, value)}
        taken = {t for n, value in launch.args if n in read for t in _tensors(material, value)}
        if given & taken:
            return True
    return False


def _tensors(material: Material, value: Value) -> set[Value]:
    """The tensors that a value may be, or is a view of."""
    found = {_whole(material, leaf) for leaf in leaves(value) if isinstance(leaf, Expr)}
    known = material.machine.tensors
    return {one for one in found if isinstance(one, Expr) and (one in known or one.op == "sym")}


def _whole(material: Material, tensor: Value) -> Value:
    while (fact := material.machine.tensors.get(tensor)) is not None and fact.base is not None:
        tensor = fact.base
    return tensor
