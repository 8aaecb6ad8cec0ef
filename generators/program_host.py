"""The host contract of a kernel that was read: from its launch, its arrays and its constraints."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from generators.host_checks import HostChecks
from generators.host_facts import HostFacts, HostRequest, factor_between
from generators.lower.views import LoweredParameter
from kb.errors import CannotEmit
from kb.families.contract import (
    Constant,
    DescriptorContract,
    HostContract,
    OutputContract,
    TensorContract,
)
from kb.planner.expressions import parse, to_text
from kb.space import Binding

MAX_STAGES = 3
"""Copies of streamed tiles beyond which the loop of attention gains nothing on sm_90."""


def host_contract(request: HostRequest) -> HostContract:
    """The contract of the host function.

    Raises CannotEmit when the shape of an output or the value of a parameter cannot be told.
    """
    return _Host(request).contract()


class _Host(HostFacts):
    """Writes the parts of the contract."""

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
            checks=tuple(HostChecks(self).checks()),
            grid=tuple(self.to_host(axis) for axis in self.grid()),
            bindings=tuple(self._bindings()),
            options=self._options(),
            configuration=tuple(self._configuration()),
            empty_when=self._empty(),
            descriptors=tuple(self._descriptors()),
        )

    def _descriptors(self) -> Iterator[DescriptorContract]:
        handed = {p.name for p in self.request.lowered if p.source == "descriptor"}
        for block in self.request.blocks:
            extents = (to_text(self.resolved(parse(text))) for text in block.extents)
            yield DescriptorContract(
                tensor=self.host_names[block.array],
                block=tuple(self.to_host(text) for text in extents),
                padding=block.padding,
                name=block.name.lower() if block.name in handed else "",
            )

    def _options(self) -> tuple[tuple[str, str], ...]:
        """Launch options of Triton; cuTile carries its hints on the kernel."""
        if self.request.program.dialect == self.request.dialect:
            return ()
        return (("num_warps", "NUM_WARPS"), ("num_stages", "num_stages"), *self.request.options)

    def _tensors(self) -> Iterator[TensorContract]:
        first = self.shapes.inputs[0]
        for name in self.shapes.inputs:
            axes = range(self.shapes.ranks.get(name, 0))
            likes = [self.shapes.alike((name, axis)) for axis in axes]
            shape = tuple(
                self.to_host(f"{like[0]}.shape[{like[1]}]")
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
                meaning=f"tensor of {len(shape)} axes, {self._layout(name)}",
            )

    def _layout(self, name: str) -> str:
        if any(block.array == name for block in self.request.blocks):
            return "copied where its rows are not contiguous and aligned to 16 bytes"
        return "any strides"

    def _constants(self) -> Iterator[Constant]:
        """Runtime scalars of the kernel, and the number of stages that fits shared memory."""
        for parameter in self.request.lowered:
            if parameter.source == "scalar":
                text = self.binding(parameter.name)
                if text != parameter.name:
                    yield Constant(name=parameter.name, expression=self.to_host(text))
        for factors in self.factors.values():
            for outer, inner in pairwise(factors):
                (name,) = factor_between(outer.strides, inner.strides)
                if inner.tile != "1":
                    yield Constant(name=name.lower(), expression=self.to_host(self.binding(name)))
        if self._options():
            yield Constant(name="num_stages", expression=self.to_host(self._stages()))

    def _stages(self) -> str:
        """As many copies of the streamed tiles as shared memory holds beside the resident ones,
        three at most.
        """
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
        return to_text(self.resolved(parse(" + ".join(products)))) if products else ""

    def _configuration(self) -> Iterator[Constant]:
        for name, value in self.request.point.values:
            yield Constant(name=name, expression=str(value))
        if self._options():
            yield Constant(name="NUM_WARPS", expression=str(self.request.warps))

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
        shape = tuple(self.to_host(f"{array}.shape[{axis}]") for array, axis in axes)
        return OutputContract(
            name=host, shape=shape, dtype=dtype, meaning=f"shape ({', '.join(shape)})"
        )

    def _flat_output(self, name: str) -> OutputContract:
        factors = self.factors[name]
        array, axis = factors[0].like
        shape = [self.to_host(f"{array}.shape[{axis}]")]
        for outer, inner in pairwise(factors):
            (extent,) = factor_between(outer.strides, inner.strides)
            padded = inner.tile != "1"
            shape.append(extent.lower() if padded else self.to_host(self.binding(extent)))
        last, place = factors[-1].like
        trimmed = self.to_host(f"{last}.shape[{place}]") if factors[-1].tile != "1" else ""
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
        product = " * ".join(self.to_host(f"{array}.shape[{axis}]") for array, axis in axes)
        return f"{product} == 0"

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
            case "descriptor":
                return parameter.name.lower()
        if parameter.name in dict(self.request.point.values):
            return parameter.name
        padded = {
            factor_between(outer.strides, inner.strides)[0]
            for factors in self.factors.values()
            for outer, inner in pairwise(factors)
            if inner.tile != "1"
        }
        if parameter.name in padded:
            return parameter.name.lower()
        return self.to_host(self.binding(parameter.name))
