"""What the program shows under a flag, with where the host hands over what decides it: the flag of
wide positions, and what stands where an operand is not given."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from extractors.host.derived import rule_lines
from extractors.host.events import LaunchRecord
from extractors.host.facts import Material
from extractors.host.followed import followed
from extractors.host.origins import lines_of
from extractors.host.render import leaves
from extractors.host.values import Choice, Expr, Func, Value
from extractors.patterns.index_width import ON_REQUEST
from extractors.syntax.nodes import each
from extractors.told_optional import FLAG
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS
from kb.evidence import Decision, Lines
from kb.ir import Origin, ParameterKind
from kb.ops import ATOMICS, READS, WRITES

WIDTH, DEPTH = "index_width", "prefetch_depth"

_DEPTHS = ("num_stages",)
"""Options of a launch that say how many stages are in flight. Source: triton.Config."""


def with_handed(
    decisions: Iterable[Decision], facts: Facts, material: Material | None
) -> Iterator[Decision]:
    """The decisions, those on what the host hands over with the lines where it does."""
    for decision in decisions:
        more: set[Lines] = set()
        led: set[Origin] = set()
        if material is not None and decision.file is None:
            if decision.axis == WIDTH and decision.value == ON_REQUEST:
                flags = _widening(facts, decision)
                more = {at for flag in flags for at in _made(material, flag)}
                led = {at for flag in flags for at in _settled(material, flag)}
            elif decision.pattern == FLAG:
                names = (decision.subject or "").split(", ")
                more = {at for name in names for at in _stands_in(material, name)}
            elif (decision.axis, decision.value) == (DEPTH, "compiler-inferred"):
                more = {at for name in _DEPTHS for at in _not_taken(material, name)}
        lines = tuple(sorted({*decision.lines, *more}))
        places = tuple(sorted({*decision.elsewhere, *led}))
        yield replace(decision, lines=lines, elsewhere=places) if more or led else decision


def _widening(facts: Facts, decision: Decision) -> set[str]:
    """Compile-time flags that branches around the casts of a decision ask for which compute
    positions alone: nothing is read or written there."""
    flags = {p.name for p in facts.kernel.entry.parameters if p.kind is ParameterKind.CONSTEXPR}
    casts = [n for n in facts.graph.of(*CASTS) if set(facts.spans(n)) & {*decision.lines}]
    memory = facts.graph.of(*READS, *WRITES, *ATOMICS)
    guards = {guard for node in casts for guard in facts.guards(node)}
    asked = {guard.op.inputs[0] for guard in guards if not any(one.inside(guard) for one in memory)}
    read = {v for one in asked for n in facts.graph.upstream(one) for v in n.op.inputs}
    return flags & (asked | read)


def _made(material: Material, flag: str) -> Iterator[Lines]:
    """Where the host works out a flag: a test that it hands over, or a rule that is attached."""
    for launch in material.launches:
        if any(_tests(leaf) for leaf in _all(dict(launch.args).get(flag))):
            yield from material.given(launch, flag)
            yield from material.told("asked", partial(_worked_out, material), launch, flag)
        yield from rule_lines(material, launch, flag)


def _settled(material: Material, flag: str) -> Iterator[Origin]:
    """Tests and results of functions of other modules that give a flag."""
    for launch in material.sites():
        rule = dict(launch.kernel.heuristics).get(flag)
        value = material.argument(launch, flag)
        given = [value] if value is not None else []
        given += each(rule.node, ast.Call) if isinstance(rule, Func) else []
        for home, function, _ in (one for value in given for one in followed(material, value)):
            asked = (node.test for node in each(function, ast.If))
            for part in (*asked, *each(function, ast.Return)):
                yield home.path, lines_of(part)


def _worked_out(material: Material, launch: LaunchRecord, flag: str) -> tuple[Lines, ...]:
    """The nearest statement that made the name that a launch hands over, and what functions of the
    module give back for it."""
    value = material.argument(launch, flag)
    if value is None or material.origins is None:
        return ()
    named = isinstance(value, ast.Name)
    made = [lines_of(one) for one in material.origins.statements(value)[:1] if named]
    return (*made, *sorted(material.origins.worked_out(value)))


def _all(value: Value) -> list[Value]:
    return [value, *leaves(value)] if isinstance(value, Choice) else [value]


def _tests(value: Value) -> bool:
    return isinstance(value, Choice | Expr) and getattr(value, "op", "") != "sym"


def _not_taken(material: Material, option: str) -> Iterator[Lines]:
    """Where what has the name of an option is handed to a parameter of the kernel by its place: the
    compiler does not get it."""
    if any(name == option for name, _ in material.signature.params):
        for launch in material.sites():
            yield from material.given(launch, option)
            yield from material.made(launch, option)


def _stands_in(material: Material, name: str) -> set[Lines]:
    """Where one place that launches hands over one of several arrays for an operand, or none."""
    meant: dict[tuple[Lines, tuple[Lines, ...]], set[Value]] = {}
    for launch in material.launches:
        if name in (given := dict(launch.args)):
            meant.setdefault((launch.lines, launch.sites), set()).update(leaves(given[name]))
    chosen = {place for place, found in meant.items() if len(found) > 1 or None in found}
    return {
        at
        for launch in material.sites()
        if (launch.lines, launch.sites) in chosen
        for at in material.given(launch, name)
    }
