"""Decisions that the program of a kernel and the host code around it tell together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace

from extractors.detect import Detection
from extractors.host.alternatives import OptionalOperand
from extractors.host.compact import TURNED_OVER
from extractors.host.compiler_options import FUSED
from extractors.host.dispatch import ONE_TENSOR
from extractors.host.facts import HostFacts
from extractors.host.framework import FINISHED, PREPARED
from extractors.host.partial import ADDED, BUFFER, MERGED, STAGES, WHOLE
from extractors.host.partial import GRADIENT as SUMMED
from extractors.host.parts import REPEATED
from extractors.host.passes import AHEAD, BESIDE, HANDED_ON, LATER, LEFT
from extractors.host.served import MISSING
from extractors.host.stand_ins import DUMMY, NEUTRAL, STAND_IN
from extractors.patterns.compact_arrays import CompactArrays
from extractors.patterns.parameter_gradient import OWNED
from extractors.patterns.split_reduction import SERIAL
from extractors.told_apart import kept_apart
from extractors.told_backward import (
    computed_again,
    from_saved,
    gradient_alone,
    gradients_together,
    loss_beside,
    results_read,
    with_gradients,
    with_saved,
)
from extractors.told_casts import with_host_casts
from extractors.told_dense import taken_for_granted
from extractors.told_epilogue import with_stand_ins
from extractors.told_flags import along_lanes, of_both_passes, with_branches, with_rules
from extractors.told_gates import with_gates
from extractors.told_grid import of_the_grid
from extractors.told_handed import with_handed
from extractors.told_merged import merged_decisions
from extractors.told_optional import NULL, OPTIONAL, asked_for, given_or_not, told_once
from extractors.told_scope import of_one_warp
from extractors.told_splits import counted, of_workers
from extractors.told_stages import left_beside, second_stage
from extractors.told_strides import (
    CONTIGUOUS,
    HANDED,
    in_any_order,
    laid_out,
    of_one_array,
    with_asked_strides,
    without_extents,
)
from extractors.told_tails import DEMANDED, fits_whole, with_demands, with_flags, with_variants
from kb.analysis.chunks import chunk_extents
from kb.analysis.facts import Facts
from kb.analysis.parameters import roles_of
from kb.evidence import Decision, Lines
from kb.ir import MemorySpace, kernel_ops
from kb.ir_scan import NAME
from kb.knowledge import ParameterRole

RULED = frozenset({"tile_selection", "tile_padding", "vector_width"})
"""Axes that a host rule decides and the program shows."""

WARPS = "num_warps"
TILES = "tile_selection"
BY_WEIGHT = (
    "tuned", "heuristic(shape)", "constant", "compile-time parameter", "given by the caller",
)  # fmt: skip
"""How the extents of tiles are chosen, what decides most first. A kernel's tiles are chosen once:
what a search leaves over belongs to it, and what the caller gives to what is chosen here."""

ROUNDING = "rounding_mode"
"""What a launch asks for as it is by default is no decision beside one that the program makes."""

LEFT_OPEN = {"prefetch_depth": "compiler-inferred"}
"""What a program says on an axis that it gives nothing for; what the host gives takes its place."""

SPLIT = "reduction_split"
SUMMED_UP = frozenset({SPLIT, "parameter_gradient", "cross_cta_reduction"})
"""Axes that tell what becomes of an array which the kernel writes."""

_BOTH = ParameterRole.IN_OUT

CUT = "kernel_boundaries"
"""What a program shows of its pass alone, and the host of all passes and stages."""

GRADIENT = "parameter_gradient"
"""What a kernel that sums a gradient shows itself; the host adds up what it leaves."""

CONTRACT = "layout_contract"
COMPACT = frozenset({
    "strides-of-rows-as-arguments", "compact-strides-computed-from-the-sizes",
    "arrays-of-threads-without-strides",
})  # fmt: skip
"""Patterns of arrays that have an axis without a stride."""

STRIDED = COMPACT | {"strides-of-every-axis-handed-in", "one-set-of-strides-for-several-arrays"}
"""Patterns of arrays whose layout the host settles where it makes them contiguous."""


def told_together(detection: Detection, facts: HostFacts) -> tuple[Decision, ...]:
    """Decisions of program and host, with what only both together tell.

    The grid that the host gives belongs to how the program shares out its work. Where a host rule
    chooses extents of tiles, that choice is the decision, and the program shows where they enter.
    """
    again = [*computed_again(detection, facts.decisions)]
    program: Sequence[Decision] = (
        *detection.decisions,
        *laid_out(detection, facts),
        *(again or [*from_saved(detection, facts)] or results_read(detection, facts)),
        *gradients_together(detection, facts.decisions),
        *loss_beside(detection, facts.decisions),
        *gradient_alone(detection, facts),
        *counted(detection, facts),
    )
    shown = {name for d in program if d.axis in RULED for name in (d.subject or "").split(", ")}
    extents = shown | detection.facts.tile_extents | chunk_extents(detection.facts)
    if any(d.axis == TILES and d.subject not in extents for d in facts.decisions):
        extents |= _held_by_threads(detection)
    rules = [
        along_lanes(d, detection.facts)
        for d in facts.decisions
        if d.axis in RULED
        and (d.axis != TILES or not d.subject or d.subject in extents)
        and (d.axis != "vector_width" or _moves(detection, d.subject))
        and not fits_whole(d, program)
    ]
    dummies = {d.operand for d in facts.decisions if isinstance(d, OptionalOperand) if d.stands_in}
    rest = [
        d
        for d in facts.decisions
        if d.axis not in RULED and _overwrites(d, detection, dummies) and not of_workers(d, program)
    ]
    host = [_left(d, detection) for d in _handed(rest, detection)]
    host = [*with_branches(host, detection.facts)]
    host += [*second_stage(detection, host, facts), *of_both_passes(host)]
    host += left_beside(detection, host, program)
    if any(d.axis == ROUNDING and d.pattern != FUSED for d in (*program, *host)):
        host = [d for d in host if d.pattern != FUSED]
    program, host = with_gates(program, host)
    cuts = with_gradients([d for d in host if d.axis == CUT and d.pattern != REPEATED], detection)
    cuts = [d for d in cuts if d.value != LATER or len(cuts) == 1]
    stages = [d for d in host if d.pattern == STAGES]
    rest = [d for d in host if (d.axis != CUT or d.pattern == REPEATED) and d.pattern != STAGES]
    relied = [d for d in program if d.pattern in COMPACT and d.file is None]
    program = told_once(program, detection.facts.of_threads)
    program = [*with_rules(with_stand_ins(program, rest, detection), facts.material)]
    program = [*with_handed(program, detection.facts, facts.material)]
    program = [*of_one_warp(program, host)]
    program = [*without_extents(program, facts, detection.facts)]
    program = [_strided(d, rest, facts, detection.facts) for d in program]
    laid = any(d.axis == CONTRACT and d.file is None for d in program)
    laid = laid or any(d.axis == CONTRACT and d.pattern != HANDED for d in rest)
    rest = [d for d in rest if d.pattern != HANDED or not laid]
    program, rest = with_flags(*with_variants(*with_demands(program, rest)))
    program = [*with_host_casts(program, detection, facts)]
    program, rest = with_saved(program, rest, detection)
    program = [*program, *in_any_order(detection, facts, [*program, *rest])]
    program = [*program, *kept_apart(detection, facts, [*program, *rest])]
    program, rest = with_asked_strides(program, rest)
    program += taken_for_granted(detection, facts, [*program, *rest])
    rest = [_relied(d, relied, detection.facts) for d in rest]
    if any(d.axis == GRADIENT for d in rest):
        program = [d for d in program if d.axis != GRADIENT or d.value != OWNED]
    summed = (_summed_later(d, rest) for d in program)
    program = [d for one in summed for d in _beside(one, rest, detection.facts)]
    told = {line for p in program if p.axis == GRADIENT for line in p.lines}
    rest = [d for d in rest if d.axis != GRADIENT or not told & {*d.lines}]
    found: list[Decision] = []
    launched = detection.facts.of_threads and any(d.axis == WARPS for d in rest)
    for decision in program:
        if launched and decision.axis == WARPS:
            rest = [_shown(d, decision) if _within(d, decision) else d for d in rest]
            continue  # the kernel promises a bound, the launch gives the number
        if of_the_grid(decision):
            decision = replace(decision, lines=(*decision.lines, *facts.grid_lines))
        if decision.value == LEFT_OPEN.get(decision.axis):
            if any(given.axis == decision.axis for given in rest):
                rest = [_shown(given, decision) for given in rest]
                continue
        if any(rule.axis == decision.axis for rule in rules):
            rules = [_shown(rule, decision) for rule in rules]
            continue
        found.append(decision)
    if any(d.axis == SPLIT and d.value != SERIAL for d in (*found, *rest, *stages)):
        found = [d for d in found if d.axis != SPLIT or d.value != SERIAL]
    found = [*_with_launches([*_with_launches(found, cuts, CUT)], stages, SPLIT)]
    rest = [*_optional(rest, detection)]
    return merged_decisions([*given_or_not(found, rest), *_chosen(_one(rules))])


def _held_by_threads(detection: Detection) -> set[str]:
    """Parameters in the extents of arrays that one thread holds."""
    if not detection.facts.of_threads:
        return set()
    names = set(detection.facts.kernel.entry.parameter_names)
    types = (r.type for op in kernel_ops(detection.facts.kernel) for r in op.results)
    held = (t.shape for t in types if t is not None and t.space is MemorySpace.REGISTER)
    return names & {name for shape in held for one in shape for name in NAME.findall(one)}


def _with_launches(
    program: Sequence[Decision], host: Sequence[Decision], axis: str
) -> Iterator[Decision]:
    """Where the program shows how work is cut into kernels, the launches belong to that."""
    first = next((d for d in program if d.axis == axis and d.file is None), None)
    for decision in program:
        own = (decision.lines, *(d.lines for d in host))
        yield replace(decision, lines=_united(*own)) if decision is first else decision
    yield from () if first is not None else host


def _optional(decisions: Sequence[Decision], detection: Detection) -> Iterator[Decision]:
    """Operands that may be missing: those that the program reads and writes under their flag alone,
    or not at all, or that are filled where they are missing; one decision per way, with the
    branches that ask for them."""
    kept: list[Decision] = []
    roles = roles_of(detection.facts)
    unread = {name for name, role in roles.items() if role is ParameterRole.UNUSED}
    read = {name for name, role in roles.items() if role is ParameterRole.INPUT}
    for decision in decisions:
        if decision.axis != OPTIONAL or decision.pattern in (MISSING, NULL):
            yield decision
            continue
        operand, flag = _operand(decision)
        asked = asked_for(detection.facts, operand, flag)
        always = decision.value == NEUTRAL and operand in read
        if asked or always or (operand in unread and decision.pattern == STAND_IN):
            plain = {one.name: getattr(decision, one.name) for one in fields(Decision)}
            plain["lines"] = _united(decision.lines, asked)
            if decision.value == NEUTRAL and (asked or operand in unread):
                plain["value"] = DUMMY
            kept.append(Decision(**plain))
    yield from _one(kept)


def _operand(decision: Decision) -> tuple[str, str]:
    """The operand and its flag; no flag where the operand itself is asked for."""
    if isinstance(decision, OptionalOperand):
        return decision.operand, decision.flag
    return decision.subject or "", ""


def _roles(decision: Decision, detection: Detection) -> set[ParameterRole]:
    """What the parameters, or fields of them, that a decision is about are for."""
    names = (decision.subject or "").split(", ")
    return {role for name, role in roles_of(detection.facts).items() if name in names}


def _overwrites(decision: Decision, detection: Detection, dummies: set[str]) -> bool:
    """True unless the host hands one tensor to two parameters of which none or both are written, or
    in place of an operand that is missing, or adds up an array that the kernel only reads, or puts
    the axes of one in order that the kernel writes."""
    if decision.pattern == TURNED_OVER:
        return ParameterRole.INPUT in _roles(decision, detection)
    if decision.axis not in ("aliasing", *SUMMED_UP) or decision.subject is None:
        return True
    if decision.pattern in (STAGES, MERGED):
        return True
    shared = decision.subject.split(", ")
    read = {n for n, role in roles_of(detection.facts).items() if role is ParameterRole.INPUT}
    if decision.axis == "aliasing" and dummies & read & {*shared}:
        return False
    roles = _roles(decision, detection)
    written = bool(roles & {ParameterRole.OUTPUT, ParameterRole.IN_OUT})
    return written and (len(roles) > 1 or decision.axis in SUMMED_UP)


def _handed(decisions: Sequence[Decision], detection: Detection) -> Iterator[Decision]:
    """Of arrays that are handed from kernel to kernel, or put in order before, those that this one
    reads, or writes, with the places: one decision for each way; where there are none, that the
    kernel does a part of a call's work."""
    roles = roles_of(detection.facts)
    kept: list[Decision] = []
    parts = [one for one in decisions if one.pattern == BESIDE]
    for decision in (one for one in decisions if one.pattern != BESIDE):
        written = decision.value == LEFT or decision.pattern in (AHEAD, FINISHED)
        wanted = (ParameterRole.OUTPUT if written else ParameterRole.INPUT, _BOTH)
        if decision.pattern not in (HANDED_ON, PREPARED, AHEAD, FINISHED):
            yield decision
            continue
        uses = [a for a in detection.facts.accesses if a.array == decision.subject]
        role = roles.get(decision.subject or "")
        used = any(a.is_store == written or a.is_atomic for a in uses)
        if role in wanted or (role is None and used):
            lines = tuple(a.node.lines for a in uses)
            kept.append(replace(decision, lines=_united(decision.lines, lines)))
    yield from _one(kept)
    yield from () if any(one.pattern == HANDED_ON for one in kept) else parts


