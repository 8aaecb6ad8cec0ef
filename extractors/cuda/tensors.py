"""What the host does to the tensors of a launch, asks of them, and hands over twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extractors.cuda import nodes as n
from extractors.cuda.block_size import place
from extractors.cuda.checks import Check
from extractors.cuda.given import given
from extractors.cuda.launch_site import POINTERS, LaunchSite, Names
from extractors.cuda.library import Library
from extractors.cuda.matched import MATCHERS, linked
from extractors.cuda.render import shown
from kb.evidence import AxisKind, Decision, Lines

_PACKED = frozenset({"is_contiguous", "IsContiguous"})
_MADE = "contiguous"
_STRIDE = "stride"
"""Methods that tell whether a tensor's elements follow each other, give one whose do, and tell how
far elements lie apart. Source: PyTorch, ATen/core/TensorBase.h; Apache TVM FFI, tensor.h."""

_STRIDES = "with_strides"
"""What tells that a tensor that must be like something need not be compact. Source: SGLang,
sgl_kernel/tensor.h."""

_ADDRESS = frozenset({"uintptr_t", "std::uintptr_t", "size_t", "std::size_t", "uint64_t"})

_COMPACT, _STRIDED, _ALIGNED = (
    "contiguous tensors demanded", "strides demanded", "aligned pointers demanded",
)  # fmt: skip


def layouts(launches: Sequence[LaunchSite], path: str) -> Iterator[Decision]:
    """Tensors that the host copies where their elements do not follow each other, and checks of
    contiguity, strides and alignment that stand before a launch; strides that are handed over in
    the file of the kernel."""
    found: dict[str, set[Lines]] = {}
    asked: set[Lines] = set()
    for site in launches:
        reached: set[str] = set()
        for node in site.behind(site.arguments):
            if isinstance(node, n.Name):
                reached.add(node.text)
            elif isinstance(node, n.Call) and _is_method(node, _MADE):
                found.setdefault(".contiguous() on host", set()).add(place(node.at))
            elif isinstance(node, n.Call) and _is_method(node, _STRIDE) and node.at.path == path:
                asked.add(place(node.at))
        for check in site.checks:
            demanded = _demanded(check, reached, site.names)
            if demanded:
                found.setdefault(demanded, set()).add(place(check.at))
    for value, lines in found.items():
        yield Decision(
            axis="layout_contract", value=value, lines=tuple(sorted(lines)),
            pattern="host-contiguity-alignment-normalisation", kind=AxisKind.HOST,
        )  # fmt: skip
    if asked:
        yield Decision(
            axis="layout_contract", value="strides as arguments", lines=tuple(sorted(asked)),
            pattern="strides-of-rows-handed-in", kind=AxisKind.HOST,
        )  # fmt: skip


def _is_method(node: object, *names: str) -> bool:
    called = node.function if isinstance(node, n.Call) else None
    return isinstance(called, n.Field) and called.name in names


def _demanded(check: Check, reached: set[str], names: Names) -> str:
    """What a check asks of the layout of a tensor that a launch is given; empty for others."""
    steps = [check.given or (), *(one.words for one in check.handed)]
    ours = reached | {name for step in steps for name, text in step if text in reached}
    inside = list(n.inside(check.condition))
    if not any(isinstance(one, n.Name) and one.text in ours for one in inside):
        return ""
    if any(_is_method(one, *_PACKED) for one in inside):
        return _COMPACT
    asked = [one.name for one in linked(check.condition) if isinstance(one, n.Field)]
    if asked and asked[0] in MATCHERS.values():
        return _STRIDED if _STRIDES in asked else _COMPACT
    for one in inside:
        if isinstance(one, n.Binary) and one.operator == "==":
            sides = (one.left, one.right)
            if any(_is_method(side, _STRIDE) for side in sides):
                units = [side for side in sides if isinstance(side, n.Constant)]
                return _COMPACT if any(side.value == 1 for side in units) else _STRIDED
            if any(_is_rest_ofaddress(side) for side in sides):
                return _ALIGNED
        if (
            isinstance(one, n.Call)
            and isinstance(one.function, n.Name)
            and any(
                isinstance(part, n.Binary) and _is_rest_ofaddress(part)
                for part in n.inside(_closure(one.function, names))
            )
        ):
            return _ALIGNED
    return ""


def _closure(called: n.Name, names: Names) -> n.Lambda | None:
    """What is called when it is written beside the launch."""
    held = names.get(called.text)
    return held if isinstance(held, n.Lambda) else None


def _is_rest_ofaddress(node: n.Expr) -> bool:
    """What is left of an address after whole units of an alignment."""
    if not isinstance(node, n.Binary) or node.operator not in ("%", "&"):
        return False
    return any(
        isinstance(one, n.Cast) and one.type.name in _ADDRESS and not one.type.pointers
        and _is_pointer(one.operand)
        for one in n.inside(node.left)
    )  # fmt: skip


def _is_pointer(node: n.Expr) -> bool:
    return isinstance(node, n.Name | n.Field) or _is_method(node, *POINTERS)


def handed_twice(
    definition: n.Definition, launches: Sequence[LaunchSite], library: Library
) -> Iterator[Decision]:
    """One array for an input and an output of a kernel, in some launch: the same address for a
    pointer to constants and for another one."""
    for site in launches:
        texts: dict[str, list[n.Variable]] = {}
        for one, value in given(definition, site, library):
            if one.type.pointers and not isinstance(value, n.Constant):
                texts.setdefault(shown(address(site, value)), []).append(one)
        for text, handed in texts.items():
            read = [one for one in handed if one.type.const]
            written = [one for one in handed if not one.type.const]
            if text not in ("?", "none") and read and written:
                lines = {place(site.at), place(site.reached)}
                yield Decision(
                    axis="aliasing", value="in place (same array loaded and stored)",
                    pattern="one-tensor-for-input-and-output", lines=tuple(sorted(lines)),
                    kind=AxisKind.DESIGN, subject=f"{read[0].name}, {written[0].name}",
                )  # fmt: skip
                return


def address(site: LaunchSite, given: n.Expr) -> n.Expr:
    """The address that an argument is, in the words of the outermost caller that is known."""
    for level in site.levels:
        if not isinstance(given, n.Name) or given.text not in level.given:
            break
        given = level.given[given.text]
    return given
