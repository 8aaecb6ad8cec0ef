"""Signatures to compile a kernel with, derived from the program itself and from what its host does.

A short list of candidates, most likely first; the first one that the original compiles with is
taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from generators.compile_model import Argument, ArgumentKind, Scalar, Signature
from generators.signature_repairs import Repairs
from generators.usage import Facts, Role, Usage
from kb.ir import Kernel, Parameter, ParameterKind
from kb.space import Point, Tuning

MAX_CANDIDATES = 12
MAX_REPAIRED = 6
_FLOATS = ("f16", "bf16", "f32")
_OTHER_ELEMENTS = ("i32", "f64")
"""What arrays hold when no common float fits: a program may be for integers or doubles only."""

_LAUNCH_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_SMALL = 2
_COUNT = 4
_UNROLLED_EXTENT = 16


@dataclass(frozen=True, slots=True)
class _Profile:
    """One way to fill in what the program leaves open."""

    extent: int
    truth: bool
    floating: str
    integer: str = "i32"
    rotate: int = 0


_PROFILES = (
    _Profile(64, True, "f16"),
    _Profile(64, False, "f16"),
    _Profile(64, True, "f32"),
    _Profile(64, False, "f32"),
    _Profile(32, False, "f32", rotate=1),
    _Profile(16, True, "f16", rotate=1),
    _Profile(128, False, "f16"),
    _Profile(64, True, "bf16", "i64"),
    _Profile(64, False, "f32", "i64"),
    _Profile(16, False, "f32", rotate=2),
    _Profile(128, True, "f32", rotate=2),
    _Profile(32, True, "bf16", rotate=3),
)


def candidates(kernel: Kernel, tuning: Tuning | None = None) -> Iterator[Signature]:
    """At most eighteen different signatures, in the order in which they should be tried: what
    each parameter asks for by its own, then the same with what they ask for together.
    """
    usage = Usage(kernel)
    points = _points(tuning)
    seen: set[Signature] = set()
    found: list[Signature] = []
    for profile in _PROFILES:
        for point in points[:2] or [{}]:
            signature = _signature(usage, profile, point)
            if signature not in seen and len(seen) < MAX_CANDIDATES:
                seen.add(signature)
                found.append(signature)
                yield signature
    repairs = Repairs(kernel, usage)
    others = [_with_elements(found[0], dtype) for dtype in _OTHER_ELEMENTS]
    for signature in (found[0], *others, *found[1:]):
        repaired = repairs.repaired(signature)
        if repaired not in seen and len(seen) < MAX_CANDIDATES + MAX_REPAIRED:
            seen.add(repaired)
            yield repaired


def _with_elements(signature: Signature, dtype: str) -> Signature:
    """The signature with another dtype for every array of floats and float scalar."""
    arguments = tuple(
        replace(argument, dtype=dtype) if argument.dtype in _FLOATS else argument
        for argument in signature.arguments
    )
    return replace(signature, arguments=arguments)


def _signature(usage: Usage, profile: _Profile, point: dict[str, Scalar]) -> Signature:
    parameters = usage.kernel.entry.parameters
    arguments = tuple(_argument(usage, parameter, profile, point) for parameter in parameters)
    given = ((name, point.get(name)) for name in _LAUNCH_OPTIONS)
    options = tuple((name, value) for name, value in given if value is not None)
    return Signature(arguments=arguments, options=options)


def _points(tuning: Tuning | None) -> list[dict[str, Scalar]]:
    """Tuning points, the smallest first: small tiles compile fast."""
    spaces: Sequence[Point] = [p for space in tuning.spaces for p in space.points] if tuning else []
    return sorted((dict(point) for point in spaces), key=_size)


def _size(point: dict[str, Scalar]) -> float:
    size = 1.0
    for value in point.values():
        if isinstance(value, int | float) and not isinstance(value, bool):
            size *= max(1.0, float(value))
    return size


def _argument(
    usage: Usage, parameter: Parameter, profile: _Profile, point: dict[str, Scalar]
) -> Argument:
    name = parameter.name
    facts = usage.of(usage.kernel.entry.name, name)
    if parameter.kind is ParameterKind.CONSTEXPR:
        if name in point:
            return Argument(name=name, kind=ArgumentKind.CONSTEXPR, value=point[name])
        return _constant(parameter, facts, profile)
    if facts.roles & {Role.ARRAY, Role.MEMORY, Role.DESCRIPTOR, Role.LIST}:
        return _memory(usage, name, facts, profile)
    return Argument(name=name, kind=ArgumentKind.SCALAR, dtype=_scalar_dtype(parameter, facts))


def _scalar_dtype(parameter: Parameter, facts: Facts) -> str:
    known = {"int": "i32", "float": "f32", "bool": "i1"}
    written = known.get(parameter.annotation, parameter.annotation)
    if written and written[:1] in "iufb" and written[1:2].isdigit():
        return written
    if Role.INTEGER not in facts.roles and facts.roles & {Role.FLOATING, Role.NEAR_FLOAT}:
        return "f32"
    return "i32"


def _memory(usage: Usage, name: str, facts: Facts, profile: _Profile) -> Argument:
    node = f"{usage.kernel.entry.name}:{name}"
    array = Role.ARRAY in facts.roles
    dtype = _element_dtype(usage.element(node), profile, exact=array)
    rank = facts.rank if facts.rank >= 0 else 1
    if array:
        return Argument(name=name, kind=ArgumentKind.ARRAY, rank=rank, dtype=dtype)
    if Role.LIST in facts.roles:
        inner = usage.element(node)
        behind = usage.element(usage.element_node(node))
        dtype = _element_dtype(behind, profile, exact=Role.ARRAY in inner.roles)
        if Role.MEMORY in inner.roles:
            pointers = ArgumentKind.POINTER_TUPLE
            return Argument(name=name, kind=pointers, dtype=dtype, shape=(_COUNT,))
        rank = inner.rank if inner.rank >= 0 else 1
        return Argument(name=name, kind=ArgumentKind.ARRAY_LIST, rank=rank, dtype=dtype)
    if Role.MEMORY in facts.roles:
        return Argument(name=name, kind=ArgumentKind.POINTER, dtype=dtype)
    block = (1,) * (rank - 2) + (profile.extent,) * min(rank, 2)
    return Argument(name=name, kind=ArgumentKind.DESCRIPTOR, dtype=dtype, shape=block)


def _element_dtype(element: Facts, profile: _Profile, *, exact: bool) -> str:
    if element.roles & {Role.MEMORY, Role.ARRAY}:
        return "i64"
    if Role.INTEGER in element.roles:
        return "i64" if "i64" in element.exact else profile.integer
    if Role.TRUTH in element.roles:
        return "i1"
    if element.stored and Role.FLOATING not in element.stored | element.roles:
        return profile.integer if Role.INTEGER in element.stored else "i1"
    if Role.ATOMIC in element.roles:
        return "f32"
    return "f32" if exact and "f32" in element.exact else profile.floating


def _constant(parameter: Parameter, facts: Facts, profile: _Profile) -> Argument:
    name = parameter.name
    if Role.DTYPE in facts.roles:
        dtype = profile.floating if profile.rotate % 2 == 0 else "f32"
        return Argument(name=name, kind=ArgumentKind.DTYPE, dtype=dtype)
    return Argument(name=name, kind=ArgumentKind.CONSTEXPR, value=_value(parameter, facts, profile))


def _value(parameter: Parameter, facts: Facts, profile: _Profile) -> Scalar:
    compared = [value for value in facts.compared if value is not None]
    words = [value for value in compared if isinstance(value, str)]
    if words:
        return words[profile.rotate % len(words)]
    if parameter.annotation == "bool":
        return profile.truth
    if parameter.annotation == "float":
        return 1.0
    if parameter.has_default and parameter.default is not None and profile.rotate == 0:
        return parameter.default
    if facts.flags and profile.truth:
        return facts.flags
    if Role.UNROLL in facts.roles:
        return _UNROLLED_EXTENT if Role.EXTENT in facts.roles else _COUNT
    if Role.EXTENT in facts.roles:
        return profile.extent
    if Role.SMALL in facts.roles:
        return _SMALL
    if Role.WORD in facts.roles:
        return None
    plain = [value for value in compared if isinstance(value, int | float)]
    if Role.CONDITION in facts.roles and not compared and parameter.annotation != "int":
        return profile.truth
    integer = Role.INTEGER in facts.roles
    if plain and not integer and Role.CONDITION not in facts.roles:
        return plain[profile.rotate % len(plain)]
    if integer:
        return profile.extent * (4 if profile.rotate % 2 else 1)
    if parameter.annotation == "int":
        return int(profile.truth) if Role.CONDITION in facts.roles else _COUNT
    if facts.roles & {Role.FLOATING, Role.NEAR_FLOAT}:
        return 1.0
    if Role.CONDITION in facts.roles or not facts.roles:
        return profile.truth
    return profile.extent
