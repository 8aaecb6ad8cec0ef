"""From the searches and launches of a kernel to its tuning record, launches and constraints."""

from __future__ import annotations

from collections.abc import Iterable, Set

from extractors.host.events import LaunchRecord, PickRecord, SearchRecord
from extractors.host.expr import is_number
from extractors.host.facts import Material, axis_atoms, uses_axis
from extractors.host.render import UNKNOWN, Names, leaves, mentions_memo
from extractors.host.values import Choice, Expr, KernelValue, Ref, Unknown, Value
from kb.evidence import Lines
from kb.space import Binding, GuardedPoints, Launch, Point, Tuning

LAUNCH_AXES = frozenset({
    "num_warps", "num_stages", "num_ctas", "maxnreg", "ir_override", "occupancy", "waves_per_eu",
    "matrix_instr_nonkdim", "kpack", "num_consumer_groups", "num_buffers_warp_spec",
})  # fmt: skip
"""Values of a configuration that the compiler takes: common ones, those of AMD's back end, and
those of warp specialisation in Triton 3.2."""


def tuning_of(material: Material) -> Tuning:
    """How the tuning values of a kernel come about."""
    if material.searches:
        return _searched(material)
    picks = first_picks(material)
    launch = material.launches[0] if material.launches else None
    names = material.names(launch)
    launched = names.point(launch.kernel.hints) if launch else material.signature.decorator_hints
    if launch is None:
        return Tuning(launched_with=launched)
    if picks:
        return _first_config(material, picks, launch)
    return Tuning(mechanism=_rule(material, launch), launched_with=launched)


def _rule(material: Material, launch: LaunchRecord) -> str:
    """`host rule` when a compile-time argument or hint is computed, `fixed` when all are
    constants."""
    constexprs = {name for name, flag in material.signature.params if flag}
    values = [value for name, value in launch.args if name in constexprs] + [
        value for _, value in launch.kernel.hints
    ]
    if any(computed(value) for value in values):
        return "host rule"
    return "fixed" if values else "none"


def computed(value: Value) -> bool:
    """A size that the host computes: a rounding, a bound, or one constant per case."""
    if isinstance(value, Choice):
        known = [leaf for leaf in leaves(value) if not isinstance(leaf, bool)]
        return any(is_number(leaf) or computed(leaf) for leaf in known)
    if isinstance(value, Expr):
        if value.op in ("npow2", "cdiv"):
            return True
        return value.op in ("min", "max", "*", "//", "int") and any(
            is_number(leaf) or computed(leaf) for leaf in value.args
        )
    return False


def _searched(material: Material) -> Tuning:
    search = max(material.searches, key=lambda one: len(axis_names(one)))
    names = material.search_names(search)
    tied = material.tied(search)
    if tied and not isinstance(search.args, tuple):
        names = material.names(tied[0])
    effective = effective_axes(material, search)
    every = axis_names(search)
    timed = timed_with(material, search, names)
    launched = names.point(tied[0].kernel.hints) if tied else ()
    return Tuning(
        mechanism=search.kind,
        spaces=tuple(
            space
            for one in material.searches
            for space in spaces_of(one, material.search_names(one))
        ),
        effective_axes=tuple(name for name in every if name in effective),
        dead_axes=tuple(name for name in every if name not in effective and carriers_known(search)),
        launched_with=timed if search.kind != "exhaustive_search" else launched,
        timed_with=timed,
        cache_key=cache_key(search, names),
        lines=_lines(search),
    )


def _lines(search: SearchRecord) -> Lines:
    return search.generator[1] if search.generator else search.lines


def axis_names(search: SearchRecord) -> tuple[str, ...]:
    """Axes of a search in source order; those its callbacks read when the points are not known."""
    return tuple(search.values() or dict.fromkeys(search.seen_axes))


def timed_with(material: Material, search: SearchRecord, names: Names) -> Point:
    """Hints of the kernel that the search times."""
    kernels = [leaf for leaf in leaves(search.kernel) if isinstance(leaf, KernelValue)]
    own = [one for one in kernels if one.name == material.signature.name]
    base = dict((own or kernels)[0].hints) if kernels else {}
    rows = search.hints if isinstance(search.hints, tuple) else ()
    if search.kind != "exhaustive_search":
        rows = tuple(
            (name, Expr("axis", (search.id, name)))
            for name in axis_names(search)
            if name in LAUNCH_AXES
        )
    return names.point({**base, **dict(rows)}.items())


