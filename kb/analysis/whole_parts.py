"""Numbers that must divide each other, sizes that must be those of an array, and what a kernel
asserts, as constraints."""

from __future__ import annotations

from collections.abc import Iterator

from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.flags import unless
from kb.analysis.graph import Lines, Node
from kb.analysis.parameters import roles_of
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.knowledge import ParameterRole
from kb.ops import COMPARISONS, OpKind
from kb.space import Constraint, implied

_SIGNS = {
    OpKind.EQ: "==", OpKind.NE: "!=", OpKind.LT: "<", OpKind.LE: "<=",
    OpKind.GT: ">", OpKind.GE: ">=",
}  # fmt: skip
KNOWN = frozenset({
    AtomKind.PARAMETER, AtomKind.EXTENT, AtomKind.FLOOR_DIV, AtomKind.CEIL_DIV, AtomKind.MOD,
    AtomKind.MINIMUM, AtomKind.MAXIMUM,
})  # fmt: skip
"""What the expressions of constraints can speak of."""

_OF_LAUNCH = {
    **{f"threads({axis})": f"block_{name}" for axis, name in enumerate("xyz")},
    **{f"blocks({axis})": f"grid[{axis}]" for axis in range(3)},
}
"""What a kernel reads of its launch, by the words for it."""

MAX_PARTS = 32
"""Conditions of one assertion that are told one by one."""


def asserted(facts: Facts) -> Iterator[Constraint]:
    """What the kernel asserts on every path, in the words of its parameters."""
    for node in facts.graph.of(OpKind.STATIC_ASSERT, OpKind.DEVICE_ASSERT):
        if facts.guards(node):
            continue
        pending = [node.op.operand("condition")]
        for value in pending:
            test = facts.graph.producer(value)
            if test is not None and test.op.kind == OpKind.AND and len(pending) < MAX_PARTS:
                pending.extend(test.op.inputs)
            elif test is not None and test.op.kind in COMPARISONS:
                sides = [facts.values.expr(v) for v in test.op.inputs[:2]]
                atoms = [atom for side in sides for atom in side.atoms()]
                if atoms and all(a.kind in KNOWN | {AtomKind.BLOCKS} for a in atoms):
                    yield implied(
                        f"{_bare(sides[0])} {_SIGNS[OpKind(test.op.kind)]} {_bare(sides[1])}",
                        "the kernel asserts it",
                        "check it before the launch, where the message can say more",
                        node.lines,
                    )


def _bare(side: Expr) -> str:
    """The text of a side in the words of a launch; the brackets of a lone remainder are not needed
    there."""
    atom = side.atom
    alone = atom is not None and atom.kind in (AtomKind.MOD, AtomKind.FLOOR_DIV)
    text = atom.text[1:-1] if atom is not None and alone else str(side)
    for of_kernel, of_launch in _OF_LAUNCH.items():
        text = text.replace(of_kernel, of_launch)
    return text


def told(side: Expr) -> bool:
    return all(atom.kind in KNOWN for atom in side.atoms())


def shared_heads(facts: Facts) -> Iterator[Constraint]:
    """An index divided by the quotient of two numbers: so many of the first share one of the
    second, which must divide it."""
    for node in facts.graph.of(OpKind.FLOOR_DIV):
        shared = facts.values.expr(node.op.inputs[1]).atom
        if shared is None or shared.kind is not AtomKind.FLOOR_DIV:
            continue
        count, of = shared.args[0].atom, shared.args[1].atom
        if count is None or of is None or count == of:
            continue
        if count.kind is AtomKind.PARAMETER and of.kind is AtomKind.PARAMETER:
            yield implied(
                f"{count.text} % {of.text} == 0",
                f"as many of {count.text} share one of {of.text} as the quotient says; with a rest "
                "the last ones would take one past the end",
                "check it before the launch",
                node.lines,
            )


def divided_by(facts: Facts) -> Iterator[Constraint]:
    """Numbers that are handed over to divide elements by on every path: a temperature. What a sum
    is divided by is a count, and what one is divided by, unless it scales elements as they were
    loaded."""
    divisions = facts.graph.of(OpKind.DIV)
    roles = roles_of(facts) if divisions else {}
    for node in divisions:
        value, by = node.op.inputs[:2]
        divisor = facts.values.expr(by).atom
        if divisor is None or divisor.kind is not AtomKind.PARAMETER:
            continue
        flags = unless(facts, node)
        if len(flags) < len(facts.guards(node)):
            continue
        if roles.get(divisor.value) not in (ParameterRole.SCALE, ParameterRole.SCALAR):
            continue
        summed = any(facts.graph.rests_on(value, one) for one in facts.reductions)
        if not summed and (facts.values.literal(value) is None or _scales(facts, node)):
            without = "".join(f"{one} or " for one in flags)
            yield implied(
                f"{without}{divisor.text} != 0",
                f"the kernel divides by {divisor.text}",
                "refuse zero before the launch, or leave the division out where it is not wanted",
                node.lines,
            )


def _scales(facts: Facts, quotient: Node) -> bool:
    """Whether elements that were loaded are multiplied by a quotient, as they stand."""
    users = facts.graph.users(quotient.result)
    return any(
        facts.held_loads(side)
        for user in users
        if user.op.kind == OpKind.MUL
        for side in user.op.inputs[:2]
        if side != quotient.result
    )


def sizes_of_arrays(facts: Facts) -> Iterator[Constraint]:
    """Sizes that are passed beside the array whose tiles they count: told of the first array."""
    told: set[str] = set()
    for access in facts.accesses:
        shape = access.shape or facts.types.shape(access.value)
        if access.mode is not Mode.TILE or access.array is None or len(shape) != len(access.index):
            continue
        if facts.guards(access.node):
            continue  # another branch may take another axis
        for axis, (extent, index) in enumerate(zip(shape, access.index, strict=True)):
            size = _counted(facts, access, index, extent)
            if size is not None and size.text not in told:
                told.add(size.text)
                yield implied(
                    f"{size.text} == {access.array}.shape[{axis}]",
                    f"tiles of axis {axis} of {access.array} are counted by `{size.text}`, which "
                    "is passed beside the array",
                    "take the extent of the array itself",
                    _divided(facts, size, extent) or access.node.lines,
                )


def _counted(facts: Facts, access: Access, index: Expr, extent: str) -> Atom | None:
    """The size whose tiles of an extent the index goes through."""
    highs = {
        facts.values.expr(loop.induction).atom: facts.values.expr(loop.high)
        for loop in facts.loops
        if loop.induction is not None and loop.high is not None and access.node.inside(loop.node)
    }
    for atom in index.atoms():
        within = highs.get(atom)
        for one in (atom, *(within.atoms() if within is not None else ())):
            if one.kind is AtomKind.CEIL_DIV and str(one.args[1]) == extent:
                size = one.args[0].atom
                if size is not None and size.kind is AtomKind.PARAMETER:
                    return size
    return None


def _divided(facts: Facts, size: Atom, extent: str) -> Lines | None:
    """Where a size is divided by the extent of a tile."""
    for node in facts.graph.of(OpKind.CEIL_DIV, OpKind.FLOOR_DIV):
        atom = facts.values.expr(node.result).atom
        if atom is not None and _is_quotient(atom, size, extent):
            return node.lines
    return None


def _is_quotient(atom: Atom, size: Atom, extent: str) -> bool:
    return (
        atom.kind is AtomKind.CEIL_DIV and atom.args[0].atom == size and str(atom.args[1]) == extent
    )
