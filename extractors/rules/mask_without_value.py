"""A masked load that does not say what the lanes outside hold."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.cases import POINTER, vary
from extractors.patterns.cases_rows import LAYER_NORM_POINTER
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.undetermined_padding import UndeterminedPadding
from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS
from kb.evidence import Finding, Severity
from kb.ops import OpKind

_LOOKS = VIEWS | CASTS
_LOADS = (Mode.POINTER,)
MAX_NAMED = 4
"""Arrays that one message names."""

_MOVED = (
    POINTER
    + """
@triton.jit
def scaled(x, w, out, n, T: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)
    inside = at < n
    v = tl.load(x + at, mask=inside)
    tl.store(out + at, v * tl.load(w + at, mask=inside, other=0.0), mask=inside)
"""
)


class MaskWithoutValue(Rule):
    """A masked load without a value for the lanes that the mask leaves out, which reaches no sum:
    what they hold is not determined, and every step after it must leave them out again. Where they
    are added up, another rule says so."""

    name = "mask-without-value"
    dialects = ("triton",)
    matches = (
        Case(_MOVED, "`x`"),
        Case(vary(LAYER_NORM_POINTER, ("b + at, mask=inside, other=0.0", "b + at, mask=inside"))),
    )
    near_misses = (
        NearMiss(vary(_MOVED, ("mask=inside)\n", "mask=inside, other=0.0)\n")),
                 why="the load says what lanes outside hold"),
        NearMiss(vary(_MOVED, ("x + at, mask=inside)", "x + at)")), why="no lane is left out"),
        NearMiss(
            vary(_MOVED, ("v * tl", "tl.where(inside, v, 0.0) * tl")),
            why="a select decides right after the load",
        ),
        NearMiss(
            vary(LAYER_NORM_POINTER, ("at, mask=inside, other=0.0).to(tl.float32)\n    mean",
                                      "at, mask=inside).to(tl.float32)\n    mean")),
            why="they are summed, which is another finding",
        ),
    )  # fmt: skip
    seen = (
        Seen("liger-kernel", "liger_kernel/ops/group_norm.py", "_group_norm_forward_kernel", 91),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        facts = subject.facts
        if facts.kernel.dialect not in self.dialects:
            return
        bare = [load for load in facts.loads if _bare(load) and not _decided(facts, load)]
        summed = UndeterminedPadding().summed(subject) if bare else frozenset()
        bare = [load for load in bare if load not in summed]
        if bare:
            arrays = list(dict.fromkeys(f"`{load.array}`" for load in bare if load.array))
            of = f" of {', '.join(arrays[:MAX_NAMED])}" if arrays else ""
            yield self.finding(
                subject,
                f"masked load{of} without other=: what the lanes outside hold is not determined, "
                "and whatever comes after must leave them out again",
                "give the load the value that the lanes outside should have",
                bare,
                Severity.NOTE,
            )


def _bare(load: Access) -> bool:
    """Whether a load has a mask, and no value for what it leaves out."""
    return load.mask is not None and load.mode in _LOADS and load.padding == "undetermined"


def _decided(facts: Facts, load: Access) -> bool:
    """Whether selects are all that reads what was loaded."""
    pending, users = [load.node.result], []
    for value in pending:
        for user in facts.graph.users(value):
            if user.op.kind in _LOOKS:
                pending += [one.name for one in user.op.results]
            else:
                users.append(user)
    return bool(users) and all(user.op.kind == OpKind.SELECT for user in users)