def effective_axes(material: Material, search: SearchRecord) -> set[str]:
    """Axes that reach the timed kernel: an argument it reads, its grid, or its hints."""
    found = axis_atoms(search.grid, search.id) | axis_atoms(search.hints, search.id)
    kernel_hints = getattr(search.kernel, "hints", ())
    found |= axis_atoms(tuple(value for _, value in kernel_hints), search.id)
    unread = material.unread()
    params = [name for name, _ in material.signature.params]
    if search.kind != "exhaustive_search":
        direct = {
            name
            for name in axis_names(search)
            if name in LAUNCH_AXES or (name in params and name not in unread)
        }
        for launch in material.tied(search):
            direct |= axis_atoms(launch.grid, search.id)
        return found | direct
    row = search.args if isinstance(search.args, tuple) else ()
    for name, value in zip(params, row, strict=False):
        if name not in unread:
            found |= axis_atoms(value, search.id)
    return found


def carriers_known(search: SearchRecord) -> bool:
    """Whether all that could carry an axis to the timed kernel was understood."""
    if search.kind != "exhaustive_search":
        return True
    if search.has_hints and not isinstance(search.hints, tuple):
        return False
    hints = search.hints if isinstance(search.hints, tuple) else ()
    args = search.args if isinstance(search.args, tuple) else (Unknown("arguments"),)
    values = [
        *args,
        *(value for _, value in hints),
        *(search.grid if isinstance(search.grid, tuple) else (search.grid,)),
    ]
    return not any(isinstance(leaf, (Unknown, Ref)) for value in values for leaf in leaves(value))


def spaces_of(search: SearchRecord, names: Names) -> list[GuardedPoints]:
    """The cases of a search as guarded points; a later case holds where no earlier one does, and
    all of them where the search is attached at all."""
    spaces, lines = [], _lines(search)
    attached = names.path(search.path) if search.kind != "exhaustive_search" else "always"
    for case in search.cases:
        own = _first_match(case.conds, names)
        when = " and ".join(one for one in (attached, own) if one != "always") or "always"
        points = tuple(names.point(point) for point in case.points)
        spaces.append(
            GuardedPoints(
                when=when,
                points=points,
                complete=case.reason is None,
                reason=case.reason,
                lines=lines,
            )
        )
    return spaces


def _first_match(conds: Iterable[tuple[Expr, bool]], names: Names) -> str:
    """The condition of a case in an ordered list of cases: what holds; what failed before is
    left out."""
    rows = list(conds)
    positive = [names.text(cond, 4) for cond, holds in rows if holds]
    return " and ".join(positive) if positive else ("otherwise" if rows else "always")


def cache_key(search: SearchRecord, names: Names) -> tuple[str, ...] | None:
    """What the winner is remembered under: the key of the table that the search stands under a
    miss of."""
    key = key_values(search)
    return (
        None
        if key is None
        else tuple(
            part
            if isinstance(part, str) and search.kind != "exhaustive_search"
            else names.text(part)
            for part in key
        )
    )


def key_values(search: SearchRecord) -> tuple[Value, ...] | None:
    """The parts of the cache key as values."""
    if search.kind != "exhaustive_search":
        row = search.key
        return row if isinstance(row, tuple) else None
    for guard in reversed(search.path.guards):
        if mentions_memo(guard.cond):
            found = _asked_key(guard.cond)
            if found is not None:
                return found if isinstance(found, tuple) else (found,)
    return None


def _asked_key(cond: Expr) -> Value:
    pending: list[Value] = [cond]
    while pending:
        item = pending.pop()
        if not isinstance(item, Expr):
            continue
        if (
            item.op in ("in", "not in")
            and isinstance(item.args[1], Expr)
            and item.args[1].op == "memo"
        ):
            return item.args[0]
        if item.op == "memo" and len(item.args) > 1:
            return item.args[1]
        pending.extend(item.args)
    return None


def first_picks(material: Material) -> list[PickRecord]:
    """Configurations taken by position on the way to any launch, whose values it uses."""
    found = (pick for launch in material.launches for pick in picks_of(material, launch))
    return list({id(pick): pick for pick in found}.values())


