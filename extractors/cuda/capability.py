"""Launches, and branches of the preprocessor, that the compute capability of the device chooses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from extractors.cuda import nodes as n
from extractors.cuda.block_size import followed, place
from extractors.cuda.library import Library
from kb.evidence import AxisKind, Decision, Lines
from kb.ir import Kernel, kernel_ops

_ATTRIBUTES = frozenset({"cudaDevAttrComputeCapabilityMajor", "cudaDevAttrComputeCapabilityMinor"})
"""Source: CUDA Runtime API, device attributes."""

Names = Mapping[str, n.Expr | n.Variable]


def by_capability(
    launches: Sequence[tuple[Sequence[n.Expr], Names]], library: Library
) -> Iterator[Decision]:
    """Conditions around launches that rest on a function which asks the device for its compute
    capability."""
    lines: set[Lines] = set()
    for tests, names in launches:
        for test in tests:
            for one in n.inside(test):
                made, places = followed(one, names) if isinstance(one, n.Expr) else (None, [])
                if isinstance(made, n.Call) and _asks(made, library):
                    lines |= {place(test.at), *places}
    if lines:
        yield Decision(
            axis="arch_dispatch", value="if capability", pattern="kernel-chosen-by-the-target",
            lines=tuple(sorted(lines)), kind=AxisKind.HOST,
        )  # fmt: skip


def by_compilation(kernel: Kernel, targets: Sequence[Lines]) -> Iterator[Decision]:
    """Code of a kernel or of its helpers in the same file that stands in a branch of the
    preprocessor on the target; `targets` are first and last line of such branches."""
    home = kernel.entry.span
    own: set[Lines] = set()
    for first, last in targets:
        if home.line <= first <= home.lines[1] or _between(kernel, first, last):
            own |= {(first, first), (last, last)}
    if own:
        yield Decision(
            axis="arch_dispatch", value="when compiled", pattern="code-compiled-for-the-target",
            lines=tuple(sorted(own)), kind=AxisKind.HOST,
        )  # fmt: skip


def _between(kernel: Kernel, first: int, last: int) -> bool:
    """Whether a helper of the file, read in place, has operations between two lines; not when the
    kernel itself stands there."""
    home = kernel.entry.span
    if first <= home.line <= last:
        return False
    return any(
        op.span.call and first < op.span.line < last and op.span.path == home.path
        for op in kernel_ops(kernel)
    )


def _asks(call: n.Call, library: Library) -> bool:
    """Whether a function asks for the compute capability."""
    if not isinstance(call.function, n.Name):
        return False
    return any(
        isinstance(one, n.Name) and one.text in _ATTRIBUTES
        for function in library.functions(call.function.text)
        for one in n.inside(function.body)
    )
