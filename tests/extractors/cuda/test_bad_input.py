"""Whatever a file holds, the reader ends, says what it left out, and invents nothing."""

from __future__ import annotations

import builtins
import random
from typing import Any

import pytest

from extractors.cuda import grammar
from extractors.cuda.read import MAX_BYTES, read_cuda
from kb.analysis.facts import Facts
from kb.errors import InputError
from kb.ir import kernel_ops
from kb.ir_text import parse, to_text
from kb.ir_verify import verify
from kb.ops import OpKind
from tests.extractors.cuda.samples import SAMPLES


def check(text: str) -> int:
    """Read a text; every kernel that it gives is well formed. Their number."""
    found = read_cuda(text, "k.cu")
    for kernel in found.kernels:
        assert verify(kernel) == ()
        assert parse(to_text(kernel)) == kernel
        assert Facts(kernel).types is not None
    return len(found.kernels)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_truncated(name: str) -> None:
    text = SAMPLES[name]
    assert check(text) == 1
    for end in range(0, len(text), max(1, len(text) // 12)):
        check(text[:end])


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_tokens_dropped_and_doubled(name: str) -> None:
    rng = random.Random(name)
    words = SAMPLES[name].split(" ")
    for _ in range(10):
        changed = list(words)
        place = rng.randrange(len(changed))
        changed[place : place + 1] = rng.choice(([], [changed[place]] * 2, ["}"], ["("]))
        check(" ".join(changed))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("\x00\x01\xff" * 100, id="binary"),
        pytest.param("__global__", id="one word"),
        pytest.param("__global__ void k(", id="open bracket"),
        pytest.param("__global__ void k() { if (", id="open body"),
        pytest.param('__global__ void k() { asm("', id="open string"),
        pytest.param("#if\n#elif\n#else\n#else\n#endif\n#endif\n#define\n#undef", id="directives"),
        pytest.param("__global__ void k(float* x) { x[0] = two<>(); }", id="no template argument"),
        pytest.param(
            "__global__ void k(unsigned* x, unsigned long p) {\n  unsigned v;\n"
            '  asm volatile("ld.global.L2::cache_hint.u32 %0, [%1];" : "=r"(v) : "l"(p));\n'
            "  x[0] = v;\n}\n",
            id="no cache policy",
        ),
        pytest.param("#define f(x f(x\n__global__ void k() { f(1); }", id="malformed macro"),
        pytest.param(
            "#define a b\n#define b a\n__global__ void k(int*p) { p[0] = a; }", id="cycle"
        ),
    ],
)
def test_odd_texts(text: str) -> None:
    check(text)


@pytest.mark.parametrize(
    "inner",
    [
        pytest.param("(" * 3000 + "1" + ")" * 3000, id="brackets"),
        pytest.param("-" * 3000 + "1", id="signs"),
        pytest.param("x[" * 1500 + "0" + "]" * 1500, id="subscripts"),
        pytest.param("+".join(["n"] * 3000), id="long sum"),
        pytest.param("n ? 1 : " * 1500 + "0", id="choices"),
    ],
)
def test_deep_expressions(inner: str) -> None:
    assert check(f"__global__ void k(float* x, int n) {{ x[0] = {inner}; }}") <= 1


def test_deep_blocks() -> None:
    text = "__global__ void k(float* x, int n) {" + "if (n) {" * 1500 + "x[0] = 1;" + "}" * 1501
    found = read_cuda(text, "k.cu")
    (kernel,) = found.kernels
    assert verify(kernel) == ()
    assert [op.kind for op in kernel_ops(kernel)] == [OpKind.OPAQUE, OpKind.RETURN]
    assert any("nests too deeply" in note.message for note in found.diagnostics)


def test_a_macro_that_doubles_itself_stays_bounded() -> None:
    lines = ["#define m0 n + n"] + [f"#define m{i} m{i - 1} + m{i - 1}" for i in range(1, 40)]
    text = "\n".join(lines) + "\n__global__ void k(float* x, int n) { x[0] = m39; }"
    check(text)


def test_helpers_that_call_each_other_stay_bounded() -> None:
    text = (
        "__device__ int a(int n);\n__device__ int b(int n) { return a(n) + a(n); }\n"
        "__device__ int a(int n) { return b(n) + b(n); }\n"
        "__global__ void k(int* x, int n) { x[0] = a(n); }"
    )
    assert check(text) == 1


def test_helpers_that_double_stay_bounded() -> None:
    text = "__device__ int f0(int n) { return n + 1; }\n"
    text += "\n".join(
        f"__device__ int f{i}(int n) {{ return f{i - 1}(n) * f{i - 1}(n + {i}); }}"
        for i in range(1, 15)
    )
    assert check(text + "\n__global__ void k(int* x, int n) { x[0] = f14(n); }") == 1


def test_a_kernel_too_large_is_one_opaque_operation() -> None:
    text = "__global__ void k(float* x) {\n" + "x[0] = x[1] * 2.f;\n" * 3000 + "}"
    found = read_cuda(text, "k.cu")
    assert [op.kind for op in kernel_ops(found.kernels[0])] == [OpKind.OPAQUE, OpKind.RETURN]
    assert any("more than" in note.message for note in found.diagnostics)


def test_a_file_too_large_is_refused() -> None:
    with pytest.raises(InputError, match="at most"):
        read_cuda("// " + "x" * MAX_BYTES, "k.cu")


def test_without_tree_sitter_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name.startswith("tree_sitter"):
            raise ImportError(f"No module named {name!r}")
        return plain(name, *rest, **named)

    grammar._parser.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match="tree-sitter") as caught:
        read_cuda("__global__ void k() {}", "k.cu")
    assert "tilelore[cuda-source]" in caught.value.hint
    monkeypatch.undo()
    grammar._parser.cache_clear()
