"""Inlining keeps spans, joins early returns, takes branches that a constant decides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kb.analysis.inline import inline
from kb.ir import Span, alpha_digest, kernel_ops, walk
from kb.ops import OpKind
from tests.kb.analysis.support import pointer, stored, tile

EARLY = """
def pick(a, b, flag):
    if flag:
        return a
    c = a + b
    return c
"""
NESTED = """
def pick(a, b, flag):
    if flag > 3:
        if flag > 5:
            return a
        else:
            return b
    return a + b
"""
LOOPED = """
def first(x, n):
    for i in range(n):
        if x > i:
            return i
    return n
"""
STAGED = """
@triton.jit
def step(v, STAGE: tl.constexpr):
    if STAGE == 1:
        v = v + 1
    else:
        v = v * 2
    return v
"""


def test_spans_survive() -> None:
    found = tile(
        "x, T: Int",
        "ct.store(x, index=(0,), tile=twice(ct.bid(0)))",
        helpers="def twice(a):\n    return a * 2\n",
    )
    assert str(stored(found)) == "2 * block(0)"
    product = found.graph.of(OpKind.MUL)[0]
    assert product.lines == (5, 5)
    assert not found.graph.of(OpKind.CALL)


@pytest.mark.parametrize(("helper", "branches"), [(EARLY, 1), (NESTED, 2)], ids=["guard", "nested"])
def test_early_returns_become_branches(helper: str, branches: int) -> None:
    found = tile(
        "x, f: int", "ct.store(x, index=(0,), tile=pick(ct.bid(0), ct.bid(1), f))", helpers=helper
    )
    assert len(found.graph.of(OpKind.IF)) == branches
    returns = [op for op in walk(found.graph.function.body) if op.kind == OpKind.RETURN]
    assert len(returns) == 1
    assert found.stores[0].value in found.graph.defs


def test_a_return_in_a_loop_keeps_the_call() -> None:
    found = tile("x, n: int", "ct.store(x, index=(0,), tile=first(ct.bid(0), n))", helpers=LOOPED)
    assert len(found.graph.of(OpKind.CALL)) == 1
    assert [h.name for h in found.program.helpers] == ["first"]


def test_branches_on_bound_constants_are_taken() -> None:
    found = pointer(
        "x", "v = step(tl.program_id(0), 1)", "tl.store(x, step(v, STAGE=2))", helpers=STAGED
    )
    assert not found.graph.of(OpKind.IF)
    assert str(stored(found)) == "2 * block(0) + 2"


@pytest.mark.parametrize(
    ("parts", "loops", "place"),
    [
        pytest.param("len(b)", 0, "3 * block(0) + 4 * block(1)", id="the parts of a group"),
        pytest.param("2", 1, None, id="a number stays a loop"),
    ],
)
def test_a_loop_over_the_parts_of_a_group_is_written_out(
    parts: str, loops: int, place: str | None
) -> None:
    found = pointer(
        "x",
        "tl.store(x + offset((tl.program_id(0), tl.program_id(1)), (3, 4)), 0)",
        helpers="@triton.jit\ndef offset(a, b):\n    at = 0\n"
        f"    for i in tl.static_range({parts}):\n        at += a[i] * b[i]\n    return at\n",
    )
    assert len(found.graph.of(OpKind.FOR)) == loops
    assert place is None or str(found.stores[0].index[0]) == place


@pytest.mark.parametrize(
    ("asserted", "loops"),
    [
        pytest.param("tl.static_assert(len(a) == len(b))", 0, id="as many parts"),
        pytest.param("tl.static_assert(len(b) > 1)", 1, id="how many is not said"),
    ],
)
def test_a_group_that_is_handed_in_has_as_many_parts_as_is_asserted(
    asserted: str, loops: int
) -> None:
    found = pointer(
        "x, steps: tl.constexpr",
        "tl.store(x + offset((tl.program_id(0), tl.program_id(1)), steps), 0)",
        helpers=f"@triton.jit\ndef offset(a, b):\n    {asserted}\n    at = 0\n"
        "    for i in tl.static_range(len(b)):\n        at += a[i] * b[i]\n    return at\n",
    )
    assert len(found.graph.of(OpKind.FOR)) == loops
    if not loops:
        assert str(found.stores[0].index[0]) == "block(0) * steps.0 + block(1) * steps.1"


def test_values_stay_unique() -> None:
    found = tile(
        "x", "a = twice(ct.bid(0))", "b = twice(a)", "ct.store(x, index=(0,), tile=b)",
        helpers="def twice(a):\n    b = a * 2\n    return b\n",
    )  # fmt: skip
    names = [r.name for op in walk(found.graph.function.body) for r in op.results]
    assert len(names) == len(set(names))
    assert str(stored(found)) == "4 * block(0)"


def test_a_helper_of_another_file_stands_where_it_is_called() -> None:
    kernel = tile(
        "x, T: Int",
        "ct.store(x, index=(0,), tile=twice(ct.bid(0)))",
        helpers="def twice(a):\n    return a * 2\n",
    ).kernel
    away = tuple(replace(h, span=replace(h.span, path="other.py")) for h in kernel.helpers)
    (call,) = [op for op in kernel_ops(kernel) if op.kind == OpKind.CALL]
    (product,) = [
        op for op in kernel_ops(inline(replace(kernel, helpers=away))) if op.kind == "mul"
    ]
    assert product.span == call.span


@pytest.mark.parametrize(
    ("body", "stands"),
    [
        pytest.param("    return a * 2\n", True, id="an expression"),
        pytest.param(
            "    for i in range(3):\n        a = a * 2\n    return a\n", False, id="loops"
        ),
    ],
)
def test_what_a_helper_without_loops_does_stands_at_its_call_too(body: str, stands: bool) -> None:
    found = tile(
        "x, T: Int",
        "ct.store(x, index=(0,), tile=twice(ct.bid(0)))",
        helpers=f"def twice(a):\n{body}",
    )
    (call,) = [op for op in kernel_ops(found.kernel) if op.kind == OpKind.CALL]
    (product,) = found.graph.of(OpKind.MUL)
    assert product.op.span.call == (call.span.line if stands else 0)


def test_lines_of_parameters_are_notes() -> None:
    kernel = tile("x, T: Int", "ct.store(x, index=(0,), tile=ct.bid(0))").kernel
    entry = kernel.entry
    assert all(p.span.line > 0 for p in entry.parameters)
    bare = replace(entry, parameters=tuple(replace(p, span=Span(0)) for p in entry.parameters))
    assert bare == entry
    assert alpha_digest(replace(kernel, entry=bare)) == alpha_digest(kernel)
