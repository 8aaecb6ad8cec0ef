"""read_cuda(text) -> kernels: every `__global__` function of a file as a tile program.

How CUDA C++ stands in the tile program:

- One thread is written down. `blockIdx` is block_id, `threadIdx` thread_id, `blockDim`
  block_threads, `gridDim` num_blocks, each with an `axis`. Warps and lanes are arithmetic on them,
  or warp_id and lane_id where the source asks a group or a special register.
- Template parameters come first, as constexpr parameters; a type parameter has the annotation
  `dtype` and elements of it the dtype `dtypeof(T)`. Runtime parameters follow: scalars with their
  dtype, pointers as arrays annotated `f32 const restrict`.
- Variables in registers are values: `x[i]` of a local array, vector or struct is extract, writing
  it insert; fields are attribute. Seeing bits as another type is bitcast.
- An address is a pointer plus an offset in elements of what it points at (a float4 counts four);
  `reinterpret_cast` of a pointer is pointer_cast. Loads and stores say `space` (shared) and
  `cache`; the type of the result says how many elements one access moves.
- `__shared__` is allocate with its extents, row by row; extent = "launch" when the launch gives it.
- barrier, shuffle, vote, fence, reductions with `scope`; async_copy, async_commit, async_wait,
  bulk_copy, barrier_init/arrive/wait, matrix_load, mma with `scope`, `shape` and `opcode`.
- Helpers and lambdas are read in place; what lies in a header has the line of the call.
- Attributes of the head (launch bounds, cluster dimensions) are options of the function.
- What is not understood is opaque with the variables that it reads and those it may write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from extractors.cuda import nodes as n
from extractors.cuda.build_names import build_names
from extractors.cuda.conditions import BLACKWELL
from extractors.cuda.helpers import HelperReader
from extractors.cuda.instances import codes, traits
from extractors.cuda.iterators import iterators
from extractors.cuda.library import Above, Library, Load, gather, names_cute
from extractors.cuda.macros import Macro
from extractors.cuda.parse import parse
from extractors.cuda.unserved import serves, unserved
from extractors.cuda.values import INT, UNKNOWN, Callee, Frame, Kind, Named, Slot, Val
from extractors.opaque import opaque_notes
from kb.dialects.cuda import CUDA
from kb.errors import InputError
from kb.evidence import Diagnostic, Lines, Severity
from kb.ir import (
    UNNAMED,
    Function,
    Kernel,
    Literal,
    Op,
    Parameter,
    ParameterKind,
    Region,
    Span,
    kernel_ops,
)
from kb.ops import OpKind

MAX_BYTES = 5_000_000
"""Size limit of one source file in bytes."""

MAX_KERNELS = 2_000

_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class ReadCuda:
    """What one file holds: its kernels, its definitions, what was not understood, where the
    preprocessor asks for the target or for whose devices the code is, its text, the macros that are
    known there, and the texts of files that are read beside it."""

    kernels: tuple[Kernel, ...]
    library: Library
    diagnostics: tuple[Diagnostic, ...]
    definitions: tuple[n.Definition, ...] = field(default=())
    targets: tuple[Lines, ...] = field(default=())
    platforms: tuple[Lines, ...] = field(default=())
    text: str = ""
    macros: Mapping[str, Macro] = field(default_factory=dict)
    others: tuple[str, ...] = ()


def no_headers(path: str, name: str) -> None:
    """A loader for a file that stands alone."""


def read_cuda(
    text: str, path: str, load: Load = no_headers, shown: str = "", above: Above | None = None
) -> ReadCuda:
    """Every kernel of a file. A kernel that exceeds a bound is one opaque operation.

    `path` is what `load` knows the file by, `shown` its name in the program when that differs,
    `above` what stands above it in a file that includes it, if it needs that.

    Raises InputError when the file is too large or tree-sitter is not installed.
    """
    if len(text) > MAX_BYTES:
        raise InputError(
            f"the file has {len(text)} characters; at most {MAX_BYTES} are read.", where=path,
            hint="Split the file.",
        )  # fmt: skip
    prepared, headers = gather(text, path, load, above=above)
    tensors = names_cute(prepared, headers)
    library = Library(parse(prepared, shown or path), headers, tensors=tensors)
    later = _Later(text, path, load, shown or path, above)
    asked = {one.path: one.prepared.targets for one in headers} | {shown or path: prepared.targets}
    notes: list[Diagnostic] = []
    kernels: list[Kernel] = []
    kept: list[n.Definition] = []
    for one in _global(library.unit):
        if len(kernels) >= MAX_KERNELS:
            notes.append(_note(f"only the first {MAX_KERNELS} kernels are read.", one.at))
            break
        seen, definition = library, one
        if "__CUDA_ARCH" in text and _refuses(one, library):
            seen, definition = later.find(one) or (library, one)
        elif empty := unserved(one, library, asked):
            other = later.find(one)
            if other is not None and any(serves(helper, other[0]) for helper in empty):
                seen, definition = other
        name = _name(definition, kernels)
        kernel, problem = _kernel(definition, seen, name)
        if seen is library and _never_holds(kernel) and (other := later.find(one)):
            again = _kernel(other[1], other[0], name)
            if not _never_holds(again[0]):
                (seen, definition), (kernel, problem) = other, again
        kernels.append(kernel)
        kept.append(definition)
        notes += [*problem, *opaque_notes(kernel, CUDA.file)]
    notes += _general(prepared.guessed, library.unit, kernels)
    told = tuple(dict.fromkeys(notes))
    return ReadCuda(tuple(kernels), library, told, tuple(kept), tuple(prepared.targets),
                    tuple(prepared.platforms), text, prepared.macros)  # fmt: skip


@dataclass(slots=True)
class _Later:
    """The file as a compiler for the next architecture sees it, made when it is asked for: kernels
    that do nothing before it, or only say so."""

    text: str
    path: str
    load: Load
    shown: str
    above: Above | None = None
    _library: Library | None = None

    def find(self, empty: n.Definition) -> tuple[Library, n.Definition] | None:
        """The definition that has a body there, with what it may name."""
        if self._library is None:
            prepared, headers = gather(self.text, self.path, self.load, BLACKWELL, self.above)
            tensors = names_cute(prepared, headers)
            self._library = Library(parse(prepared, self.shown), headers, tensors=tensors)
        for one in _global(self._library.unit):
            if (
                one.name == empty.name
                and one.at.line == empty.at.line
                and not _refuses(one, self._library)
            ):
                return self._library, one
        return None


def _never_holds(kernel: Kernel) -> bool:
    """Whether a helper asserts what is false: it was compiled for a target that it does not
    serve."""
    found = [*kernel_ops(kernel)]
    claims = {op.inputs[0] for op in found if op.kind == OpKind.DEVICE_ASSERT and op.inputs}
    return any(
        op.kind == OpKind.CONST and op.result in claims and not op.attribute("value")
        for op in found
        if op.results
    )


_SAYS = frozenset({"printf", "__trap", "assert", "abort", "__assert_fail"})
"""What a kernel calls that was compiled for a target that it does not serve."""


_HELPERS = 3
"""Helpers inside each other that may hold what a kernel does."""


def _refuses(definition: n.Definition, library: Library, depth: int = 0) -> bool:
    """Whether a body does nothing, or nothing but print and stop, by a helper or itself."""
    for one in n.inside(definition.body):
        if isinstance(one, n.Call):
            name = one.function.text if isinstance(one.function, n.Name) else ""
            called = library.functions(name) if name not in _SAYS and depth < _HELPERS else []
            stops = bool(called) and all(_refuses(c, library, depth + 1) for c in called)
            if name not in _SAYS and not stops:
                return False
        elif isinstance(one, n.Assembly):
            if one.text.strip(" ;") not in ("trap", "brkpt"):
                return False
        elif not isinstance(one, _IDLE):
            return False
    return True


_IDLE = (
    n.Alias, n.Assert, n.Block, n.Do, n.If, n.Leave, n.Name, n.Constant, n.Unary, n.Binary,
    n.Field, n.Variable,
)  # fmt: skip


def _global(unit: n.Unit) -> list[n.Definition]:
    found = [one for many in unit.functions.values() for one in many if "__global__" in one.words]
    methods = (m for many in unit.records.values() for r in many for m in r.methods)
    found += [one for one in methods if "__global__" in one.words]
    return sorted(found, key=lambda one: (one.at.line, one.at.column))


def _name(definition: n.Definition, before: list[Kernel]) -> str:
    """Overloads and specialisations of one name are told apart by a number."""
    same = sum(1 for k in before if re.fullmatch(rf"{definition.name}(_\d+)?", k.name))
    return f"{definition.name}_{same + 1}" if same else definition.name


def _kernel(
    definition: n.Definition, library: Library, name: str
) -> tuple[Kernel, list[Diagnostic]]:
    """One kernel; a body that exceeds a bound stands as one opaque operation."""
    frame = Frame("kernel")
    reader = HelperReader(library, definition.at.path, frame)
    reader._loops = []
    reader.traits = traits(definition, library)
    reader.entry = definition
    reader.writer.home = (definition.at.line, definition.at.end_line)
    problems: list[Diagnostic] = []
    parameters: tuple[Parameter, ...] = ()
    try:
        with reader.writer.region() as opened:
            parameters = (*_parameters(definition, reader), *_built(definition, reader))
            for given, code in codes(definition, library).items():
                reader.frame.bind(given, Callee((code,)))
            _body(definition, reader)
        body = opened.region
    except (InputError, RecursionError) as error:
        message = error.message if isinstance(error, InputError) else "the code nests too deeply."
        body = _unread(definition, message)
        problems.append(_note(f"{name}: {message} Its body is kept as opaque.", definition.at))
    span = Span(definition.at.line, definition.at.column, definition.at.end_line,
                definition.at.path)  # fmt: skip
    options = tuple(_options(definition))
    entry = Function(name, parameters, body, span, options)
    return Kernel(entry, (), CUDA.name), problems


def _body(definition: n.Definition, reader: HelperReader) -> None:
    with reader.block(), reader.ending(True, True):
        if not reader.statements(definition.body.body):
            end = definition.body.at
            place = n.Place(end.end_line or end.line, 0, end.end_line, end.path)
            reader.writer.emit(OpKind.RETURN, (), place)


def _unread(definition: n.Definition, why: str) -> Region:
    at = definition.body.at
    span = Span(at.line, at.column, at.end_line, at.path)
    opaque = Op(OpKind.OPAQUE, (), (("what", f"body: {why}"[:120]),), (), (), span)
    return Region((), (opaque, Op(OpKind.RETURN, span=span)))


# -- the head


def _parameters(definition: n.Definition, reader: HelperReader) -> Iterator[Parameter]:
    taken: set[str] = set()
    for one in definition.template:
        name = _fresh(one.name or UNNAMED, taken)
        place = one.at or definition.at
        annotation = "dtype" if one.dtype == "typename" else CUDA.dtypes.get(one.dtype, one.dtype)
        default, has_default = _default(one.default)
        kind = Kind(record="typename") if one.dtype == "typename" else reader.kind(
            n.CType(one.dtype), Frame("file")
        )  # fmt: skip
        reader.symbols[name] = Val(name, kind, None, True, name)
        reader.frame.bind(one.name, reader.symbols[name])
        yield Parameter(
            name, ParameterKind.CONSTEXPR, annotation, default, has_default, _span(place)
        )
    for name in iterators(definition, reader.library):
        reader.frame.bind(name, Named(n.CType("?", pointers=1), Frame("file")))
    for parameter in definition.parameters:
        name = _fresh(parameter.name or UNNAMED, taken)
        yield _runtime(parameter, name, reader)


def _built(definition: n.Definition, reader: HelperReader) -> Iterator[Parameter]:
    """Numbers that the file is compiled with, as compile-time parameters behind the others."""
    for name, place in build_names(definition, reader.library).items():
        reader.built[name] = Val(name, INT, None, True, name)
        yield Parameter(name, ParameterKind.CONSTEXPR, "int", span=_span(place))


def _runtime(parameter: n.Variable, name: str, reader: HelperReader) -> Parameter:
    kind = reader.kind(parameter.type, reader.frame)
    if kind.shape and parameter.type.extents:
        kind = Kind(to=kind.element)
    key = reader.key(parameter.name)
    reader.kinds[key] = kind
    reader.names[key] = Val(name, kind)
    reader.given.add(key)
    reader.frame.bind(parameter.name, Slot(key, kind))
    array = kind.to is not None
    sort = ParameterKind.ARRAY if array else ParameterKind.SCALAR
    words = [_written(kind.to if kind.to is not None else kind, parameter.type)]
    words += ["const"] if array and parameter.type.const else []
    words += ["restrict"] if parameter.type.restrict else []
    default, has_default = _default(parameter.value)
    return Parameter(name, sort, " ".join(words), default, has_default, _span(parameter.at))


def _written(kind: Kind, written: n.CType) -> str:
    if kind.to is not None:
        return "pointer"
    if kind == UNKNOWN or kind.record:
        return kind.record or written.name
    return kind.dtype + (f"x{'x'.join(kind.shape)}" if kind.shape else "")


def _default(value: n.Expr | n.CType | None) -> tuple[Literal, bool]:
    if value is None:
        return None, False
    if isinstance(value, n.Constant):
        return value.value, True
    return None, True


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _span(at: n.Place) -> Span:
    return Span(at.line, at.column, at.end_line, at.path)


def _options(definition: n.Definition) -> Iterator[tuple[str, Literal]]:
    """Launch bounds, cluster dimensions, register limits: numbers, else their text."""
    seen: set[str] = set()
    for name, text in definition.attributes:
        for key, part in zip(_OPTIONS.get(name, ()), _parts(text), strict=False):
            part = part.strip()
            if key not in seen and part:
                seen.add(key)
                yield key, int(part) if _NUMBER.fullmatch(part) else part


def _parts(text: str) -> Iterator[str]:
    """Arguments of an attribute; commas between angle brackets that match separate none."""
    held: list[str] = []
    for part in text.split(","):
        held.append(part)
        whole = ",".join(held)
        if whole.count("<") <= whole.count(">") and whole.count("(") <= whole.count(")"):
            yield whole
            held = []
    yield from held


_OPTIONS = {
    "__launch_bounds__": ("max_threads", "min_blocks", "max_cluster_blocks"),
    "__other_launch_bounds__": ("max_threads_elsewhere",),
    "__cluster_dims__": ("cluster_x", "cluster_y", "cluster_z"),
    "__maxnreg__": ("max_registers",), "__block_size__": ("block_size",),
}  # fmt: skip


# -- notes


def _note(message: str, at: n.Place) -> Diagnostic:
    return Diagnostic(
        severity=Severity.WARNING, message=message, lines=(at.line, max(at.line, at.end_line))
    )


def _general(guessed: list[int], unit: n.Unit, kernels: list[Kernel]) -> Iterator[Diagnostic]:
    for line in guessed[:20]:
        yield Diagnostic(
            severity=Severity.NOTE, lines=(line, line),
            message="nothing tells whether this condition of the preprocessor holds; its first "
            "branch is read.",
        )  # fmt: skip
    for first, last in unit.broken[:20]:
        yield Diagnostic(
            severity=Severity.NOTE, lines=(first, last),
            message="the grammar has no rule for this; definitions after it are read.",
        )  # fmt: skip
    if not kernels:
        yield Diagnostic(
            severity=Severity.NOTE,
            message="no kernel is defined here.",
            hint="A kernel is a function marked __global__ with a body.",
        )
