"""math_approximation: exponentials of base e, or of base two with log2(e) folded into the scale."""

from __future__ import annotations

import math

from generators.rewrites.base import NotApplicable, Rewrite, Site, change_functions
from generators.rewrites.edit import Step
from generators.rewrites.exponents import Scaled, only_exponents, terms_of
from kb.analysis.exponentials import Exponential, Statistic, is_log2e
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.ir import Kernel
from kb.ops import CONTRACTIONS, READS, REDUCTIONS, OpKind

NATURAL = "exp"
FOLDED = "exp2 with log2e folded into the scale"
LOG2_E = math.log2(math.e)
_LOOPS = frozenset({OpKind.FOR, OpKind.WHILE})
_TILES = READS | CONTRACTIONS | {OpKind.ARANGE, OpKind.FULL, OpKind.ZEROS, OpKind.ONES}


class MathApproximation(Rewrite):
    """exp(c s - m) = exp2(c log2(e) s - m log2(e)): running maxima are held in the base of the
    exponential.

    A log-sum-exp that is stored follows: its base is that of the exponential. So does the flag that
    flushes denormals where a dialect has it on one of the two only; a new exp2 flushes when
    anything else in the program does.
    Source: NVIDIA, PTX ISA, ex2.approx: the hardware's exponential has base two.
    """

    axis = "math_approximation"
    values = (NATURAL, FOLDED)
    follows = frozenset({"statistic_encoding", "denormal_mode"})

    def apply(self, kernel: Kernel, value: str) -> Kernel:
        """Change the base of every exponential of the softmax."""
        seen: list[str] = []
        if value == NATURAL:
            others = _flushes(kernel, but=OpKind.EXP2)
            changed = change_functions(kernel, lambda site: _to_natural(site, seen, others))
        else:
            flushes = _flushes(kernel)
            changed = change_functions(kernel, lambda site: _to_base_two(site, seen, flushes))
        if changed is None and not seen:
            raise NotApplicable(
                f"no exponential that {value} could replace.",
                where=f"{kernel.entry.span} {kernel.name}",
                hint="The axis speaks of a softmax whose scores are multiplied by a scale.",
            )
        return changed or kernel


def _own(site: Site, *, base2: bool) -> list[Exponential]:
    return [e for e in site.facts.exponentials if e.base2 is base2 and site.owns(e.node)]


def _flushes(kernel: Kernel, but: OpKind | None = None) -> bool:
    """True when an operation of the program, except those of one kind, flushes denormals: a new
    exp2 then does, too."""
    facts = Facts(kernel)
    nodes = (node for node in facts.graph.nodes if node.op.kind != but)
    return any(facts.flag(node.op.operand("ftz")) for node in nodes)


def _refuse_lost_flags(site: Site, powers: list[Exponential], others: bool) -> None:
    """Base e must not lose what base two says and the way back could not tell."""
    if site.knows(OpKind.EXP, "ftz") or not site.knows(OpKind.EXP2, "ftz"):
        return
    for power in powers:
        if site.facts.flag(power.node.op.operand("ftz")) is not others:
            raise NotApplicable(
                "exp cannot say whether it flushes denormals, and its exp2 says otherwise than "
                "the rest of the program.",
                where=str(power.node.op.span),
                hint="Give every operation that may flush the same flag (axis denormal_mode).",
            )


def _refuse_loaded(exponentials: list[Exponential]) -> None:
    for e in exponentials:
        if e.origin is Statistic.LOADED:
            raise NotApplicable(
                "the base of the statistic that is loaded was chosen by the kernel that stored it.",
                where=str(e.node.op.span), hint="Change the storing kernel and this one together.",
            )  # fmt: skip


# -- to: base e


def _to_natural(site: Site, seen: list[str], others: bool) -> bool:
    powers = _own(site, base2=True)
    if _own(site, base2=False):
        seen.append(NATURAL)
    folded = [e for e in powers if _log2e_products(site.facts, e.node.op.inputs[0])]
    if not folded:
        return False  # powers of two that are wanted as such
    _refuse_loaded(powers)
    _refuse_lost_flags(site, powers, others)
    terms = terms_of(site, powers)
    if terms.bare or len(folded) != len(powers):
        where = _place(site, terms.bare[0]) if terms.bare else str(powers[0].node.op.span)
        raise NotApplicable(
            "an exponent is held in base two without a factor log2(e) that could be taken away.",
            where=where, hint="Multiply everything that is added to the scores by log2(e).",
        )  # fmt: skip
    only_exponents(site, terms, powers)
    for leaf in terms.scaled:
        _unfold(site, leaf)
    _rebase(site, powers, OpKind.EXP, flush=False)
    return True


