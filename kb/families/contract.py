"""What the host promises a kernel and does before the launch: data that an emitter writes out.

Expressions are in the grammar of kb.planner.expressions over the names of tensors, scalars and
constants of the contract: `x.shape[0]`, `x.stride[0]`, `x.ndim`, `x.element_size`; `device.sms`
counts multiprocessors.
"""

from __future__ import annotations

from dataclasses import dataclass

from kb.space import Binding, Point, Scalar

FLOATS = ("float16", "bfloat16", "float32")
"""Storage dtypes that generated host functions take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorContract:
    """An input tensor: `rank` None takes any; `rows` views it as a matrix over its last axis.

    `shape` holds an expression per axis, None where anything fits; `dtype_of` names the tensor
    whose dtype it must share; without `dtypes` it may have any; an `optional` one may be None.
    """

    name: str
    rank: int | None = None
    shape: tuple[str | None, ...] = ()
    dtypes: tuple[str, ...] = FLOATS
    dtype_of: str | None = None
    rows: bool = False
    last_axis_contiguous: bool = True
    optional: bool = False
    meaning: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarContract:
    """A scalar of the host function; `default` is what it is when the caller says nothing."""

    name: str
    annotation: str
    default: Scalar = None
    has_default: bool = False
    meaning: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputContract:
    """A tensor that the host allocates: an expression per axis, or the shape of the tensor `like`.

    `dtype` is a dtype name or the name of a tensor. What the kernel wrote is returned as it is,
    with the leading axes of a tensor, or in `returned_shape` with the last axis cut to `trimmed_to`
    elements.
    """

    name: str
    like: str | None = None
    shape: tuple[str, ...] = ()
    dtype: str = ""
    returned_shape: tuple[str, ...] = ()
    trimmed_to: str = ""
    returned_leading_of: str | None = None
    meaning: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescriptorContract:
    """A tensor descriptor: of `tensor`, with an expression per axis of its block.

    An empty `name` leaves it to the kernel to make it; the host then only sees to the alignment.
    """

    tensor: str
    block: tuple[str, ...]
    padding: str = "zero"
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What must hold before the launch, where `when` is set; `{name}` in `message` is a value."""

    expression: str
    message: str
    when: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A name for a value that the host computes before the launch, or at the head of the file."""

    name: str
    expression: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostContract:
    """The host function of a kernel: arguments, checks, outputs, constants, grid, options.

    `configuration` holds the tuning values, which stand as constants at the head of the file, one
    of those `searched`. `written` are arguments that the kernel writes; a host without a `grid`
    takes it as an argument; `device` is the tensor whose device runs the kernel, else the first.
    """

    function: str
    summary: str
    tensors: tuple[TensorContract, ...]
    scalars: tuple[ScalarContract, ...]
    outputs: tuple[OutputContract, ...]
    constants: tuple[Constant, ...]
    checks: tuple[Check, ...]
    grid: tuple[str, ...]
    bindings: tuple[Binding, ...]
    options: tuple[tuple[str, str], ...] = ()
    configuration: tuple[Constant, ...] = ()
    empty_when: str = ""
    descriptors: tuple[DescriptorContract, ...] = ()
    written: tuple[str, ...] = ()
    searched: tuple[Point, ...] = ()
    device: str = ""
