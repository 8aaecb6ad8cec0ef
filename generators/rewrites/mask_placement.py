"""mask_placement: the mask of a streamed score only from the first iteration that needs it, or in
every one."""

from __future__ import annotations

from collections.abc import Sequence

from generators.rewrites.base import NotApplicable, Rewrite, Site, change_functions, refuse_mixed
from generators.rewrites.edit import Step
from generators.rewrites.mask_bounds import BoundWriter, Limits, limits_of
from kb.analysis.graph import COPIES, Node
from kb.analysis.idioms import Mask, masks
from kb.analysis.loops import Loop
from kb.analysis.symbolic import AtomKind, Expr, floor_div
from kb.ir import Kernel
from kb.ops import EFFECT, OpKind

BRANCH = "single loop + iv>=bound branch (compiler splits)"
EVERY = "mask every iteration"
_ORDERED = frozenset({OpKind.GE, OpKind.GT, OpKind.LE, OpKind.LT})
_AND = frozenset({OpKind.AND, OpKind.BIT_AND})


class MaskPlacement(Rewrite):
    """Before the first tile with a column beyond its limits a mask adds nothing, so it may be left
    out there.

    Source: cuTile compiler, loop_split: one branch that compares the loop variable with an outer
    value.
    """

    axis = "mask_placement"
    values = (BRANCH, EVERY)

    def apply(self, kernel: Kernel, value: str) -> Kernel:
        """Put the mask under a branch on the loop variable, or take the branch away."""
        seen: list[str] = []
        change = _to_every if value == EVERY else _to_branch
        changed = change_functions(kernel, lambda site: change(site, seen))
        if changed is None and not seen:
            raise NotApplicable(
                "no mask on scores in a loop.", where=f"{kernel.entry.span} {kernel.name}",
                hint="The axis speaks of masks that a loop evaluates.",
            )  # fmt: skip
        if changed is not None and value in seen:
            refuse_mixed(kernel, value)
        return changed or kernel


def _masks(site: Site) -> list[tuple[Mask, Loop]]:
    found = []
    for mask in masks(site.facts):
        loop = site.facts.loop(mask.node.loop)
        if loop is not None and site.owns(mask.node):
            found.append((mask, loop))
    return found


def _guard(site: Site, mask: Mask, loop: Loop) -> tuple[Node, Node] | None:
    """The branch around a mask that compares the loop variable, and the comparison."""
    facts = site.facts
    for branch in facts.guards(mask.node):
        if not branch.inside(loop.node):
            continue
        for node in facts.graph.upstream(branch.op.inputs[0], lambda n: n.op.kind not in _AND):
            if node.op.kind in _ORDERED and any(
                facts.values.expr(v).has(AtomKind.INDUCTION) for v in node.op.inputs[:2]
            ):
                return branch, node
    return None


# -- to: every iteration


def _to_every(site: Site, seen: list[str]) -> bool:
    touched = False
    for mask, loop in _masks(site):
        guard = _guard(site, mask, loop)
        if guard is None:
            seen.append(EVERY)
            continue
        branch, test = guard
        if site.draft.producer(test.result) is None:
            continue  # went with another mask under the same branch
        _understood(site, test, limits_of(site, loop, mask), loop)
        _take_away(site, branch, test)
        touched = True
    return touched


def _understood(site: Site, test: Node, limits: Limits, loop: Loop) -> None:
    """Raises NotApplicable unless the branch is taken exactly where the mask does something."""
    facts = site.facts
    left, right = test.op.inputs[:2]
    ahead = test.op.kind == OpKind.GE and facts.graph.through(left, COPIES) == loop.induction
    expected = set()
    for limit in (*limits.tails, *limits.causal):
        from_ = facts.values.expr(limit.extent) if limit.extent is not None else limit.first
        expected.add(floor_div(from_, limits.width))
    if not ahead or not set(_leaves(facts.values.expr(right))) <= expected:
        raise NotApplicable(
            "the bound of the branch is not the first tile that the mask touches.",
            where=str(test.op.span), hint="Such a mask may be left out on purpose.",
        )  # fmt: skip


def _leaves(expr: Expr) -> list[Expr]:
    """The alternatives of a choice, and the arguments of a minimum, in all depths."""
    found: list[Expr] = []
    pending = [expr]
    while pending:
        current = pending.pop()
        atom = current.atom
        if atom is not None and atom.kind in (AtomKind.CHOICE, AtomKind.MINIMUM):
            pending.extend(atom.args)
        else:
            found.append(current)
    return found