_SHOWN_HERE = (ADDED, BUFFER, WHOLE, SUMMED, MERGED, STAGES, ONE_TENSOR)


def _left(decision: Decision, detection: Detection) -> Decision:
    """Partial results that another one adds up, and arrays that are one tensor, with the places
    that write or read them here."""
    if decision.pattern not in _SHOWN_HERE or decision.file is not None:
        return decision
    names = (decision.subject or "").split(", ")
    uses = (a.node.lines for a in detection.facts.accesses if a.array in names)
    return replace(decision, lines=_united(decision.lines, tuple(uses)))


def _strided(
    decision: Decision, rest: Sequence[Decision], host: HostFacts, facts: Facts
) -> Decision:
    """How arrays must lie, where the program relies on it, with the lines where the host hands
    strides over; and where it makes arrays contiguous."""
    if decision.axis != CONTRACT or decision.file is not None:
        return decision
    names = (decision.subject or "").split(", ")
    lines: list[tuple[Lines, ...]] = []
    if (made := host.material) is not None:
        lines += [made.given(site, name) for site in made.sites() for name in names]
    lines += [d.lines for d in rest if d.pattern == decision.pattern == HANDED]
    if decision.pattern == CompactArrays.name:
        lines += [tuple(launch.lines for launch in host.launches)]
        lines += [d.lines for d in rest if d.pattern == DEMANDED and d.file is None]
    if decision.pattern in STRIDED:
        made_so = [d for d in rest if d.pattern == CONTIGUOUS and d.axis == CONTRACT]
        lines += [other.lines for other in made_so if of_one_array(decision, other, facts)]
    return replace(decision, lines=_united(decision.lines, *lines))


