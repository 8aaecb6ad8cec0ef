"""The host contract of a kernel that was read: from its launch, its arrays and its constraints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from generators.array_shapes import ArrayShapes
from generators.host_text import folded, rebuilt
from generators.flag_slice import read_without
from generators.launch_point import LaunchPoint
from generators.lower.views import LoweredParameter
from kb.dsl.model import Document
from kb.errors import CannotEmit, ConstraintViolated, TileloreError
from kb.families.contract import (
    Check,
    Constant,
    HostContract,
    OutputContract,
    ScalarContract,
    TensorContract,
)
from kb.ir import Kernel
from kb.ops import OpKind
from kb.planner.expressions import evaluate, names, parse, to_text
from kb.planner.nodes import (
    Attribute,
    Binary,
    BinaryOperator,
    Compare,
    Comparison,
    Expr,
    Index,
    Literal,
    Name,
)
from kb.space import Binding, Constraint

MAX_GRID = 65_535
"""Blocks along the second and third grid axis. Source: CUDA C++ Programming Guide, technical specifications."""

MAX_STAGES = 3
"""Copies of streamed tiles beyond which the loop of attention gains nothing on sm_90."""

_TENSOR = re.compile(r"^[A-Za-z_]\w*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRequest:
    """What a host contract is made from: the inlined program, its launch at one tuning point, its lowered parameters."""

    document: Document
    program: Kernel
    lowered: tuple[LoweredParameter, ...]
    point: LaunchPoint
    function: str
    summary: str
    warps: int
    stages: int | None
    shared_bytes: int
    options: tuple[tuple[str, str], ...] = ()


def host_contract(request: HostRequest) -> HostContract:
    """The contract of the host function.

    Raises CannotEmit when the shape of an output or the value of a parameter cannot be told.
    """
    return _Host(request).contract()


class _Host:
    """Names and expressions of one host function."""

    def __init__(self, request: HostRequest) -> None:
        self.request = request
        self.shapes = ArrayShapes(request.program)
        self.bound = dict(request.point.bindings)
        self.host_names = {
            name: self._host_name(name) for name in (*self.shapes.inputs, *self.shapes.outputs)
        }
        self.factors = {
            name: self.shapes.flat(name)
            for name in self.shapes.outputs
            if self._is_flat(name)
        }
        self._bind_flat_extents()
        self.scalars = tuple(self._scalars())

    def contract(self) -> HostContract:
        """Everything together."""
        request = self.request
        outputs = tuple(map(self._output, self.shapes.outputs))
        return HostContract(
            function=request.function,
            summary=request.summary,
            tensors=tuple(self._tensors()),
            scalars=self.scalars,
            outputs=outputs,
            constants=tuple(self._constants()),
            checks=tuple(self._checks()),
            grid=tuple(self._to_host(axis) for axis in self._grid()),
            bindings=tuple(self._bindings()),
            options=(("num_warps", "NUM_WARPS"), ("num_stages", "num_stages"), *request.options),
            configuration=tuple(self._configuration()),
            empty_when=self._empty(),
        )

    # -- names

    def _host_name(self, parameter: str) -> str:
        """What the caller passes for an array, else the parameter in small letters."""
        text = "" if self._is_flat(parameter) else self.bound.get(parameter, "")
        return text if _TENSOR.match(text) else parameter.lower()

    def _is_flat(self, parameter: str) -> bool:
        store = self.shapes.stored.get(parameter)
        return store is not None and store.kind == OpKind.SCATTER

    def _to_host(self, expression: str) -> str:
        """The expression with array parameters under their host names."""

        def change(expr: Expr) -> Expr:
            if isinstance(expr, Name):
                return Name(self.host_names.get(expr.name, expr.name))
            return rebuilt(expr, change)

        return to_text(change(parse(expression)))

    def _bind_flat_extents(self) -> None:
        """Extents of flat buffers that no launch binds: the elements that the tiles of an axis cover."""
        for factors in self.factors.values():
            for outer, inner in zip(factors, factors[1:], strict=False):
                (name,) = _without(outer.strides, inner.strides)
                array, axis = inner.like
                extent = f"{array}.shape[{axis}]"
                whole = f"cdiv({extent}, {inner.tile}) * {inner.tile}"
                self.bound.setdefault(name, extent if inner.tile == "1" else whole)

    # -- arguments

    def _tensors(self) -> Iterator[TensorContract]:
        first = self.shapes.inputs[0]
        for name in self.shapes.inputs:
            axes = range(self.shapes.ranks.get(name, 0))
            likes = [self.shapes.alike((name, axis)) for axis in axes]
            shape = tuple(
                self._to_host(f"{like[0]}.shape[{like[1]}]")
                if like is not None and like != (name, axis)
                else None
                for axis, like in enumerate(likes)
            )
            yield TensorContract(
                name=self.host_names[name],
                rank=len(shape) or None,
                shape=shape,
                dtype_of=None if name == first else self.host_names[first],
                last_axis_contiguous=False,
                meaning=f"tensor of {len(shape)} axes, any strides",
            )

    def _scalars(self) -> Iterator[ScalarContract]:
        """Free names of the bindings, with the defaults that their use shows."""
        known = set(self.host_names) | set(self.host_names.values()) | set(dict(self.request.point.values))
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

    def _constants(self) -> Iterator[Constant]:
        """Runtime scalars of the kernel, and the number of stages that fits shared memory."""
        for parameter in self.request.lowered:
            if parameter.source == "scalar":
                text = self._binding(parameter.name)
                if text != parameter.name:
                    yield Constant(name=parameter.name, expression=self._to_host(text))
        for factors in self.factors.values():
            for outer, inner in zip(factors, factors[1:], strict=False):
                (name,) = _without(outer.strides, inner.strides)
                if inner.tile != "1":
                    yield Constant(name=name.lower(), expression=self._to_host(self._binding(name)))
        yield Constant(name="num_stages", expression=self._to_host(self._stages()))

    def _stages(self) -> str:
        """As many copies of the streamed tiles as shared memory holds beside the resident ones, three at most."""
        if self.request.stages is not None:
            return str(self.request.stages)
        first = self.shapes.inputs[0]
        parts = [self._bytes(tiles) for tiles in (self.shapes.resident, self.shapes.streamed)]
        if not parts[1]:
            return "1"
        held = f"{self.request.shared_bytes} - {first}.element_size * ({parts[0] or 0})"
        return f"max(1, min({MAX_STAGES}, ({held}) // ({first}.element_size * ({parts[1]}))))"

    def _bytes(self, tiles: tuple[tuple[str, ...], ...]) -> str:
        """Elements of some tiles together."""
        products = [" * ".join(e for e in tile if e != "1") or "1" for tile in tiles]
        return to_text(self._resolved(parse(" + ".join(products)))) if products else ""

    def _configuration(self) -> Iterator[Constant]:
        for name, value in self.request.point.values:
            yield Constant(name=name, expression=str(value))
        yield Constant(name="NUM_WARPS", expression=str(self.request.warps))

    # -- outputs

    def _output(self, name: str) -> OutputContract:
        host = self.host_names[name]
        if name in self.factors:
            return self._flat_output(name)
        axes = self.shapes.shape(name)
        if axes is None:
            raise CannotEmit(
                f"the shape of the output `{name}` cannot be told from its indices.",
                where=str(self.shapes.stored[name].span),
                hint="It needs a tile index that an input shares on every axis.",
            )
        first = axes[0][0]
        dtype = self.host_names[self.shapes.inputs[0]]
        if axes == tuple((first, place) for place in range(self.shapes.ranks[first])):
            like = self.host_names[first]
            return OutputContract(
                name=host, like=like, dtype=dtype, meaning=f"shape and dtype of {like}"
            )
        shape = tuple(self._to_host(f"{array}.shape[{axis}]") for array, axis in axes)
        return OutputContract(
            name=host, shape=shape, dtype=dtype, meaning=f"shape ({', '.join(shape)})"
        )

    def _flat_output(self, name: str) -> OutputContract:
        factors = self.factors[name]
        array, axis = factors[0].like
        shape = [self._to_host(f"{array}.shape[{axis}]")]
        for outer, inner in zip(factors, factors[1:], strict=False):
            (extent,) = _without(outer.strides, inner.strides)
            padded = inner.tile != "1"
            shape.append(extent.lower() if padded else self._to_host(self._binding(extent)))
        last, place = factors[-1].like
        trimmed = self._to_host(f"{last}.shape[{place}]") if factors[-1].tile != "1" else ""
        return OutputContract(
            name=self.host_names[name], shape=(" * ".join(shape),), dtype="float32",
            returned_shape=tuple(shape), trimmed_to=trimmed,
            meaning="one number per row, in the base of the kernel's exponential",
        )  # fmt: skip

    def _empty(self) -> str:
        """True when there is nothing to write."""
        out = next((n for n in self.shapes.outputs if n not in self.factors), None)
        axes = self.shapes.shape(out) if out is not None else None
        if not axes:
            return ""
        product = " * ".join(self._to_host(f"{array}.shape[{axis}]") for array, axis in axes)
        return f"{product} == 0"

    # -- checks

    def _checks(self) -> Iterator[Check]:
        yield from self._not_empty()
        for constraint in self.request.document.space.constraints:
            check = self._check(constraint)
            if check is not None:
                yield check
        for axis in self._grid()[1:]:
            text = self._to_host(axis)
            yield Check(
                expression=f"{text} <= {MAX_GRID}",
                message=f"{text} is {{{text}}}; a grid has at most {MAX_GRID} blocks along this axis",
            )

    def _not_empty(self) -> Iterator[Check]:
        """Axes of inputs that no output has are reduced; an empty one gives no value."""
        kept = {axis for name in self.shapes.outputs for axis in self.shapes.shape(name) or ()}
        seen: set[str] = set()
        for name in self.shapes.inputs:
            for place in range(self.shapes.ranks.get(name, 0)):
                like = self.shapes.alike((name, place)) or (name, place)
                text = self._to_host(f"{like[0]}.shape[{like[1]}]")
                if like not in kept and text not in seen:
                    seen.add(text)
                    yield Check(expression=f"{text} > 0", message=f"{text} is 0; there is nothing to reduce")

    def _check(self, constraint: Constraint) -> Check | None:
        """A constraint on problem sizes as a host check; None when it holds by itself or speaks of an output."""
        tree = self._resolved(parse(constraint.expression))
        text = folded(to_text(tree), dict(self.request.point.values))
        used = {name.partition(".")[0] for name in names(parse(text))}
        if not used:
            return self._decided(text, constraint)
        if used & set(self.shapes.outputs) or self._repeats(parse(text)):
            return None
        known = {*self.shapes.inputs, *(scalar.name for scalar in self.scalars), *self._runtime()}
        if not used <= known:
            return None
        shown = self._to_host(text)
        guard = self._guard(used)
        parts = ", ".join(f"{part} is {{{part}}}" for part in sorted(_shown(parse(shown))))
        message = f"`{shown}` does not hold: {parts}"
        if constraint.because and "{" not in constraint.because:
            message += f"; {constraint.because}"
        return Check(expression=shown, message=message, when=guard)

    def _guard(self, used: set[str]) -> str:
        """The caller's flag without which the kernel reads none of these scalars; empty when there is none."""
        scalars = used & self._runtime()
        if not scalars:
            return ""
        flags = {scalar.name for scalar in self.scalars if scalar.annotation == "bool"}
        for parameter, text in self.bound.items():
            if text in flags and not scalars & read_without(self.request.program, parameter):
                return text
        return ""

    def _runtime(self) -> set[str]:
        return {p.name for p in self.request.lowered if p.source == "scalar"}

    def _decided(self, text: str, constraint: Constraint) -> None:
        """Nothing to check at run time; a constraint that the chosen values break is refused."""
        try:
            holds = bool(evaluate(parse(text), {}))
        except TileloreError:
            return
        if not holds:
            point = ", ".join(f"{name}={value}" for name, value in self.request.point.values)
            raise ConstraintViolated(
                f"{point} breaks `{constraint.expression}`.",
                hint=constraint.hint or "Choose other values for the tuning axes.",
            )

    def _resolved(self, expr: Expr) -> Expr:
        """Compile-time parameters, and scalars that are constants, replaced by what the launch passes for them."""
        static = {p.name for p in self.request.lowered if p.source == "constexpr"}
        static |= {n for n in self._runtime() if isinstance(parse(self._binding(n)), Literal)}

        def change(node: Expr) -> Expr:
            if isinstance(node, Name) and node.name in static and node.name in self.bound:
                if node.name in dict(self.request.point.values):
                    return node
                return parse(self.bound[node.name])
            return rebuilt(node, change)

        return change(expr)

    def _repeats(self, expr: Expr) -> bool:
        """Equal sides, extents that are equal anyway, or `a % (a // b) == 0`, which `a % b == 0` implies, or `a * b % b == 0`."""
        match expr:
            case Compare(first=left, links=((Comparison.EQUAL, Literal(value=0)),)):
                return _implied(left)
            case Compare(first=left, links=((Comparison.EQUAL, right),)):
                return self._same(left, right)
        return False

    def _same(self, left: Expr, right: Expr) -> bool:
        sides = [_axis(left), _axis(right)]
        alike = [self.shapes.alike(side) if side is not None else None for side in sides]
        return left == right or (None not in alike and alike[0] == alike[1])

    # -- launch

    def _grid(self) -> tuple[str, ...]:
        grid = list(self.request.point.grid)
        while len(grid) > 1 and grid[-1] == "1":
            grid.pop()
        return tuple(grid)

    def _binding(self, name: str) -> str:
        text = self.bound.get(name)
        if text is None:
            raise CannotEmit(
                f"no launch says what `{name}` is.", hint="Add it to the launch of the design space."
            )
        return text

    def _bindings(self) -> Iterator[Binding]:
        for parameter in self.request.lowered:
            yield Binding(parameter=parameter.name, expression=self._argument(parameter))

    def _argument(self, parameter: LoweredParameter) -> str:
        host = self.host_names.get(parameter.tensor, parameter.tensor)
        match parameter.source:
            case "pointer":
                return host
            case "shape":
                return f"{host}.shape[{parameter.axis}]"
            case "stride":
                return f"{host}.stride[{parameter.axis}]"
            case "scalar":
                return parameter.name
        if parameter.name in dict(self.request.point.values):
            return parameter.name
        padded = {
            _without(outer.strides, inner.strides)[0]
            for factors in self.factors.values()
            for outer, inner in zip(factors, factors[1:], strict=False)
            if inner.tile != "1"
        }
        if parameter.name in padded:
            return parameter.name.lower()
        return self._to_host(self._binding(parameter.name))


