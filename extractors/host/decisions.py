"""Decisions that host code makes for a kernel, by the names of the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from extractors.host.ahead import gradient_ahead
from extractors.host.alternatives import even_flags, optional, split_counts, variants
from extractors.host.backends import by_backend
from extractors.host.backwards import worked_out
from extractors.host.chosen_elsewhere import with_choices_elsewhere
from extractors.host.compact import compacted, of_both, turned_over
from extractors.host.compiler_options import arithmetic
from extractors.host.configurations import config_lines, pruned, search_lines
from extractors.host.derived import (
    by_attached_rule,
    by_rule,
    closed_form,
    compiled_in,
    default_warps,
    flattened,
    hint_lines,
    is_attribute,
    kept,
    rule_lines,
    with_views,
)
from extractors.host.device_values import by_device
from extractors.host.dispatch import chosen_kernel, demanded_layout, device_branches, shared_buffers
from extractors.host.events import (
    HintRecord,
    LaunchRecord,
    NormaliseRecord,
    SearchRecord,
    SentinelRecord,
)
from extractors.host.expr import atoms
from extractors.host.facts import Material, axis_atoms, is_extent
from extractors.host.grids import coupled, default_occupancy
from extractors.host.layouts import by_strides
from extractors.host.led import led_elsewhere
from extractors.host.named import left_out, named
from extractors.host.padding import host_padded
from extractors.host.partial import stages, summed
from extractors.host.parts import by_parts
from extractors.host.passes import boundaries
from extractors.host.pipeline import through_functions
from extractors.host.reciprocals import reciprocals
from extractors.host.render import leaves
from extractors.host.rounding import padded, rounded, rounded_anywhere
from extractors.host.saved import saved
from extractors.host.served import served_apart
from extractors.host.stand_ins import stand_ins
from extractors.host.tables import BY_TARGET
from extractors.host.through import chosen_objects, entries, written
from extractors.host.tuning import effective_axes, first_picks, tuning_of
from extractors.host.values import Expr, Value
from extractors.host.wrapping import as_operator, guarded, in_a_table, made_inside, marked
from kb.evidence import AxisKind, Decision, Lines

HINTS = {
    "occupancy": ("occupancy", "occupancy-hint"),
    "waves_per_eu": ("occupancy", "occupancy-hint"),
    "num_ctas": ("cluster_size", "cta-cluster-2-cta-mma"),
    "num_worker_warps": ("num_warps", "worker-warp-count-hint"),
    "num_warps": ("num_warps", "worker-warp-count-hint"),
    "num_stages": ("prefetch_depth", "pipeline-stages-of-the-launch"),
}

_OPTIONS = {a: tuple(n for n, (own, _) in HINTS.items() if own == a) for a, _ in HINTS.values()}
"""Keywords of a launch by the axis that they decide."""

_LAID = (".contiguous() on host", "contiguous tensors demanded")
_OF_ALL_LAUNCHES = (
    optional, stand_ins, closed_form, default_warps, compiled_in, chosen_kernel, served_apart,
    device_branches, shared_buffers, demanded_layout, compacted, turned_over, guarded, marked,
    made_inside, in_a_table, by_strides, summed, stages, boundaries, through_functions,
    gradient_ahead, host_padded, coupled, default_occupancy, by_backend, reciprocals, arithmetic,
    saved, as_operator, by_parts, named, left_out,
)  # fmt: skip
"""What is told of a kernel once, in this order."""


def decisions_of(material: Material) -> tuple[Decision, ...]:
    """All host decisions about one kernel."""
    rows: list[Decision] = []
    for search in material.searches:
        rows += _search(material, search)
        rows += _searched_tiles(material, search)
        rows += variants(material, search)
    rows += _fallback(material)
    rows += _hints(material)
    picked = {name for pick in first_picks(material) for point in pick.points for name, _ in point}
    for launch in material.launches:
        rows += _layout(material, launch)
        rows += _sizes(material, launch, picked)
        rows += _sentinels(material, launch)
        rows += flattened(material, launch)
        rows += split_counts(material, launch)
        rows += even_flags(material, launch)
    for told in _OF_ALL_LAUNCHES:
        rows += told(material)
    whole = with_views(_joined([*rows, *by_device(material, rows)]))
    return tuple(led_elsewhere(material, with_choices_elsewhere(material, whole), _OPTIONS))


def _joined(rows: list[Decision]) -> list[Decision]:
    """One decision per axis, value, pattern and subject, with all its lines; one for all arrays
    that are contiguous."""
    merged: dict[tuple[object, ...], Decision] = {}
    for row in rows:
        key = (row.axis, row.value, row.pattern, None if row.value in _LAID else row.subject)
        if (known := merged.get(key)) is not None:
            row = replace(row, lines=(*known.lines, *row.lines), subject=of_both(known, row))
        merged[key] = replace(row, lines=tuple(dict.fromkeys(row.lines)), file=None)
    return list(merged.values())


def _search(material: Material, search: SearchRecord) -> Iterator[Decision]:
    yield Decision(
        axis="autotuning",
        value="exhaustive_search" if search.kind == "exhaustive_search" else "autotune",
        pattern="exhaustive-search-with-memoised-winner",
        lines=search_lines(material, search),
        kind=AxisKind.HOST,
    )
    if search.budget is not None:
        yield Decision(
            axis="search_pruning",
            value=f"compiler_timeout({search.budget})",
            pattern="compile-time-budget-as-an-implicit-prune",
            lines=(*_managed(material, search), search.lines),
            kind=AxisKind.HOST,
        )
    yield from pruned(material, search)
    for zeroed, names in ((True, search.resets), (False, search.restores)):
        yield from _isolated(search, names, zeroed)


def _isolated(search: SearchRecord, names: tuple[str, ...], zeroed: bool) -> Iterator[Decision]:
    """Parameters that every trial gets afresh."""
    if names:
        yield Decision(
            axis="autotuning",
            value="zero accumulators" if zeroed else "clone inputs",
            pattern="side-effect-isolation-of-tuning-trials",
            lines=(search.lines, *(at for kind, at in search.copied if kind is zeroed)),
            kind=AxisKind.HOST,
            subject=", ".join(names),
        )


def _searched_tiles(material: Material, search: SearchRecord) -> Iterator[Decision]:
    """Compile-time parameters that the search gives values."""
    constexprs = {name for name, flag in material.signature.params if flag}
    places = config_lines(material, search)
    for name in sorted(effective_axes(material, search) & constexprs):
        yield Decision(
            axis="tile_selection",
            value="tuned",
            pattern="searched-tile-extent",
            lines=places,
            kind=AxisKind.TUNING,
            subject=name,
        )


def _managed(material: Material, search: SearchRecord) -> tuple[Lines, ...]:
    """The statement that sets the budget around a search."""
    return material.origins.managed(search.lines) if material.origins else ()


def _fallback(material: Material) -> Iterator[Decision]:
    """What stands in for a search that is off, with the search that it stands in for."""
    searches = [search.lines for search in material.searches]
    for pick in first_picks(material):
        yield Decision(
            axis="autotuning",
            value="first config",
            pattern="autotune-off-fallback-config",
            lines=tuple(sorted({pick.lines, *searches})),
            kind=AxisKind.HOST,
        )


def _hints(material: Material) -> Iterator[Decision]:
    """Hints of the kernel objects that are launched or timed."""
    seen: dict[str, list[Value]] = {}
    for launch in material.launches:
        for name, value in launch.kernel.hints:
            seen.setdefault(name, []).append(value)
    for search in material.searches:
        for name, value in search.hints if isinstance(search.hints, tuple) else ():
            seen.setdefault(str(name), []).append(value)
        if search.kind != "exhaustive_search":
            for name in effective_axes(material, search) & set(HINTS):
                seen.setdefault(name, []).append(Expr("axis", (search.id, name)))
    for name, values in seen.items():
        if name in HINTS and not (
            name == "num_ctas" and all(leaf == 1 for value in values for leaf in leaves(value))
        ):
            yield from _hint(material, name, values)


def _hint(material: Material, name: str, values: list[Value]) -> Iterator[Decision]:
    axis, pattern = HINTS[name]
    values = [_settled(material, leaf) for value in values for leaf in leaves(value)]
    tuned = any(axis_atoms(value, search.id) for value in values for search in material.searches)
    coupled = any(name in axis_atoms(search.grid, search.id) for search in material.searches)
    given = [leaf for value in values for leaf in leaves(value) if leaf is not None]
    fixed = sorted({leaf for leaf in given if isinstance(leaf, int)})
    computed = any(not isinstance(leaf, int) for leaf in given)
    text = (
        "grid-coupled"
        if coupled
        else "tuned"
        if tuned
        else f"fixed {fixed[0]}"
        if len(fixed) == 1 and not computed
        else "ByTarget"
        if all(isinstance(one, Expr) and one.args[0] in BY_TARGET for one in given)
        else "given by the caller"
        if given and all(isinstance(one, Expr) and one.op == "sym" for one in given)
        else f"host rule ({', '.join(map(str, fixed))})"
        if fixed
        else "host rule"
    )
    lines = [
        event.lines
        for events in material.events.values()
        for event in events
        if isinstance(event, HintRecord)
        and event.kernel == material.signature.name
        and name in dict(event.hints)
    ]
    lines += [search.lines for search in material.searches if search.kind != "exhaustive_search"]
    lines += [line for search in material.searches for line in hint_lines(material, search)]
    for launch in material.launches:
        lines += [*material.handed(launch, name), *rule_lines(material, launch, name)]
    lines += [] if lines else [written(material, one, name) for one in material.launches[:1]]
    lines += [line for one in material.launches[:1] for line in entries(material, one, name)]
    lines += [] if tuned else sorted(chosen_objects(material, name))
    if lines:
        yield Decision(
            axis=axis, value=text, pattern=pattern, lines=tuple(dict.fromkeys(lines)),
            kind=AxisKind.TUNING,
        )  # fmt: skip


def _settled(material: Material, value: Value) -> Value:
    """The one number that all configurations give an axis, for that axis."""
    if isinstance(value, Expr) and value.op == "axis":
        for search in (one for one in material.searches if one.id == value.args[0]):
            rows = search.values().get(str(value.args[1]), ())
            if len(rows) == 1 and all(case.reason is None for case in search.cases):
                return rows[0]
    return value


def _layout(material: Material, launch: LaunchRecord) -> Iterator[Decision]:
    bound = {leaf: name for name, value in reversed(launch.args) for leaf in leaves(value)}
    lines: dict[Lines, str] = {}
    for event in material.before(launch):
        if isinstance(event, NormaliseRecord) and event.tensor in bound:
            lines.setdefault(event.lines, bound[event.tensor])
    if lines:
        first, last = min(lines), max(lines)
        yield Decision(
            axis="layout_contract",
            value=".contiguous() on host",
            pattern="host-contiguity-alignment-normalisation",
            lines=((first[0], last[1]),),
            kind=AxisKind.HOST,
            subject=", ".join(sorted({*lines.values()})),
        )


def _sizes(material: Material, launch: LaunchRecord, picked: set[str]) -> Iterator[Decision]:
    """Compile-time arguments: rounded extents, extents themselves, computed tiles; without what is
    `picked` by position."""
    constexprs = {name for name, flag in material.signature.params if flag}
    where = dict(launch.arg_lines)
    extents: list[tuple[str, Lines]] = []
    for name, given in launch.args:
        if name not in constexprs:
            continue
        value = kept(material, given)
        line = where.get(name) or written(material, launch, name)
        yield from padded(material, launch, name, (given, value))
        if is_extent(value):
            extents.append((name, line))
        elif name not in picked and (
            chosen := _chosen(value)
            or _saved(material, launch, name, value)
            or ("heuristic(shape)" if by_attached_rule(launch, name, value) else "")
            or _borrowed(material, value)
        ):
            yield Decision(
                axis="tile_selection",
                value=chosen,
                pattern="closed-form-tile-heuristic",
                lines=tuple(
                    sorted(
                        {
                            line,
                            *entries(material, launch, name),
                            *material.made(launch, name),
                            *rule_lines(material, launch, name),
                            *(() if value == given else _elsewhere(material, value)),
                            *worked_out(material, launch, name),
                        }
                    )
                ),
                kind=AxisKind.TUNING,
                subject=name,
            )
    if extents:
        yield Decision(
            axis="specialization",
            value="constexpr",
            pattern="problem-extents-as-compile-time-constants",
            lines=tuple(dict.fromkeys(line for _, line in extents)),
            kind=AxisKind.HOST,
            subject=", ".join(name for name, _ in extents),
        )


def _elsewhere(material: Material, value: Value) -> set[Lines]:
    return rounded_anywhere(material, [one for leaf in leaves(value) for one in rounded(leaf)])


def _chosen(value: Value) -> str:
    """How a size is chosen: by cases of the problem or a rounded extent under a bound, or as one
    power of two."""
    facts = {atom.op for atom in atoms(value)}
    if isinstance(value, int) and not isinstance(value, bool):
        return "constant" if value > 1 and value & (value - 1) == 0 else ""
    if isinstance(value, Expr) and value.op == "int":
        return _chosen(value.args[0])
    if isinstance(value, Expr) and (value.op == "sym" or _entry(value)):
        return "given by the caller"
    if "axis" in facts or not by_rule(value):
        return ""
    return "heuristic(shape)"


def _entry(value: Expr) -> bool:
    """An entry of a table that is handed in."""
    return value.op == "index" and all(
        isinstance(one, str) or (isinstance(one, Expr) and one.op == "sym") for one in value.args
    )


def _saved(material: Material, launch: LaunchRecord, name: str, value: Value) -> str:
    """How a size is chosen that another function of the module saved in an attribute."""
    made = is_attribute(value) and worked_out(material, launch, name)
    return "heuristic(shape)" if made else ""


def _borrowed(material: Material, value: Value) -> str:
    """What a search found that times another kernel."""
    own = {search.id for search in material.searches}
    other = any(atom.op == "axis" and atom.args[0] not in own for atom in atoms(value))
    return "tuned" if other else ""


def _sentinels(material: Material, launch: LaunchRecord) -> Iterator[Decision]:
    """A padded buffer whose tail keeps a fill value, bound to the kernel."""
    marks = [event for event in material.beside(launch) if isinstance(event, SentinelRecord)]
    for name, value in launch.args if marks else ():
        for leaf in leaves(value):
            bases = _bases(material, leaf)
            for mark in marks:
                if mark.tensor in bases:
                    yield Decision(
                        axis="oob_rows",
                        value="host-filled sentinel statistic",
                        pattern="query-tile-padding-sentinel-on-the-host",
                        lines=(mark.lines,),
                        kind=AxisKind.HOST,
                        subject=name,
                    )


def _bases(material: Material, value: Value) -> list[Value]:
    found: list[Value] = []
    while value is not None and value not in found and len(found) < 16:
        found.append(value)
        fact = material.machine.tensors.get(value)
        value = fact.base if fact else None
    return found


__all__ = ["decisions_of", "tuning_of"]
