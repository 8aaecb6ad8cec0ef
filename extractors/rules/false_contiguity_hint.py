# ruff: noqa: E501
"""A hint of contiguity or divisibility stands on indices that wrap around."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.cases import POINTER, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.facts import Facts
from kb.analysis.symbolic import Atom, AtomKind
from kb.evidence import Finding
from kb.ops import COMPARISONS, OpKind

_WRAPPED = (
    POINTER
    + """
@triton.jit
def move(x, out, n, T: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)
    inside = at < n
    near = tl.max_contiguous(tl.multiple_of(at % n, T), T)
    tl.store(out + at, tl.load(x + near), mask=inside)
"""
)
_SENT = vary(_WRAPPED, ("at % n", "tl.where(inside, at, 0)"))


class FalseContiguityHint(Rule):
    """Lanes are taken modulo a size of the problem, or sent to another place past it, and then
    declared to be consecutive, or to begin at a multiple: in the tile that crosses the size neither
    holds."""

    name = "false-contiguity-hint"
    dialects = ("triton",)
    matches = (
        Case(_WRAPPED, "`n`"),
        Case(vary(_WRAPPED, ("tl.max_contiguous(tl.multiple_of(at % n, T), T)",
                             "tl.max_contiguous(at % n, T)")), "`n`"),
        Case(_SENT, "select"),
    )  # fmt: skip
    near_misses = (
        NearMiss(
            vary(_SENT, ("tl.multiple_of(tl.where(inside, at, 0), T)", "tl.where(inside, tl.multiple_of(at, T), 0)"),
                 ("tl.max_contiguous(tl.where(inside, tl.multiple_of(at, T), 0), T)", "tl.where(inside, tl.multiple_of(at, T), 0)")),
            why="declared before the select",
        ),
        NearMiss(
            vary(_SENT, ("tl.where(inside, at, 0)", "tl.where(inside, at, at + 0)")),
            why="both sides are lanes",
        ),
        NearMiss(vary(_WRAPPED, ("at % n", "at")), why="the lanes are consecutive"),
        NearMiss(
            vary(_WRAPPED, ("n, T: tl.constexpr", "n, P: tl.constexpr, T: tl.constexpr"),
                 ("at % n", "at % P")),
            why="a compile-time size may well be a multiple of the tile",
        ),
    )  # fmt: skip
    seen = (Seen("flag-gems", "flag_gems/ops/mm.py", "mm_kernel_general", 66),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        facts = subject.facts
        found: dict[str, list[tuple[int, int]]] = {}
        sent: dict[str, list[tuple[int, int]]] = {}
        for node in facts.graph.of(OpKind.MAX_CONTIGUOUS, OpKind.MULTIPLE_OF):
            atom = facts.values.expr(node.op.inputs[0]).atom
            for size in _sizes(atom):
                if size not in facts.constexprs:
                    found.setdefault(size, []).append(node.lines)
            for size in _sent_away(facts, node.op.inputs[0]):
                if size not in facts.constexprs and node.lines not in sent.setdefault(size, []):
                    sent[size].append(node.lines)
        for size, lines in sent.items():
            yield self.finding(
                subject,
                f"indices that a select sends to another place past `{size}` are declared "
                f"contiguous or a multiple: in the tile that crosses `{size}` they are not",
                "declare it of the indices before the select, or mask the access instead",
                lines,
            )
        for size, lines in found.items():
            yield self.finding(
                subject,
                f"indices modulo `{size}` are declared contiguous or a multiple: the tile that "
                f"crosses `{size}` wraps around, and unless `{size}` is a multiple of the tile "
                "what is declared does not hold there",
                "declare it of the indices before the remainder is taken, or mask instead of "
                "wrapping",
                lines,
            )


def _sent_away(facts: Facts, value: str) -> list[str]:
    """The parameter that lanes are compared with by a select that takes one place past it."""
    node = facts.graph.producer(facts.graph.plain(value))
    if node is None or node.op.kind != OpKind.SELECT:
        return []
    kept, other = (node.op.operand(role) or "" for role in ("x", "y"))
    test = facts.graph.producer(facts.graph.plain(node.op.operand("condition")))
    lanes = [facts.values.expr(side).has(AtomKind.LANE) for side in (kept, other)]
    if lanes.count(True) != 1 or test is None or test.op.kind not in COMPARISONS:
        return []
    sizes = [facts.values.expr(side).atom for side in test.op.inputs[:2]]
    return [a.value for a in sizes if a is not None and a.kind is AtomKind.PARAMETER]


def _sizes(atom: Atom | None) -> list[str]:
    """The parameter that lanes are taken modulo."""
    if atom is None or atom.kind is not AtomKind.MOD or not atom.args[0].has(AtomKind.LANE):
        return []
    size = atom.args[1].atom
    return [size.value] if size is not None and size.kind is AtomKind.PARAMETER else []