def _scalar(name: str, expr: Expr, *, flag: bool, feeds: str) -> ScalarContract:
    """A scalar of the caller: a flag is on, and one compared with None may be left out."""
    if flag:
        return ScalarContract(
            name=name, annotation="bool", default=True, has_default=True, meaning=f"sets {feeds}"
        )
    if _compared_with_none(expr, name):
        default = f"without it, {to_text(expr)}".replace(" if " + name + " == None else " + name, "")
        return ScalarContract(
            name=name, annotation="float | None", default=None, has_default=True, meaning=default
        )
    return ScalarContract(name=name, annotation="float", meaning=f"gives {feeds}")


def _compared_with_none(expr: Expr, name: str) -> bool:
    return f"{name} == None" in to_text(expr) or f"{name} != None" in to_text(expr)


def _axis(expr: Expr) -> tuple[str, int] | None:
    match expr:
        case Index(value=Attribute(value=Name(name=name), name="shape"), index=Literal(value=int(axis))):
            return name, axis
    return None


def _implied(expr: Expr) -> bool:
    match expr:
        case Binary(
            operator=BinaryOperator.MODULO, left=whole,
            right=Binary(operator=BinaryOperator.FLOOR_DIVIDE, left=divided),
        ):  # fmt: skip
            return whole == divided
        case Binary(
            operator=BinaryOperator.MODULO, right=divisor,
            left=Binary(operator=BinaryOperator.MULTIPLY, right=factor),
        ):  # fmt: skip
            return factor == divisor
    return False


def _shown(expr: Expr) -> set[str]:
    """Names and elements of an expression, as text."""
    found: set[str] = set()

    def visit(node: Expr) -> Expr:
        if isinstance(node, Name | Index):
            found.add(to_text(node))
            return node
        return rebuilt(node, visit)

    visit(expr)
    return found


def _without(outer: tuple[str, ...], inner: tuple[str, ...]) -> tuple[str, ...]:
    """Factors of `outer` that `inner` does not have.

    Raises CannotEmit when that is not exactly one: the buffer is then not a tensor in row-major order.
    """
    rest = list(outer)
    for name in inner:
        if name in rest:
            rest.remove(name)
    if len(rest) != 1:
        raise CannotEmit("a flat output is not laid out in row-major order.")
    return tuple(rest)
