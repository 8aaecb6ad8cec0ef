"""The emitter: what it writes is the same program, also where variables collide."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from extractors.modules import ModuleText
from extractors.read import read
from generators.emit import emit_program
from kb.errors import CannotEmit
from kb.ir import Kernel

HEAD = "import triton\nimport triton.language as tl\n"

SOURCES = {
    "sum": "s = 0\nfor i in range(n):\n    s = s + i\nreturn s + m",
    "swap": "a = n\nb = m\nfor i in range(3):\n    a, b = b, a\nreturn a * 10 + b",
    "parameter rebound in a loop": (
        "t = 0\nfor i in range(3):\n    t = t + n\n    n = n + i\nreturn t + n"
    ),
    "parameter shadowed": "for i in range(2):\n    m = n + i\n    n = m\nreturn n",
    "branch": "x = n\nif n > m:\n    x = n - m\nelse:\n    y = m\n    x = y - n\nreturn x * 2",
    "nested": (
        "t = 0\nfor i in range(n):\n    for j in range(i):\n        if j > 1:\n"
        "            t = t + j\n        else:\n            t = t - i\nreturn t"
    ),
    "while": "i = 0\ns = 1\nwhile i < n:\n    s = s * 2\n    i = i + 1\nreturn s",
    "break": "s = 0\nfor i in range(n):\n    if i > m:\n        break\n    s = s + i\nreturn s",
    "continue": (
        "s = 0\nfor i in range(n):\n    if i == m:\n        continue\n    s = s + i\nreturn s"
    ),
    "early return": "if n > m:\n    return n\nreturn m * 2",
    "both sides return": (
        "if n > 1:\n    if m > 1:\n        return 1\n    else:\n        return n\nreturn 3"
    ),
    "both sides leave a loop": (
        "s = 0\nfor i in range(n):\n    s = s + i\n    if i > m:\n        break\n"
        "    else:\n        s = s + 2\n        continue\nreturn s"
    ),
    "elif": "if n > 4:\n    x = 1\nelif n > 2:\n    x = 2\nelse:\n    x = 3\nreturn x",
    "conditional expression": "x = n if n > m else m\nreturn x - (n if n < m else m)",
    "precedence": "return (n - (m - 1)) * 2 - -n // (m + 1) % 7 + (n << 1 | m) ** 2",
    "comparison chain": "x = 1 < n < 5\nreturn x and not (n == m)",
    "value kept across an overwrite": "a = n + 1\nb = a\na = a * m\nreturn a - b",
    "constant carried": "x = 0\ny = 0\nfor i in range(n):\n    y = x\n    x = 5\nreturn x * 10 + y",
}
POINTS = tuple(itertools.product((0, 1, 3, 6), (0, 2, 5)))


def program(body: str) -> Kernel:
    """A kernel whose helper `f` has the body."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    helper = f"{HEAD}@triton.jit\ndef f(n, m):\n{lines}\n"
    text = f"{helper}@triton.jit\ndef k(p, n, m):\n    tl.store(p, f(n, m))\n"
    (found,) = read(ModuleText("", "k.py", text)).kernels
    return found


def function(source: str) -> Callable[[int, int], object]:
    """The helper as plain Python: it uses nothing but Python operators."""
    marker = source.index("def f(")
    end = source.find("@triton.jit", marker)
    scope: dict[str, Callable[[int, int], object]] = {"tl": _Range}  # type: ignore[dict-item]
    exec(source[marker : end if end > 0 else None], scope)
    return scope["f"]


class _Range:
    range = range
    static_range = range


@pytest.mark.parametrize("name", SOURCES)
def test_the_written_program_computes_the_same(name: str) -> None:
    body = SOURCES[name]
    written = function(emit_program(program(body), "triton"))
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    original = function(f"def f(n, m):\n{lines}\n")
    assert [written(n, m) for n, m in POINTS] == [original(n, m) for n, m in POINTS]


