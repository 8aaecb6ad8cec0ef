"""Programs that nest or grow far are bounded: detection ends, and never with a Python error."""

from __future__ import annotations

import pytest

from extractors.detect import detect
from extractors.modules import ModuleText
from extractors.read import read

HEAD = "import triton\nimport triton.language as tl\n"
KERNEL = "@triton.jit\ndef k(y, n, T: tl.constexpr):\n    v = n\n"
EXITS = "@triton.jit\ndef h(v, n):\n" + "".join(
    f"    if n == {i}:\n        return v * {i}\n" for i in range(120)
)

TEXTS = {
    "quotients": HEAD + KERNEL + "    v = v // T\n" * 300,
    "sums": HEAD + KERNEL + "".join(f"    v = v + (n * {i}) // 7\n" for i in range(250)),
    "early returns": HEAD + EXITS + "    return v\n" + KERNEL + "    v = h(v, n)\n",
    "branches": HEAD
    + KERNEL
    + "".join("    " * (i + 1) + f"if n > {i}:\n" for i in range(40))
    + "    " * 41
    + "v = v + 1\n",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_detection_ends(text: str) -> None:
    (kernel,) = read(ModuleText("", "kernel.py", text + "    tl.store(y, v)\n")).kernels
    assert detect(kernel).operations > 10
