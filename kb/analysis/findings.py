"""What a reader of a kernel should know: parameters without effect, padding that falsifies a
reduction, narrow sums."""

from __future__ import annotations

from collections.abc import Iterator

from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.parameters import parameters_of
from kb.evidence import Finding, Severity
from kb.knowledge import ParameterRole
from kb.ops import OpKind

_NEUTRAL = {
    OpKind.REDUCE_MAX: frozenset({"neg_inf"}),
    OpKind.REDUCE_MIN: frozenset({"pos_inf"}),
    OpKind.REDUCE_SUM: frozenset({"zero"}),
}
_NARROW = frozenset({"f16", "bf16", "f8e4m3", "f8e5m2"})


def findings_of(facts: Facts) -> tuple[Finding, ...]:
    """Findings of the program itself, by line."""
    found = [*_unused(facts), *_padding(facts), *_narrow(facts)]
    return tuple(sorted(found, key=lambda f: (f.lines, f.rule, f.message)))


def _unused(facts: Facts) -> Iterator[Finding]:
    """A compile-time parameter without use still gives one compilation per value."""
    line = facts.kernel.entry.span.line
    kept = {str(op.op.attribute("what")) for op in facts.graph.of(OpKind.OPAQUE)}
    for fact in parameters_of(facts):
        if fact.role is not ParameterRole.UNUSED or fact.kind == "tensor":
            continue
        if any(fact.name in what for what in kept):
            continue
        constexpr = fact.kind == "constexpr"
        yield Finding(
            rule="unused-parameter",
            severity=Severity.WARNING if constexpr else Severity.NOTE,
            message=f"{fact.name} is never read"
            + (", yet every value of it is compiled anew" if constexpr else ""),
            lines=((line, line),),
            fix=f"remove {fact.name} from the parameters and from the launch",
        )


def _padding(facts: Facts) -> Iterator[Finding]:
    """A tile padded with another number than the neutral element reaches a reduction as it is."""
    for node in facts.reductions:
        neutral = _NEUTRAL.get(OpKind(node.op.kind))
        if neutral is None:
            continue
        value = facts.graph.through(node.op.inputs[0], VIEWS | CASTS)
        made = facts.graph.producer(value)
        access = facts.access(made) if made is not None else None
        if (
            access is None
            or access.is_store
            or access.padding in ("", "undetermined", "value")
            or access.padding in neutral
        ):
            continue
        if access.mask is None and access.node.op.operand("padding") is None:
            continue
        read = access.padding.replace("_", " ")
        reduction = node.op.kind.replace("reduce_", "")
        yield Finding(
            rule="padding-not-neutral",
            severity=Severity.WARNING,
            message=f"lanes outside the array read as {read} and enter a {reduction}",
            lines=tuple(sorted({access.node.lines, node.lines})),
            fix=f"pad with {next(iter(neutral)).replace('_', ' ')}",
        )


def _narrow(facts: Facts) -> Iterator[Finding]:
    """A product that accumulates in less than 32 bits."""
    for product in facts.contractions:
        dtype = facts.types.dtype(product.result)
        if dtype in _NARROW and _carried(facts, product):
            yield Finding(
                rule="narrow-accumulator",
                severity=Severity.WARNING,
                message=f"partial sums of a matrix product are kept in {dtype}",
                lines=(product.lines,),
                fix="start the accumulator as 32-bit floats and narrow it before the store",
            )


def _carried(facts: Facts, product: Node) -> bool:
    return product.loop is not None and any(
        facts.graph.rests_on(c.next, product) for loop in facts.loops for c in loop.carried
    )