def _relied(decision: Decision, relied: Sequence[Decision], facts: Facts) -> Decision:
    """Where the host makes arrays contiguous, with the places of the program that rely on it."""
    if (decision.pattern, decision.axis) != (CONTIGUOUS, CONTRACT) or decision.file is not None:
        return decision
    shown = [d.lines for d in relied if of_one_array(d, decision, facts)]
    return replace(decision, lines=_united(decision.lines, *shown))


def _summed_later(decision: Decision, rest: Sequence[Decision]) -> Decision:
    """A gradient that blocks leave in parts, with the places where the host adds them up."""
    later = [d.lines for d in rest if d.axis == GRADIENT and d.value == decision.value]
    if decision.axis != GRADIENT or decision.file is not None:
        return decision
    return replace(decision, lines=_united(decision.lines, *later))


def _beside(decision: Decision, rest: Sequence[Decision], facts: Facts) -> Iterator[Decision]:
    """What is stored beside the output, without the parts that the host adds up."""
    parts = {d.subject for d in rest if d.axis == GRADIENT}
    stores = {a.node.lines for a in facts.stores if a.array in parts}
    if decision.axis != "side_output" or not stores & {*decision.lines}:
        yield decision
    elif left := tuple(line for line in decision.lines if line not in stores):
        yield replace(decision, lines=left)


