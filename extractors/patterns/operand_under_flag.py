"""Arrays that are read, or written, only where a compile-time flag says so."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.specialise import branches
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ops import OpKind

FLAGGED = (
    POINTER
    + """
@triton.jit
def plus(x, bias, out, n, T: tl.constexpr, SHIFT: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n)
    if SHIFT:
        v += tl.load(bias + at, mask=at < n)
    tl.store(out + at, v, mask=at < n)
"""
)
FLAGGED_TILE = (
    TILE
    + """
@ct.kernel
def plus(x, bias, out, T: Int, SHIFT: Bool):
    i = ct.bid(0)
    v = ct.load(x, index=(i,), shape=(T,))
    if SHIFT:
        v = v + ct.load(bias, index=(i,), shape=(T,))
    ct.store(out, index=(i,), tile=v)
"""
)


_HANDED = vary(
    FLAGGED,
    (
        "    if SHIFT:\n        v += tl.load(bias",
        "    if SHIFT:\n        there = bias + at\n    else:\n        there = None\n    if SHIFT:\n        v += tl.load(there",  # noqa: E501
    ),
    ("load(there + at,", "load(there,"),
)


_STORED = vary(
    FLAGGED,
    ("v += tl.load(bias + at, mask=at < n)", "tl.store(bias + at, v + v, mask=at < n)"),
)
_EXPRESSION = vary(
    FLAGGED,
    ("    if SHIFT:\n        v += tl.load(bias + at, mask=at < n)\n",
     "    v += tl.load(bias + at, mask=at < n) if SHIFT else 0.0\n"),
)  # fmt: skip
_UPDATED = vary(
    FLAGGED,
    ("tl.load(bias + at, mask=at < n)\n    tl.store",
     "tl.load(bias + at, mask=at < n)\n        tl.store(bias + at, v, mask=at < n)\n    tl.store"),
)  # fmt: skip
_EITHER = vary(
    FLAGGED,
    ("SHIFT: tl.constexpr", "SHIFT: tl.constexpr, FIRST: tl.constexpr"),
    (
        "    if SHIFT:",
        "    if SHIFT and FIRST:\n        v += tl.load(bias + at, mask=at < n)\n    v = tl.exp(v)\n    if SHIFT and not FIRST:",  # noqa: E501
    ),
)
_STORED_TILE = vary(
    FLAGGED_TILE,
    ("v = v + ct.load(bias, index=(i,), shape=(T,))", "ct.store(bias, index=(i,), tile=v + v)"),
)
_READ = "operand read under a constexpr flag"
_WRITTEN = "output written under a constexpr flag"

_MODES = (
    POINTER
    + """
@triton.jit
def shift(x, scale, out, MODE: tl.constexpr, T: tl.constexpr):
    i = tl.program_id(0)
    at = i * T + tl.arange(0, T)
    v = tl.load(x + at)
    if MODE == 1:
        v = v * tl.load(scale)
    if MODE == 2:
        v = v * tl.load(scale + i)
    tl.store(out + at, v)
