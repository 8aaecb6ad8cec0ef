"""Arrays of the caller that a kernel reads at the places of another one, while the host asks that
one alone for its extents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from extractors.host.callers import in_backward, saved
from extractors.host.conditions import parts
from extractors.host.events import CheckRecord, CountRecord, LaunchRecord
from extractors.host.expr import distinct_atoms
from extractors.host.facts import HostFacts, Material
from extractors.host.render import leaves
from extractors.host.values import Expr, Value
from extractors.places import places, tests
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.evidence import Lines
from kb.space import Constraint, implied

MAX_VIEWS = 16
"""Views of views that are followed."""

_SIZES = frozenset({"dim", "shape", "rank"})


@dataclass(frozen=True, slots=True)
class Twin:
    """An array that is read where `of` is, the launch that is given both, and where the host takes
    the shape of that one apart."""

    name: str
    of: str
    access: Access
    other: Access
    launch: LaunchRecord
    counted: Lines | None = None


def twins(facts: Facts, host: HostFacts) -> list[Twin]:
    """Those of one kernel, each array once; none where a backward pass leads to the launch."""
    material = host.material
    found: dict[str, Twin] = {}
    if material is None or facts.of_threads:
        return []
    for launch in material.sites():
        owners = dict(_owners(material, launch))
        if len(set(owners.values())) < 2 or in_backward(material, launch):
            continue
        asked = _asked(material, launch)
        for twin in _twins(facts, launch, owners, asked):
            if twin.name not in found and not saved(material, launch, twin.name):
                found[twin.name] = replace(
                    twin, counted=_counted(material, launch, owners[twin.of])
                )
    return list(found.values())


def _counted(material: Material, launch: LaunchRecord, tensor: Value) -> Lines | None:
    """Where the shape of an array is taken apart on the way to a launch."""
    events = (e for e in material.before(launch) if isinstance(e, CountRecord))
    return next((event.lines for event in events if event.tensor == tensor), None)


def same_shapes(facts: Facts, host: HostFacts) -> Iterator[Constraint]:
    """Arrays that must have the shape of another one."""
    for one in twins(facts, host):
        yield implied(
            f"{one.name}.shape == {one.of}.shape",
            "both are read at the same places, and the host asks one alone for its extents",
            "compare the shapes before the launch",
            one.access.node.lines,
        )


def _twins(
    facts: Facts, launch: LaunchRecord, owners: dict[str, Expr], asked: set[Value]
) -> Iterator[Twin]:
    """Arrays of which every access is at the place of one of another array, which is asked for its
    extents."""
    known: dict[str, list[Access]] = {}
    others: dict[str, list[Access]] = {}
    for access in facts.accesses:
        if access.array in owners and access.array is not None:
            group = known if owners[access.array] in asked else others
            group.setdefault(access.array, []).append(access)
    for name, accesses in others.items():
        if not any(_wide(facts, one) and not one.is_store for one in accesses):
            continue
        for of, of_accesses in known.items():
            if owners[of] == owners[name]:
                continue
            met = [_met(facts, one, of_accesses) for one in accesses]
            if all(met) and met[0] is not None:
                yield Twin(name, of, accesses[0], met[0], launch)
                break


def _met(facts: Facts, access: Access, others: list[Access]) -> Access | None:
    """The access among others that is at the same place, under the same mask."""
    for other in others:
        if access.index and other.mode is access.mode:
            if places(facts, other) == places(facts, access):
                if tests(facts, other) == tests(facts, access):
                    return other
    return None


def _wide(facts: Facts, access: Access) -> bool:
    """Whether an access is to more than one element, at a place of the block's own."""
    shape = facts.types.shape(access.value)
    return bool(shape) and any(extent != "1" for extent in shape)


def _owners(material: Material, launch: LaunchRecord) -> Iterator[tuple[str, Expr]]:
    """Parameters that are given an array of the caller, perhaps in a view, and which."""
    for name, value in launch.args:
        found = {_base(material, leaf) for leaf in leaves(value) if leaf is not None}
        one = found.pop() if len(found) == 1 else None
        if isinstance(one, Expr) and one.op == "sym":
            yield name, one


def _base(material: Material, value: Value) -> Value:
    for _ in range(MAX_VIEWS):
        fact = material.machine.tensors.get(value)
        if fact is None or fact.base is None:
            break
        value = fact.base
    return value


def _asked(material: Material, launch: LaunchRecord) -> set[Value]:
    """Arrays whose extents anything about a launch, or a condition on the way to it, rests on."""
    conds: list[Value] = [guard.cond for guard in launch.path.guards]
    conds += [e.cond for e in material.of_root(launch) if isinstance(e, CheckRecord)]
    sizes: list[Value] = [launch.grid, *(value for _, value in launch.args), *conds]
    found: set[Value] = set()
    for value in sizes:
        for atom in distinct_atoms(value):
            if atom.op in _SIZES:
                found.add(_base(material, atom.args[0]))
    for cond in sizes:
        for part in parts(cond):
            if part.op in ("attr", "call"):
                found.update(_base(material, arg) for arg in part.args)
    return found
