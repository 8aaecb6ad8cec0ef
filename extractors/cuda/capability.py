"""Launches, and branches of the preprocessor, that the compute capability of the device chooses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extractors.cuda import nodes as n
from extractors.cuda.block_size import followed, place
from extractors.cuda.launch_site import LaunchSite
from extractors.cuda.library import Library
from kb.evidence import AxisKind, Decision, Lines
from kb.ir import Kernel, kernel_ops

_ATTRIBUTES = frozenset({"cudaDevAttrComputeCapabilityMajor", "cudaDevAttrComputeCapabilityMinor"})
_MAJOR, _MINOR = "major", "minor"
_PROPERTIES = frozenset({"cudaDeviceProp", "cudaGetDeviceProperties", "getCurrentDeviceProperties",
                         "getDeviceProperties"})  # fmt: skip
"""How the device says its compute capability, and the structs that keep it. Source: CUDA Runtime
API, device attributes and properties; PyTorch, ATen/cuda/CUDAContext.h."""


def by_capability(launches: Sequence[LaunchSite], library: Library) -> Iterator[Decision]:
    """Conditions around launches that rest on the compute capability of the device: a function
    that asks for it, or its properties."""
    lines: set[Lines] = set()
    for site in launches:
        for test in site.tests:
            asked = {place(one.at) for one in site.behind(test)
                     if isinstance(one, n.Expr) and _asks(one, site, library)}  # fmt: skip
            if asked:
                _, places = followed(test, site.names)
                lines |= {place(test.at), *places, *asked}
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


def _asks(node: n.Expr, site: LaunchSite, library: Library) -> bool:
    """Whether an expression of the host is the compute capability, or a call that asks for it."""
    if isinstance(node, n.Name):
        answer = site.names.get(f"&{node.text}")
        return answer is not None and _tells(answer)
    if isinstance(node, n.Field) and node.name in (_MAJOR, _MINOR):
        return any(_keeps(one) or _gives(one, library) for one in site.behind(node.operand))
    if not isinstance(node, n.Call) or not isinstance(node.function, n.Name):
        return False
    return any(_tells(one.body) for one in library.functions(node.function.text))


def _tells(made: object) -> bool:
    """Whether code asks for the compute capability."""
    inside = list(n.inside(made))
    if any(isinstance(one, n.Name) and one.text in _ATTRIBUTES for one in inside):
        return True
    fields = any(isinstance(one, n.Field) and one.name in (_MAJOR, _MINOR) for one in inside)
    return fields and any(map(_keeps, inside))


def _gives(node: object, library: Library) -> bool:
    """Whether a function is called that gives the properties of a device."""
    if not isinstance(node, n.Call) or not isinstance(node.function, n.Name):
        return False
    found = library.functions(node.function.text)
    return any(one.result.name.rpartition("::")[2] in _PROPERTIES for one in found)


def _keeps(node: object) -> bool:
    """Whether the properties of a device are asked for, or a struct of them stands here."""
    name = node.type.name if isinstance(node, n.Variable) else ""
    if isinstance(node, n.Call) and isinstance(node.function, n.Name):
        name = node.function.text
    return name.rpartition("::")[2] in _PROPERTIES