def again(text: str) -> str:
    """Read what was written and write it once more."""
    (kernel,) = read(ModuleText("", "k.py", text)).kernels
    return emit_program(kernel, "triton")


@pytest.mark.parametrize("name", SOURCES)
def test_writing_settles(name: str) -> None:
    once = again(emit_program(program(SOURCES[name]), "triton"))
    assert again(once) == once


def test_emission_is_deterministic() -> None:
    kernel = program(SOURCES["nested"])
    assert emit_program(kernel, "triton") == emit_program(kernel, "triton")


def test_an_opaque_operation_is_refused_at_its_line() -> None:
    with pytest.raises(CannotEmit) as caught:
        emit_program(program("return tl.invented(n)"), "triton")
    assert "k.py:5" in caught.value.text


def test_an_operation_of_another_dialect_is_refused_by_name() -> None:
    body = "    x = ct.load(A, (0,), (16,))\n    ct.store(A, (0,), x)\n"
    text = f"import cuda.tile as ct\n@ct.kernel\ndef k(A):\n{body}"
    (kernel,) = read(ModuleText("", "k.py", text)).kernels
    with pytest.raises(CannotEmit, match="load_tile"):
        emit_program(kernel, "triton")


FACTORY = """import cuda.tile as ct

def make(blocks):
    @ct.kernel(occupancy=blocks)
    def k(a):
        ct.store(a, index=(0,), tile=ct.load(a, index=(0,), shape=(16,)))
    return k
"""


def test_an_option_that_the_host_computes_is_a_constant_to_set() -> None:
    program = read(ModuleText("", "k.py", FACTORY)).kernels[0]
    text = emit_program(program, "cutile")
    assert "OCCUPANCY = None" in text
    assert "@ct.kernel(occupancy=OCCUPANCY)" in text
    again = read(ModuleText("", "k.py", text.replace("OCCUPANCY = None", "OCCUPANCY = 6")))
    assert again.kernels[0].entry.options == (("occupancy", 6),)


def test_a_plain_function_of_compile_time_functions_stays_plain() -> None:
    text = (
        f"{HEAD}def plain(o):\n    return o.value\n\n"
        "@tl.constexpr\ndef f(n):\n    return plain(n) + 1\n\n"
        "@triton.jit\ndef k(p, B: tl.constexpr):\n    m: tl.constexpr = f(B)\n    tl.store(p, m)\n"
    )
    (found,) = read(ModuleText("", "k.py", text)).kernels
    written = emit_program(found, "triton")
    assert "\n\n\ndef plain(o):" in written
    assert "@tl.constexpr\ndef f(n):" in written


def test_a_turned_tile_is_written_as_it_was_read() -> None:
    text = emit_program(program("return tl.dot(n, (n + m).T)"), "triton")
    assert "(n + m).T" in text
    assert again(text) == text


def test_what_a_branch_keeps_is_bound_in_the_order_of_the_program() -> None:
    kept = "y = n\nx = m\nif n > 2:\n    y = n * 2\n    x = m + y\nreturn x - y"
    text = emit_program(program(kept), "triton")
    assert "    y = n\n    x = m\n    if n > 2:" in text
    assert "else" not in text
    both = "if n > 2:\n    y = n * 2\n    x = m + y\nelse:\n    y = n\n    x = m\nreturn x - y"
    text = emit_program(program(both), "triton")
    assert "    else:\n        x = m\n        y = n\n" in text


def test_a_builtin_whose_arguments_are_named() -> None:
    body = (
        "t: tl.constexpr = tl.core.get_int_dtype(bitwidth=n.dtype.primitive_bitwidth, signed=True)"
    )
    text = emit_program(program(f"{body}\nreturn n.to(t, bitcast=True)"), "triton")
    assert "tl.core.get_int_dtype(n.dtype.primitive_bitwidth, True)" in text