def _moves(detection: Detection, parameter: str | None) -> bool:
    """True when accesses move as many elements as a parameter says."""
    return any(
        d.axis == "vector_width" and d.value == f"{parameter} elements" for d in detection.decisions
    )


def _shown(rule: Decision, program: Decision) -> Decision:
    """A host rule with the lines where the program uses what it chose."""
    if rule.axis != program.axis:
        return rule
    return replace(rule, lines=_united(rule.lines, program.lines))


def _within(launched: Decision, bound: Decision) -> bool:
    """Whether blocks are as large as the kernel promises, as far as both are known."""
    known = launched.value.isdigit() and bound.value.isdigit()
    return launched.value == bound.value if known else not bound.value.isdigit()


def _one(rules: Sequence[Decision]) -> Iterator[Decision]:
    """Extents that one rule chooses are one decision."""
    for key in dict.fromkeys((d.axis, d.value, d.pattern) for d in rules):
        same = [d for d in rules if (d.axis, d.value, d.pattern) == key]
        subjects = ", ".join(dict.fromkeys(d.subject for d in same if d.subject))
        lines = _united(*(d.lines for d in same))
        yield replace(same[0], lines=lines, subject=subjects or None)


def _chosen(rules: Iterable[Decision]) -> Iterator[Decision]:
    """One decision on the tiles of a kernel, named after what decides most of them."""
    tiles: list[Decision] = []
    for rule in rules:
        if rule.axis == TILES and rule.value in BY_WEIGHT and rule.file is None:
            tiles.append(rule)
        else:
            yield rule
    if tiles:
        first = min(tiles, key=lambda d: BY_WEIGHT.index(d.value))
        yield replace(first, lines=_united(*(d.lines for d in tiles)))


def _united(*lines: tuple[Lines, ...]) -> tuple[Lines, ...]:
    return tuple(sorted({one for some in lines for one in some}))
