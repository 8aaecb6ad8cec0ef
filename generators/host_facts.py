"""What a host of a kernel that was read binds, under the names of its caller."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from generators.array_shapes import ArrayShapes
from generators.host_text import rebuilt
from generators.launch_point import LaunchPoint
from generators.lower.roads import Block
from generators.lower.views import LoweredParameter
from kb.dsl.model import Document
from kb.errors import CannotEmit
from kb.families.contract import ScalarContract
from kb.ir import Kernel
from kb.ops import OpKind
from kb.planner.expressions import names, parse, to_text
from kb.planner.nodes import Expr, Literal, Name

_TENSOR = re.compile(r"^[A-Za-z_]\w*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRequest:
    """What a host contract is made from: the inlined program, its launch at one tuning point, its
    lowered parameters.
    """

    document: Document
    program: Kernel
    lowered: tuple[LoweredParameter, ...]
    point: LaunchPoint
    function: str
    summary: str
    warps: int
    stages: int | None
    shared_bytes: int
    dialect: str = "triton"
    options: tuple[tuple[str, str], ...] = ()
    blocks: tuple[Block, ...] = ()


class HostFacts:
    """What every part of a host contract looks up."""

    def __init__(self, request: HostRequest) -> None:
        self.request = request
        self.shapes = ArrayShapes(request.program)
        self.bound = dict(request.point.bindings)
        self.host_names = {
            name: self._host_name(name) for name in (*self.shapes.inputs, *self.shapes.outputs)
        }
        self.factors = {
            name: self.shapes.flat(name) for name in self.shapes.outputs if self.is_flat(name)
        }
        self._bind_flat_extents()
        self.scalars = tuple(self._scalars())

    def _host_name(self, parameter: str) -> str:
        """What the caller passes for an array, else the parameter in small letters."""
        text = "" if self.is_flat(parameter) else self.bound.get(parameter, "")
        return text if _TENSOR.match(text) else parameter.lower()

    def is_flat(self, parameter: str) -> bool:
        store = self.shapes.stored.get(parameter)
        return store is not None and store.kind == OpKind.SCATTER

    def to_host(self, expression: str) -> str:
        """The expression with array parameters under their host names."""

        def change(expr: Expr) -> Expr:
            if isinstance(expr, Name):
                return Name(self.host_names.get(expr.name, expr.name))
            return rebuilt(expr, change)

        return to_text(change(parse(expression)))

    def _bind_flat_extents(self) -> None:
        """Extents of flat buffers that no launch binds: the elements that the tiles of an axis
        cover.
        """
        for factors in self.factors.values():
            for outer, inner in pairwise(factors):
                (name,) = factor_between(outer.strides, inner.strides)
                array, axis = inner.like
                extent = f"{array}.shape[{axis}]"
                whole = f"cdiv({extent}, {inner.tile}) * {inner.tile}"
                self.bound.setdefault(name, extent if inner.tile == "1" else whole)

    def _scalars(self) -> Iterator[ScalarContract]:
        """Free names of the bindings, with the defaults that their use shows."""
        known = (
            set(self.host_names)
            | set(self.host_names.values())
            | set(dict(self.request.point.values))
        )
        kinds = {p.name: p for p in self.request.program.entry.parameters}
        seen: set[str] = set()
        for parameter, text in self.bound.items():
            if parameter in self.host_names:
                continue
            for name in sorted(names(parse(text))):
                head = name.partition(".")[0]
                if head in known or head in seen or head in kinds or parameter not in kinds:
                    continue
                seen.add(head)
                flag = text == head and kinds[parameter].annotation == "bool"
                yield _scalar(head, parse(text), flag=flag, feeds=parameter)

    def resolved(self, expr: Expr) -> Expr:
        """Compile-time parameters, and scalars that are constants, replaced by what the launch
        passes for them.
        """
        static = {p.name for p in self.request.lowered if p.source == "constexpr"}
        static |= {n for n in self.runtime() if isinstance(parse(self.binding(n)), Literal)}

        def change(node: Expr) -> Expr:
            if isinstance(node, Name) and node.name in static and node.name in self.bound:
                if node.name in dict(self.request.point.values):
                    return node
                return parse(self.bound[node.name])
            return rebuilt(node, change)

        return change(expr)

    def runtime(self) -> set[str]:
        return {p.name for p in self.request.lowered if p.source == "scalar"}

    def binding(self, name: str) -> str:
        text = self.bound.get(name)
        if text is None:
            raise CannotEmit(
                f"no launch says what `{name}` is.",
                hint="Add it to the launch of the design space.",
            )
        return text

    def grid(self) -> tuple[str, ...]:
        grid = list(self.request.point.grid)
        while len(grid) > 1 and grid[-1] == "1":
            grid.pop()
        return tuple(grid)


def _scalar(name: str, expr: Expr, *, flag: bool, feeds: str) -> ScalarContract:
    """A scalar of the caller: a flag is on, and one compared with None may be left out."""
    if flag:
        return ScalarContract(
            name=name, annotation="bool", default=True, has_default=True, meaning=f"sets {feeds}"
        )
    if _compared_with_none(expr, name):
        default = f"without it, {to_text(expr)}".replace(
            " if " + name + " == None else " + name, ""
        )
        return ScalarContract(
            name=name, annotation="float | None", default=None, has_default=True, meaning=default
        )
    return ScalarContract(name=name, annotation="float", meaning=f"gives {feeds}")


def _compared_with_none(expr: Expr, name: str) -> bool:
    return f"{name} == None" in to_text(expr) or f"{name} != None" in to_text(expr)


def factor_between(outer: tuple[str, ...], inner: tuple[str, ...]) -> tuple[str, ...]:
    """Factors of `outer` that `inner` does not have.

    Raises CannotEmit when that is not exactly one: the buffer is then not a tensor in row-major
    order.
    """
    rest = list(outer)
    for name in inner:
        if name in rest:
            rest.remove(name)
    if len(rest) != 1:
        raise CannotEmit("a flat output is not laid out in row-major order.")
    return tuple(rest)
