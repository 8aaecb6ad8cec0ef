"""Into how many parts a reduction is split: the program shows what counts them, the host chooses
the number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extractors.detect import Detection
from extractors.host.facts import HostFacts
from extractors.patterns.split_reduction import SplitReduction
from kb.analysis.facts import Facts
from kb.analysis.idioms import comparisons
from kb.analysis.symbolic import AtomKind, Expr
from kb.evidence import AxisKind, Decision

AXIS = "split_count"
PATTERN = "number-of-parts-of-a-split-reduction"
_SERIAL = "serial"
_CHOSEN = {"tuned": "tuned", "heuristic(shape)": "host rule"}
"""How a compile-time parameter is chosen, said of a number of parts."""
_WORKERS = "persistent"


def counted(detection: Detection, host: HostFacts) -> Iterator[Decision]:
    """The choice of a compile-time parameter that is the number of parts of a reduction."""
    if detection.facts.of_threads or not _split(detection.decisions):
        return
    told = {d.subject for d in host.decisions if d.axis == AXIS}
    parts = _parts(detection.facts) - told
    for name in sorted(parts):
        rows = [d for d in host.decisions if d.axis == "tile_selection" and d.subject == name]
        for row in (r for r in rows if r.value in _CHOSEN and r.file is None):
            yield Decision(
                axis=AXIS,
                value=_CHOSEN[row.value],
                pattern=PATTERN,
                lines=tuple(sorted({*row.lines, *detection.facts.declared(name)})),
                kind=AxisKind.TUNING,
                subject=name,
            )


def of_workers(decision: Decision, program: Sequence[Decision]) -> bool:
    """True for a count of blocks that share out rows and leave each a part of a gradient."""
    shares = [d.value for d in program if d.axis == "work_decomposition"]
    parts = any(d.axis == "parameter_gradient" for d in program)
    return decision.axis == AXIS and parts and any(v.startswith(_WORKERS) for v in shares)


def _split(decisions: Sequence[Decision]) -> bool:
    own = [d.value for d in decisions if d.pattern == SplitReduction.name]
    return any(not value.startswith(_SERIAL) for value in own)


def _parts(facts: Facts) -> set[str]:
    """Compile-time parameters, no extents of tiles, that are compared with one where results are
    written either way; else that the rounds of a loop are divided by or stride over."""
    held = facts.constexprs - facts.tile_extents
    return (_compared(facts) & held) or (_counts(facts) & held)


def _counts(facts: Facts) -> set[str]:
    found: set[str] = set()
    for loop in facts.loops:
        if loop.step is not None:
            found |= _names(facts.values.expr(loop.step))
        if loop.high is not None:
            rounds = facts.values.expr(loop.high)
            found |= {
                name
                for atom in rounds.atoms()
                if atom.kind in (AtomKind.CEIL_DIV, AtomKind.FLOOR_DIV)
                for name in _names(atom.args[1])
            }
    return found


def _compared(facts: Facts) -> set[str]:
    found: set[str] = set()
    for store in facts.stores:
        for guard in facts.guards(store.node):
            for test in comparisons(facts, guard.op.inputs[0]):
                sides = [facts.values.expr(v) for v in test.op.inputs[:2]]
                if any(side.constant == 1 for side in sides):
                    found |= {a.value for s in sides for a in s.atoms() if s.atom is a}
    return found


def _names(expr: Expr) -> set[str]:
    return {a.value for a in expr.atoms() if a.kind is AtomKind.PARAMETER}