def _unfold(site: Site, leaf: Scaled) -> None:
    """Take log2(e) out of the scalar of a product, or the product away when it is nothing else."""
    draft = site.draft
    step = _step(site, leaf.node)
    if _is_factor(site.facts, leaf.factor):
        draft.take_over(step.result, leaf.tile)
        return
    factors = _log2e_products(site.facts, leaf.factor)
    if len(factors) != 1 or not site.owns(factors[0]):
        raise NotApplicable(
            "the factor log2(e) stands elsewhere than the exponentials.",
            where=str(leaf.node.op.span),
            hint="Fold it into the scale in the function that takes exponentials.",
        )
    plain = _other(site.facts, factors[0])
    direct = leaf.factor == factors[0].result
    draft.replace_uses(factors[0].result, plain, [step] if direct else None)


def _log2e_products(facts: Facts, value: str) -> list[Node]:
    """Products with log2(e) that a value is computed from."""
    return [
        node
        for node in facts.graph.roots(value, OpKind.MUL)
        if any(_is_factor(facts, v) for v in node.op.inputs[:2])
    ]


def _is_factor(facts: Facts, value: str) -> bool:
    literal = facts.values.literal(value)
    return is_log2e(literal) and isinstance(literal, float) and literal > 0


def _other(facts: Facts, node: Node) -> str:
    return next(v for v in node.op.inputs[:2] if not _is_factor(facts, v))


# -- to: base two


def _to_base_two(site: Site, seen: list[str], flushes: bool) -> bool:
    natural = _own(site, base2=False)
    if any(_log2e_products(site.facts, e.node.op.inputs[0]) for e in _own(site, base2=True)):
        seen.append(FOLDED)
    if not natural:
        return False
    _refuse_loaded(natural)
    terms = terms_of(site, natural)
    factors = {leaf.factor for leaf in terms.scaled}
    if len(factors) != 1:
        raise NotApplicable(
            "the scores are not multiplied by one scale that could take log2(e) in.",
            where=str(natural[0].node.op.span),
            hint="Multiply the scores by a scale, 1.0 if there is none.",
        )
    only_exponents(site, terms, natural)
    _fold(site, factors.pop(), [leaf.node for leaf in terms.scaled])
    for value in terms.bare:
        _raise(site, value)
    _rebase(site, natural, OpKind.EXP2, flush=flushes and site.knows(OpKind.EXP2, "ftz"))
    return True


def _raise(site: Site, value: str) -> None:
    """Multiply what is added to the scores by log2(e), too."""
    made = site.draft.producer(value)
    if made is None:
        raise NotApplicable(
            "a helper makes what is added to the scores.", where=_place(site, value)
        )
    readers = site.draft.users(value)
    cursor = site.draft.after(made)
    raised = cursor.binary(
        OpKind.MUL, value, cursor.constant(LOG2_E, "LOG2_E"), made.results[0].hint
    )
    site.draft.replace_uses(value, raised, readers)


def _place(site: Site, value: str) -> str:
    node = site.facts.graph.producer(value)
    return str(node.op.span if node is not None else site.function.span)


def _makes_tiles(step: Step) -> bool:
    """True for an operation that makes a tile, and for a loop or a branch around one."""
    inner = (s for block in step.blocks for s in block.steps)
    return step.kind in _TILES or step.kind in _LOOPS or any(s.kind in _TILES for s in inner)


def _fold(site: Site, factor: str, products: list[Node]) -> None:
    """Multiply the scale by log2(e) once, before the first tile is made."""
    draft = site.draft
    made = draft.producer(factor)
    first = next((s for s in draft.body.steps if _makes_tiles(s)), None)
    if first is None or (made is not None and made.block is not draft.body):
        raise NotApplicable(
            "the scale is made inside a loop.", where=str(products[0].op.span),
            hint="Make the scale before the loop.",
        )  # fmt: skip
    if made is not None and made.index >= first.index:
        cursor = draft.after(made)
    else:
        cursor = draft.before(draft.statement(first))
    constant = cursor.constant(LOG2_E, "LOG2_E")
    scaled = cursor.binary(OpKind.MUL, factor, constant, factor.rpartition(".")[0] or factor)
    draft.replace_uses(factor, scaled, [_step(site, node) for node in products])


# -- both


def _rebase(site: Site, exponentials: list[Exponential], kind: OpKind, *, flush: bool) -> None:
    """Exchange the exponentials, and the logarithms of their sums."""
    draft = site.draft
    old, new = (OpKind.LOG, OpKind.LOG2) if kind == OpKind.EXP2 else (OpKind.LOG2, OpKind.LOG)
    nodes = [e.node for e in exponentials]
    for node in nodes:
        step = _step(site, node)
        step.rename_kind(kind)
        if not site.knows(kind, "ftz"):
            step.drop_operand("ftz")
        if flush:
            step.set_operand("ftz", draft.before(step).constant(True))
    for node in site.facts.graph.of(old):
        below = site.facts.graph.roots(node.op.inputs[0], *REDUCTIONS)
        if site.owns(node) and any(
            site.facts.graph.rests_on(n.op.inputs[0], p) for n in below for p in nodes
        ):
            _step(site, node).rename_kind(new)


def _step(site: Site, node: Node) -> Step:
    step = site.draft.producer(node.result)
    if step is None:
        raise NotApplicable("the operation is made by a helper.", where=str(node.op.span))
    return step