"""
)


_DENIED = vary(
    FLAGGED,
    (
        "    tl.store",
        "    if not SHIFT:\n"
        "        v = tl.exp(v)\n"
        "    else:\n"
        "        v += tl.load(bias + at + 1, mask=at < n)\n"
        "    tl.store",
    ),
)
_CHAINED = vary(
    FLAGGED,
    ("SHIFT: tl.constexpr", "SHIFT: tl.constexpr, LAST: tl.constexpr"),
    (
        "        v += tl.load(bias + at, mask=at < n)\n",
        "        v += tl.load(bias + at, mask=at < n)\n"
        "    elif LAST:\n"
        "        v = tl.exp(v) + tl.load(bias + at, mask=at < n)\n"
        "    else:\n"
        "        v = tl.exp(v)\n",
    ),
)
FLAGGED_THREADS = """template <bool SHIFT>
__global__ void plus(const float* x, const float* bias, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    float v = x[at];
    if constexpr (SHIFT) v += bias[at];
    out[at] = v;
}
"""


class OperandUnderFlag(Pattern):
    """Every access of an array stands under a branch on compile-time parameters, on the same
    side."""

    name = "operand-read-under-a-compile-time-flag"
    axis = "optional_inputs"
    source = "Triton documentation, tl.constexpr: branches that are taken at compile time"
    matches = (
        Case(FLAGGED, "operand read under a constexpr flag"),
        Case(_HANDED, "operand read under a constexpr flag"),
        Case(FLAGGED_TILE, "operand read under a constexpr flag"),
        Case(_MODES, "operand read under a constexpr flag"),
        Case(_EXPRESSION, _READ),
        Case(_UPDATED, _READ),
        Case(_EITHER, _READ),
        Case(_CHAINED, _READ),
        Case(_DENIED, _READ),
        Case(FLAGGED_THREADS, _READ),
        Case(_STORED, _WRITTEN),
        Case(_STORED_TILE, _WRITTEN),
    )
    near_misses = (
        NearMiss(
            vary(_MODES, ("load(scale + i)", "load(scale)")),
            why="one number, read in one place or in another",
        ),
        NearMiss(
            vary(_MODES, ("MODE == 2", "MODE != 1")),
            why="one of two opposites always holds",
        ),
        NearMiss(
            vary(_MODES, ("    if MODE == 2:\n", "    else:\n"), ("MODE == 1", "MODE")),
            why="the array is read on both sides",
        ),
        NearMiss(vary(FLAGGED, ("SHIFT: tl.constexpr", "SHIFT")), why="chosen at run time"),
        NearMiss(vary(_EXPRESSION, ("SHIFT: tl.constexpr", "SHIFT")), why="chosen at run time"),
        NearMiss(
            vary(_EXPRESSION, ("else 0.0", "else tl.load(bias + at + n)")),
            why="the array is read on both sides",
        ),
        NearMiss(
            vary(
                _EITHER,
                ("if SHIFT and FIRST", "if SHIFT"),
                ("if SHIFT and not FIRST", "if not SHIFT"),
            ),
            why="the array is read whatever the flags are",
        ),
        NearMiss(
            vary(
                _CHAINED,
                (
                    "    else:\n        v = tl",
                    "    else:\n        v += tl.load(bias + at, mask=at < n)\n        v = tl",
                ),
            ),
            why="the array is read on every way",
        ),
        NearMiss(
            vary(_CHAINED, ("tl.exp(v) + tl.load(bias + at", "tl.exp(v) + tl.load(bias + 2 * at")),
            why="each way reads its own places: how the array is read is what the flags choose",
        ),
        NearMiss(vary(FLAGGED, ("load(bias", "load(x")), why="the array is read anyway"),
        NearMiss(
            vary(FLAGGED_TILE, ("ct.load(bias,", "ct.load(x,")), why="the array is read anyway"
        ),
        NearMiss(
            vary(FLAGGED_TILE, ("if SHIFT:", "if i < T:")), why="blocks by their place, no flag"
        ),
        NearMiss(FLAGGED_THREADS.replace("constexpr (SHIFT)", "(n > 4)"), why="chosen at run time"),
        NearMiss(
            FLAGGED_THREADS.replace("v += bias[at]", "bias[at] = v").replace(
                "const float* b", "float* b"
            ),
            why="threads store it: a side output",
        ),
        NearMiss(ADD_POINTER, why="every array is read"),
        NearMiss(vary(_STORED, ("SHIFT: tl.constexpr", "SHIFT")), why="chosen at run time"),
        NearMiss(
            vary(
                _STORED_TILE,
                (
                    "tile=v + v)",
                    "tile=v + v)\n    else:\n        ct.store(bias, index=(i,), tile=v)",
                ),
            ),
            why="the array is written either way",
        ),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        chosen = {branch.node for branch in branches(facts, OpKind.IF_EXPRESSION)}
        arrays: dict[str, list[Access]] = {}
        for access in facts.accesses:
            if access.array is not None:
                arrays.setdefault(access.array, []).append(access)
        read: dict[str, list[Where]] = {}
        written: dict[str, list[Where]] = {}
        for array, accesses in arrays.items():
            shared = one_side(facts, [access.node for access in accesses], chosen)
            shared = shared or _modes(facts, accesses, chosen) or _chain(accesses, chosen)
            if not shared:
                continue
            guards = (b for access in accesses for b in flagged(access.node, chosen))
            around = [b for b in dict.fromkeys(guards) if b.op.inputs[0] in shared]
            around += _same(facts, around, chosen)
            heads = [branch.head for branch in around]
            heads += facts.declared(*(n for b in around for n in _flags(facts, b)))
            kind = written if all(access.is_store for access in accesses) else read
            kind[array] = [*heads, *accesses]
        found = read | written
        if facts.of_threads:
            found = read  # What threads store under a flag is told as a side output.
        if found:
            where = [place for places in found.values() for place in places]
            value = _READ if read else _WRITTEN
            yield self.decide(facts, value, where, ", ".join(sorted(found)))


def _modes(facts: Facts, accesses: list[Access], chosen: set[Node]) -> set[str]:
    """Conditions of branches under which an array is read, where each of several modes reads it
    elsewhere and none reads it where its condition fails; empty when a place reads it anyway."""
    if len({access.index for access in accesses}) < 2:
        return set()
    found: set[str] = set()
    for access in accesses:
        around = [*flagged(access.node, chosen).items()]
        if not around or around[-1][1] != 0:
            return set()
        found.add(around[-1][0].op.inputs[0])
    said = {one for value in found if (one := _compared(facts, value)) is not None}
    return set() if any((sides, not alike) in said for sides, alike in said) else found


def _compared(facts: Facts, condition: str) -> tuple[frozenset[str], bool] | None:
    """The two sides of a condition, and whether it says that they are equal."""
    made = facts.graph.producer(condition)
    if made is None or made.op.kind not in (OpKind.EQ, OpKind.NE):
        return None
    sides = frozenset(str(facts.values.expr(v)) for v in made.op.inputs[:2])
    return sides, made.op.kind == OpKind.EQ


def _chain(accesses: list[Access], chosen: set[Node]) -> set[str]:
    """Conditions of branches within one another under which an array is read at one place, where
    on one way through them it is not."""
    around = [[*flagged(access.node, chosen).items()] for access in accesses]
    if len({access.index for access in accesses}) > 1:
        return set()
    if not all(around) or len({one[-1][0] for one in around}) > 1:
        return set()
    read = {(branch, side) for one in around for branch, side in one}
    last = {one[0] for one in around}

    def everywhere(branch: Node) -> bool:
        inner = {one for one, _ in read if one.parent is branch}
        return all(
            (branch, side) in last or any(b.branch == side and everywhere(b) for b in inner)
            for side in (0, 1)
        )

    if everywhere(around[0][-1][0]):
        return set()
    return {branch.op.inputs[0] for branch, _ in read}


def _same(facts: Facts, around: list[Node], chosen: set[Node]) -> list[Node]:
    """Other branches that ask the same as those around what is read."""
    asked = {str(facts.values.expr(branch.op.inputs[0])) for branch in around}
    return [
        branch
        for branch in chosen
        if branch not in around and str(facts.values.expr(branch.op.inputs[0])) in asked
    ]


def _flags(facts: Facts, branch: Node) -> set[str]:
    """The compile-time parameters that a branch asks for."""
    asked = facts.values.expr(branch.op.inputs[0])
    atoms = {a.value for a in asked.atoms() if a.kind is AtomKind.PARAMETER}
    named = {v for n in facts.graph.upstream(branch.op.inputs[0]) for v in n.op.inputs}
    return (atoms | named | {branch.op.inputs[0]}) & facts.constexprs


def flagged(node: Node, chosen: set[Node]) -> dict[Node, int]:
    """The branches on compile-time parameters around a node, each with its side."""
    found: dict[Node, int] = {}
    while node.parent is not None:
        if node.parent in chosen:
            found[node.parent] = node.branch
        node = node.parent
    return found


def standing(facts: Facts) -> list[Access]:
    """Accesses that no compile-time flag can take out; all when every one can be."""
    chosen = {branch.node for branch in branches(facts)}
    return [a for a in facts.accesses if not flagged(a.node, chosen)] or [*facts.accesses]


def _holding(facts: Facts, condition: str, side: int) -> list[tuple[str, int]]:
    """What a side of a branch says: its condition, what that denies, and where it holds, all that
    it joins."""
    found = [(condition, side)]
    for value, held in found:
        made = facts.graph.producer(value)
        if made is None or len(found) > 16:
            continue
        if made.op.kind == OpKind.NOT:
            found.append((made.op.inputs[0], 1 - held))
        elif made.op.kind == OpKind.AND and held == 0:
            found += [(one, 0) for one in made.op.inputs]
    return found


def one_side(facts: Facts, nodes: list[Node], chosen: set[Node]) -> set[str]:
    """Conditions of branches that all nodes stand on the same side of; empty when there are
    none."""
    asked: dict[tuple[str, int], set[str]] = {}
    told = []
    for node in nodes:
        around = flagged(node, chosen)
        sides = {
            (str(facts.values.expr(value)), held): b
            for b, side in around.items()
            for value, held in _holding(facts, b.op.inputs[0], side)
        }
        told.append(set(sides))
        for key, branch in sides.items():
            asked.setdefault(key, set()).add(branch.op.inputs[0])
    shared = set.intersection(*told) if told else set()
    return {value for key in shared for value in asked[key]}
