"""What stands in a kernel itself, or in the function that is all that it calls."""

from __future__ import annotations

from functools import lru_cache

from kb.analysis.facts import Facts
from kb.ir import Op, walk
from kb.ops import OpKind


def own(facts: Facts, op: Op) -> bool:
    """Whether a step is the kernel's own; one of a helper that it calls is not, but for the helper
    that holds its whole body."""
    span = op.span
    return not span.call or (span.call == _body(facts) and not span.via)


@lru_cache(maxsize=2)
def _body(facts: Facts) -> int:
    """The line that calls the whole body of a kernel, 0 where it does more than that."""
    ops = walk(facts.given.entry.body)
    steps = [op for op in ops if op.kind != OpKind.RETURN and op.span.line > 0]
    (line, *more) = {op.span.call for op in steps if op.span.call} or {0}
    return 0 if more or any(line not in (op.span.call, op.span.line) for op in steps) else line
