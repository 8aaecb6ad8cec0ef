"""What a rule says does not hang on the order that a set happens to have."""

from __future__ import annotations

from extractors.rules.undetermined_padding import UndeterminedPadding
from tests.extractors.rules.support import subject

LOADS = 24
KERNEL = "\n".join(
    [
        "import triton",
        "import triton.language as tl",
        "@triton.jit",
        "def gather(x, out, n, T: tl.constexpr):",
        "    at = tl.arange(0, T)",
        *(f"    v{i} = tl.load(x + {i} * n + at, mask=at < n)" for i in range(LOADS)),
        f"    tl.store(out, tl.sum({' + '.join(f'v{i}' for i in range(LOADS))}, axis=0))",
    ]
)


def test_loads_are_told_in_program_order() -> None:
    found = [finding.lines[0][0] for finding in UndeterminedPadding().find(subject(KERNEL))]
    assert found == list(range(6, 6 + LOADS))
