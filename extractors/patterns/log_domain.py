"""Softmaxes whose sum is taken off in the exponent."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import SOFTMAX
from extractors.patterns.cases_rows_threads import SOFTMAX_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.evidence import Decision
from kb.ops import OpKind

_LOGS = (
    POINTER
    + """
@triton.jit
def soft(x, out, n, T: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, T)
    v = tl.load(x + row * n + at, mask=at < n, other=float("-inf")).to(tl.float32)
    top = tl.max(v, axis=0)
    whole = top + tl.log(tl.sum(tl.exp(v - top), axis=0))
    tl.store(out + row * n + at, tl.exp(v - whole), mask=at < n)
"""
)
_TURNS = vary(
    _LOGS,
    ("    whole = top + tl.log(tl.sum(tl.exp(v - top), axis=0))\n",
     "    v = v - top\n    whole = tl.log(tl.sum(tl.exp(v), axis=0))\n"),
)  # fmt: skip
_LOGS_TILE = """import cuda.tile as ct
@ct.kernel
def soft(x, out, T: ct.Constant[int]):
    v = ct.load(x, index=(ct.bid(0), 0), shape=(1, T))
    top = ct.max(v, axis=1, keepdims=True)
    whole = top + ct.log(ct.sum(ct.exp(v - top), axis=1, keepdims=True))
    ct.store(out, index=(ct.bid(0), 0), tile=ct.exp(v - whole))
"""
_KEEPS = VIEWS | CASTS | {OpKind.SELECT, OpKind.MUL, OpKind.SUB, OpKind.YIELD}
_VALUE = "log-sum-exp subtracted in the exponent, no division"


class LogDomain(Pattern):
    """The logarithm of a sum of exponentials, perhaps added to the maximum that was taken off
    before, is subtracted from the scores, and the exponential of that is stored or weighs what is
    stored."""

    name = "log-sum-exp-subtracted-before-the-exponential"
    axis = "softmax_scheme"
    source = "Blanchard, Higham, Higham, Accurately computing the log-sum-exp (2021), section 1"
    matches = (
        Case(_LOGS, _VALUE),
        Case(_TURNS, _VALUE),
        Case(_LOGS_TILE, _VALUE),
    )
    near_misses = (
        NearMiss(
            vary(_LOGS, ("tl.exp(v - whole)", "v - whole")), why="the logarithm is the result"
        ),
        NearMiss(
            vary(_LOGS, ("top + tl.log(tl.sum(tl.exp(v - top), axis=0))", "top")),
            why="the maximum alone",
        ),
        NearMiss(_LOGS_TILE.replace("ct.exp(v - whole)", "ct.exp(v) / whole"), why="divided"),
        NearMiss(SOFTMAX, why="divided by the sum"),
        NearMiss(SOFTMAX_THREADS, why="divided by the sum"),
        NearMiss(PRODUCT, why="no softmax"),
        NearMiss(PRODUCT_POINTER, why="no softmax"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.contractions:
            return
        found: list[Node] = []
        for log in facts.graph.of(OpKind.LOG, OpKind.LOG2):
            under = facts.graph.roots(log.op.inputs[0], OpKind.EXP, OpKind.EXP2)
            for taken in self._taken(facts, log) if under else ():
                powers = self._powers(facts, taken)
                found += [log, taken, *powers] if powers else []
        if found:
            yield self.decide(facts, _VALUE, dict.fromkeys(found))

    def _taken(self, facts: Facts, log: Node) -> list[Node]:
        """Subtractions of a logarithm, or of its sum with another number of the row, from loaded
        elements that have lanes of their own."""
        found: list[Node] = []
        for value in (pending := [log.result]):
            for user in facts.graph.users(value):
                if user.op.kind in VIEWS | CASTS | {OpKind.ADD, OpKind.MUL} and len(pending) < 16:
                    pending.append(user.result)
                over = user.op.inputs[0] if user.op.kind == OpKind.SUB else value
                wide = facts.types.shape(over) and facts.feeding(over)
                if over != value and wide:
                    found.append(user)
        return found

    def _powers(self, facts: Facts, taken: Node) -> list[Node]:
        """Exponentials of a difference, perhaps times a number, where a mask keeps it, or rounds
        later."""
        found: list[Node] = []
        for value in (pending := [taken.result]):
            for user in facts.graph.users(value):
                if user.op.kind in _KEEPS and len(pending) < 16:
                    pending += [v for v in facts.graph.onward(user, value) if v not in pending]
                power = user.op.kind in (OpKind.EXP, OpKind.EXP2)
                if power and facts.stored_in(user.result) and facts.types.shape(user.result):
                    found.append(user)
        return found