def picks_of(material: Material, launch: LaunchRecord) -> list[PickRecord]:
    """Configurations taken by position on the way to a launch, whose values the launch uses."""
    if id(launch) not in material.picks:
        material.picks[id(launch)] = _picks(material, launch)
    return material.picks[id(launch)]


def _picks(material: Material, launch: LaunchRecord) -> list[PickRecord]:
    if any(uses_axis(launch, search.id) for search in material.searches):
        return []
    root = [event for event in material.beside(launch) if isinstance(event, PickRecord)]
    held = {(guard.cond, guard.holds) for guard in launch.path.guards} if root else set()
    reached = [event for event in root if _on_the_way(event, launch, held)]
    used = _numbers_used(launch) if reached else set()
    sites: dict[Lines, list[PickRecord]] = {}
    for event in reached:
        if any(value in used for _, value in event.points[0] if is_number(value)):
            sites.setdefault(event.lines, []).append(event)
    return sites[list(sites)[-1]] if sites else []


def _numbers_used(launch: LaunchRecord) -> set[Value]:
    values = (value for _, value in (*launch.args, *launch.kernel.hints))
    return {leaf for value in values for leaf in leaves(value) if is_number(leaf)}


def _on_the_way(pick: PickRecord, launch: LaunchRecord, held: Set[tuple[Expr, bool]]) -> bool:
    """Whether a launch is reached from a pick: in its calls, under no opposite of what holds."""
    if pick.order >= launch.order or pick.stack != launch.stack[: len(pick.stack)]:
        return False
    return all((guard.cond, not guard.holds) not in held for guard in pick.path.guards)


def _first_config(material: Material, picks: list[PickRecord], launch: LaunchRecord) -> Tuning:
    """The launch takes the first configuration of a space; only axes it carries are kept."""
    names = material.names(launch)
    hints = {name for name, _ in launch.kernel.hints}
    reached = hints | {name for name, _ in launch.args}
    spaces = []
    picks = [pick for pick in picks if pick.lines == picks[-1].lines]
    shared = set.intersection(
        *({(guard.cond, guard.holds) for guard in pick.path.guards} for pick in picks)
    )
    for pick in picks:
        own = [
            (guard.cond, guard.holds)
            for guard in pick.path.guards
            if guard.shown and (guard.cond, guard.holds) not in shared
        ]
        text = _first_match(own, names)
        points = tuple(
            names.point(row for row in point if row[0] in reached) for point in pick.points[:1]
        )
        space = GuardedPoints(when=text, points=points, lines=pick.lines)
        spaces += [space] if space not in spaces else []
    return Tuning(
        mechanism="first config",
        spaces=tuple(spaces),
        launched_with=names.point(launch.kernel.hints),
        lines=picks[-1].lines,
    )


def launches_of(material: Material) -> tuple[Launch, ...]:
    """Launch sites with their expressions, each once."""
    found: dict[tuple[object, ...], Launch] = {}
    for record in material.launches:
        launch = _launch(material, record)
        key = (launch.lines, launch.grid, launch.bindings, launch.hints)
        if key not in found or len(launch.when) < len(found[key].when):
            found[key] = launch
    return tuple(list(found.values())[:32])


def _launch(material: Material, record: LaunchRecord) -> Launch:
    names = material.names(record)
    grid = record.grid if isinstance(record.grid, tuple) else (record.grid,)
    bindings = tuple(
        Binding(parameter=name, expression=_binding(names, value)) for name, value in record.args
    )
    return Launch(
        grid=tuple(names.text(part) for part in grid),
        bindings=bindings,
        hints=names.point(record.kernel.hints),
        lines=record.lines,
        when=names.path(record.path),
        host_function=record.stack[0] if record.stack else None,
    )


def _binding(names: Names, value: Value) -> str:
    return UNKNOWN if isinstance(value, (Unknown, Ref)) else names.text(value)


__all__ = [
    "axis_names",
    "cache_key",
    "computed",
    "effective_axes",
    "first_picks",
    "key_values",
    "launches_of",
    "picks_of",
    "spaces_of",
    "timed_with",
    "tuning_of",
]