def _take_away(site: Site, branch: Node, test: Node) -> None:
    draft = site.draft
    step = draft.producer(branch.result)
    if step is None or len(step.blocks[1].steps) != 1:
        raise NotApplicable(
            "the other side of the branch does something else.", where=str(branch.op.span),
            hint="Leave the other side empty.",
        )  # fmt: skip
    if step.operand("condition") == test.result:
        draft.splice(step, step.blocks[0])
        return
    for both in draft.users(test.result):
        if both.kind in _AND:
            other = next(v for v in both.inputs if v != test.result)
            draft.replace_uses(both.result, other)


# -- to: a branch on the loop variable


def _to_branch(site: Site, seen: list[str]) -> bool:
    todo: list[tuple[Mask, Loop]] = []
    for mask, loop in _masks(site):
        if _guard(site, mask, loop) is None:
            todo.append((mask, loop))
        else:
            seen.append(BRANCH)
    if not todo:
        return False
    if len({id(loop) for _, loop in todo}) != len(todo):
        raise NotApplicable(
            "several masks in one loop.", where=str(todo[1][0].node.op.span),
            hint="Combine them into one mask.",
        )  # fmt: skip
    for mask, loop in todo:
        bound = BoundWriter(site, limits_of(site, loop, mask)).write()
        _put_under(site, mask, loop, bound)
    return True


def _put_under(site: Site, mask: Mask, loop: Loop, bound: str) -> None:
    draft = site.draft
    applied = draft.producer((mask.combined or mask.node).result)
    around = draft.producer(loop.node.result)
    if applied is None or around is None or loop.induction is None:
        raise NotApplicable("the mask is applied by a helper.", where=str(mask.node.op.span))
    body = around.blocks[-1]
    branch = applied.block.owner
    under = branch is not None and branch.block is body and branch.kind == OpKind.IF
    if under and branch is not None and _nothing_else(site, mask, applied, branch):
        cursor = draft.before(branch)
        test = cursor.binary(OpKind.GE, loop.induction, bound)
        both = cursor.binary(OpKind.AND, branch.operands[0][1], test)
        branch.set_operand("condition", both)
    elif under or applied.block is body:
        _wrap(site, mask, applied, (loop.induction, bound))
    else:
        raise NotApplicable(
            "the mask is applied under several branches.", where=str(applied.span),
            hint="Apply it in the loop, or under one branch.",
        )  # fmt: skip


def _nothing_else(site: Site, mask: Mask, applied: Step, branch: Step) -> bool:
    """Whether a branch makes the mask, applies it and hands the score on, masked or as it was."""
    kept = _kept(site, mask, applied)
    inner = _only_for(site, applied, kept)
    then, other = (block.steps for block in branch.blocks)
    alone = [id(step) for step in then[:-1]] == [id(step) for step in (*inner, applied)]
    return (
        alone
        and len(other) == 1
        and then[-1].inputs == [applied.result]
        and other[0].inputs == [kept]
    )


def _wrap(site: Site, mask: Mask, applied: Step, compared: Sequence[str]) -> None:
    """Move what makes the mask, and what applies it, under a branch."""
    draft = site.draft
    kept = _kept(site, mask, applied)
    inner = _only_for(site, applied, kept)
    cursor = draft.before(inner[0] if inner else draft.start(applied))
    test = cursor.binary(OpKind.GE, *compared)
    cursor = draft.before(applied)
    result = applied.results[0].name
    hint = result.rpartition(".")[0]
    branch = cursor.branch(test, [(hint or "score", result, kept)])
    draft.replace_uses(
        result, branch.result, [s for s in draft.users(result) if s.block.owner is not branch]
    )
    for step in (*inner, applied):
        draft.move(step, branch.blocks[0].steps[-1])


def _kept(site: Site, mask: Mask, applied: Step) -> str:
    """The score or probability that the mask acts on."""
    facts = site.facts
    if mask.combined is not None:
        made = mask.node
        return next(v for v in applied.inputs if not facts.graph.rests_on(v, made))
    sides = [applied.operand("x") or "", applied.operand("y") or ""]
    literals = [facts.values.literal(facts.graph.plain(side)) for side in sides]
    return sides[0] if literals[1] is not None else sides[1]


def _only_for(site: Site, applied: Step, kept: str) -> list[Step]:
    """Steps right in front of `applied` that nothing but it needs, without those of the kept
    operand."""
    draft = site.draft
    inside = {id(applied)}
    found: list[Step] = []
    for step in reversed(applied.block.steps[: applied.index]):
        readers = [r for value in step.results for r in draft.users(value.name)]
        lifted = [draft.lifted(reader, applied.block) for reader in readers]
        alone = bool(readers) and all(id(holder) in inside for holder in lifted)
        if not alone or step.result == kept or not _pure(step):
            break
        inside.add(id(step))
        found.append(step)
    return found[::-1]


def _pure(step: Step) -> bool:
    if step.kind != OpKind.IF:
        return EFFECT.get(step.kind) is None
    return all(_pure(s) or s.kind == OpKind.YIELD for block in step.blocks for s in block.steps)
