"""The text form of a tile program: readable, complete, refused with a place and a hint."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings

from kb.errors import InputError, SyntaxProblem
from kb.ir import Function, Kernel, Op, Parameter, ParameterKind, Region, Span, Value
from kb.ir_parse import MAX_NESTING, MAX_OPS
from kb.ir_text import literal_text, parse, program_digest, to_text
from kb.ir_verify import verify
from tests.strategies import kernels

SAMPLE = """\
dialect cutile
kernel scale(x: array, n: scalar<i32> = 4, TILE: constexpr) options(occupancy = 2) @"k.py":1-9 {
    %zero.1 = const(value = 0.0) @2
    %i.2 = block_id(axis %n) : scalar<i32> @3:8
    %acc.3, %m.4 = for(iterable %i.2, init %zero.1, init %n) : tile<f32>[TILE, 2 * N]@shared, _ \
@4:4-6 do (%j.5, %acc.6: tile<f32>[16], %m.7) {
        %b.8 = if(condition %j.5) @"h.py":5-7 then {
            yield(b %acc.6)
        } else {
            %o.9 = opaque(read %acc.6, what = "f\\x7b\\x7d \\"q\\" #") @6
            yield(b %o.9)
        }
        yield(acc %b.8, m %m.7)
    }
    %v.10 = call(x %acc.3, callee = "helper")
    return()
}
helper helper(x) undecorated {
    return(value %x)
}"""


def program(body: str) -> str:
    return f"kernel k(x) {{\n{body}\n}}"


@given(kernels())
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_text_loses_nothing(kernel: Kernel) -> None:
    text = to_text(kernel)
    again = parse(text)
    assert again == kernel
    assert repr(again) == repr(kernel), (
        "equality takes 1 for True and 0.0 for -0.0; the repr does not"
    )
    assert to_text(again) == text


@given(kernels())
@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_programs_are_well_formed_and_embed_in_braces(kernel: Kernel) -> None:
    assert verify(kernel) == ()
    text = to_text(kernel)
    assert text.count("{") == text.count("}")
    depth = 0
    for line in text.split("\n"):
        depth += line.endswith("{") - line.lstrip().startswith("}")
        assert depth >= 0
    assert depth == 0
    assert text.splitlines() == text.split("\n")
    text.encode()


def test_the_sample_is_written_as_it_was_read() -> None:
    assert to_text(parse(SAMPLE)) == SAMPLE
    assert verify(parse(SAMPLE)) == ()


def test_spans_types_and_options_may_be_left_out() -> None:
    kernel = parse(program("%a.1 = add(lhs %x, rhs %x) # a comment }\nreturn()"))
    add = Op("add", (("lhs", "x"), ("rhs", "x")), (), (Value("a.1"),), (), Span(0))
    body = Region((), (add, Op("return")))
    parameter = Parameter("x", ParameterKind.UNTOLD)
    assert kernel == Kernel(Function("k", (parameter,), body, Span(0)))


def test_layout_does_not_matter() -> None:
    assert parse(" ".join(SAMPLE.split())) == parse(SAMPLE)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "none"),
        (True, "true"),
        (1, "1"),
        (-7, "-7"),
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (1e-5, "1e-05"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (math.nan, "nan"),
        (2**300, hex(2**300)),
        ('a\n"{\\', '"a\\n\\"\\x7b\\\\"'),
        ("\ud800\u2028é", '"\\ud800\\u2028é"'),
    ],
)
def test_literals(value: int | float | str | None, text: str) -> None:
    assert literal_text(value) == text
    constant = parse(program(f"%a.1 = const(value = {text})")).entry.body.ops[0].attribute("value")
    assert repr(constant) == repr(value)


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        ("", Span(0)),
        ("@7", Span(7, 0, 7, "k.py")),
        ("@7:3", Span(7, 3, 7, "k.py")),
        ("@7:3-9", Span(7, 3, 9, "k.py")),
        ("@7-0", Span(7, 0, 0, "k.py")),
        ("@0", Span(0, 0, 0, "k.py")),
        ('@"":7', Span(7, 0, 7)),
        ('@"a b.py":7:1', Span(7, 1, 7, "a b.py")),
    ],
    ids=str,
)
def test_spans(span: str, expected: Span) -> None:
    text = f'kernel k() @"k.py":1-9 {{\n    return(){" " if span else ""}{span}\n}}'
    kernel = parse(text)
    assert kernel.entry.body.ops[0].span == expected
    assert to_text(kernel) == text


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("", "1:1", "expected `kernel`, found the end"),
        ("dialect a\nfoo", "2:1", "expected `kernel`, found `foo`"),
        ("kernel k(x {", "1:12", "expected `,`"),
        ("kernel k(x: tensor) {}", "1:13", "kind of a parameter"),
        (program("%a.1 = add(lhs 1)"), "2:16", "expected a value"),
        (program("%a.1 = add lhs"), "2:12", "expected `(`"),
        (program("%a.1 = const(value = foo)"), "2:22", "expected a literal"),
        (program("%a.1 = const(value = 1x)"), "2:22", "expected a literal"),
        (program('%a.1 = const(value = "\\q")'), "2:22", "unknown escape"),
        (program('%a.1 = const(value = "open)'), "2:22", "expected a literal"),
        (program("%a.1 = const() : tiles<f32>"), "2:18", "expected a type"),
        (program("%a.1 = const() : tile<f32>[]"), "2:28", "expected an extent"),
        (program("%a.1 = const() : tile<f32>@sharp"), "2:28", "unknown memory space"),
        (program("%a.1 = const() : _, _"), "2:1", "2 types for 1 results"),
        (program("return() @x"), "2:10", "expected a span"),
        (program("for() do (x) {"), "2:11", "expected a value"),
        ("kernel k() {\n  return()", "2:11", "ends inside a region"),
        ("kernel k() {} extra", "1:15", "expected `helper`"),
        (program(f"%a.1 = const(value = {'9' * 5000})"), "2:22", "too long"),
        (program("if(condition %x) {\n" * 300), f"{MAX_NESTING + 2}:", "nest deeper"),
        (program("return()\n" * (MAX_OPS + 1)), f"{MAX_OPS + 2}:1", f"more than {MAX_OPS}"),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else None,
)
def test_what_is_not_a_program_is_refused_with_its_place(
    text: str, where: str, message: str
) -> None:
    with pytest.raises(SyntaxProblem) as caught:
        parse(text, where="t.tlp")
    assert caught.value.where.startswith(f"t.tlp:{where}")
    assert message in caught.value.message
    assert caught.value.hint


def test_what_cannot_be_read_back_is_not_written() -> None:
    op = Op("if", (("condition", "x"),), regions=(Region(), Region()))
    for _ in range(MAX_NESTING):
        op = Op("if", (("condition", "x"),), regions=(Region((), (op,)), Region()))
    parameter = Parameter("x", ParameterKind.UNTOLD)
    with pytest.raises(InputError, match="nest deeper"):
        to_text(Kernel(Function("k", (parameter,), Region((), (op,)), Span(1))))
    many = Region((), (Op("return"),) * (MAX_OPS + 1))
    with pytest.raises(InputError, match="operations"):
        to_text(Kernel(Function("k", (), many, Span(1))))


def test_the_digest_is_that_of_the_text() -> None:
    kernel = parse(SAMPLE)
    assert program_digest(kernel) == program_digest(parse(to_text(kernel)))
    assert program_digest(kernel) != program_digest(parse(SAMPLE.replace("@2\n", "@3\n")))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%a.1 = add(lhs %b.2, rhs %x)\n%b.2 = neg(x %x)\nreturn()", "reads %b.2 as lhs"),
        ("%a.1 = neg(x %x)\n%a.1 = neg(x %x)\nreturn()", "defines %a.1 again"),
        ("%x = neg(x %x)\nreturn()", "defines %x again"),
        ("return()\n%a.1 = neg(x %x)", "operations follow it"),
        ("%a.1 = neg(x %x)", "ends without a terminator"),
        ("yield(a %x)", "write return"),
        ("break()", "break outside a loop"),
        ("frobnicate()\nreturn()", "no operation frobnicate"),
        ('%a.1 = call(x %x, callee = "h")\nreturn()', "h, which is no helper"),
        (
            "if(condition %x) {\n%a.1 = neg(x %x)\nyield()\n} else {\nyield()\n}\nreturn(v %a.1)",
            "reads %a.1",
        ),
        (
            "%r.1 = if(condition %x) {\nyield()\n} else {\nyield(r %x)\n}\nreturn()",
            "0 values, 1 are taken",
        ),
        ("if(condition %x) {\nyield()\n}\nreturn()", "1 regions, 2 are wanted"),
        ("if() {\nyield()\n} else {\nyield()\n}\nreturn()", "if has no condition"),
        ("for(iterable %x) {\nyield()\n}\nreturn()", "0 arguments, 1 are wanted"),
        ("for(iterable %x, init %x) (%j.1, %a.2) {\nyield(a %a.2)\n}\nreturn()", "has 0 results"),
        ("for(iterable %x) (%j.1) {\ncontinue(a %j.1)\n}\nreturn()", "1 values, 0 are taken"),
        ("while() {\nyield()\n} do {\nyield()\n}\nreturn()", "0 values, 1 are taken"),
        ("if(condition %x) {\nreturn()\n} else {\nreturn()\n}\nreturn()", "operations follow it"),
    ],
    ids=lambda value: value.split("\n")[0],
)
def test_verify_tells_what_is_wrong(body: str, message: str) -> None:
    problems = verify(parse(program(body)))
    assert any(message in str(problem) for problem in problems), [str(p) for p in problems]


@pytest.mark.parametrize(
    "body",
    [
        "if(condition %x) {\nreturn()\n} else {\nreturn()\n}",
        "for(iterable %x) (%j.1) {\nif(condition %j.1) {\nbreak()\n} else {\nyield()\n}\nyield()\n}"
        "\nreturn()",
        "while() {\nyield(condition %x)\n} do {\ncontinue()\n}\nreturn()",
    ],
    ids=["both sides return", "break in a branch", "while"],
)
def test_verify_accepts_early_exits(body: str) -> None:
    assert verify(parse(program(body))) == ()


def test_verify_checks_calls() -> None:
    text = 'kernel k(x) {\ncall(y %x, y %x, callee = "h")\nreturn()\n}\n'
    text += "helper h(x, z = 1) {\nreturn()\n}"
    messages = {problem.message for problem in verify(parse(text))}
    assert messages == {"h is given y twice.", "h has no parameter y.", "h is not given x."}


def test_a_helper_without_a_file_is_not_in_the_file_before_it() -> None:
    text = 'kernel k() @"k.py":1-2 {\nreturn() @2\n}\nhelper h() @3-4 {\nreturn() @4\n}'
    program = parse(text)
    assert [function.span.path for function in program.functions] == ["k.py", ""]
    assert parse(to_text(program)) == program
