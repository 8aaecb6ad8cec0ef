"""Objects that launch: structs whose constructor is given the extents of a launch and one of whose
methods is given the kernel and its arguments."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from extractors.cuda import nodes as n
from extractors.cuda.handed import pointed
from extractors.cuda.launch_site import Names
from extractors.cuda.library import Library
from extractors.cuda.render import shown

MAX_LINKS = 8
"""Calls in a chain of methods that give the object on."""

ON_CLUSTER = "cutlass::launch_kernel_on_cluster"
LAUNCHERS = {"cudaLaunchKernelEx": 1, "cudaLaunchKernelExC": 1, "cudaLaunchKernel": 0,
             "cudaLaunchCooperativeKernel": 0, ON_CLUSTER: 1}  # fmt: skip
"""Functions that launch, with the place of the kernel. Source: CUDA Runtime API 13.0; CUTLASS 4.2,
include/cutlass/cluster_launch.hpp."""

CONFIG = ("gridDim", "blockDim", "dynamicSmemBytes")
"""Fields of a launch configuration: grid, block, shared memory. Source: CUDA Runtime API 13.0."""

_HELD = ("attrs", "numAttrs")
_WITHOUT = 4
"""Fields of one that hold its attributes, and how many stand before them. Source: as above."""

_CLUSTER = ("grid_dims", "block_dims", "smem_size_in_bytes")
_WRITTEN = {
    "cudaLaunchConfig_t": CONFIG,
    "cutlass::ClusterLaunchParams": ("grid_dims", "block_dims", "cluster_dims", _CLUSTER[2]),
}
"""Fields of structs of extents in the order in which they are written. Sources: as above."""

CALLED = "operator()"

SERIALISED = "cudaLaunchAttributeProgrammaticStreamSerialization"
"""The attribute of launches that may begin before the kernel in front of theirs has ended. Source:
CUDA Runtime API 13.0, cudaLaunchAttributeID."""


def filled(made: n.Variable, value: n.Braces, library: Library) -> Iterator[tuple[str, n.Expr]]:
    """The fields of a struct that is made in braces, or of a launch configuration, in order."""
    known = library.records((value.type or made.type).name)
    own = tuple(one.name for one in known[0].fields) if len(known) == 1 else ()
    names = _WRITTEN.get(made.type.name, own)
    yield from zip((f"{made.name}.{name}" for name in names), value.items, strict=False)


_PLAIN = "cudaLaunchKernel"
_POINTED = frozenset({"cudaLaunchKernelExC"})
"""Those whose arguments lie behind an array of addresses, besides the last two."""


def configured(
    launcher: str, config: n.Expr, names: Names
) -> tuple[n.Expr | n.Variable | None, ...]:
    """Grid, block and shared memory of a launch by a struct of extents, written where it is handed
    over or before."""
    if launcher != ON_CLUSTER:
        name = shown(config).removeprefix("&")
        return tuple(names.get(f"{name}.{key}") for key in CONFIG)
    if isinstance(config, n.Braces):
        by_name = dict(zip(_WRITTEN["cutlass::ClusterLaunchParams"], config.items, strict=False))
        return tuple(by_name.get(key) for key in _CLUSTER)
    return tuple(names.get(f"{shown(config)}.{key}") for key in _CLUSTER)


def handed(
    node: n.Call, name: str, names: Names, lent: Collection[str]
) -> tuple[tuple[n.Expr | n.Variable | None, ...], tuple[n.Expr, ...], bool]:
    """Extents and arguments that a call of a launcher hands over, and whether it surely sets no
    attribute."""
    if LAUNCHERS[name]:
        given = node.arguments[2:]
        given = pointed(given, names) if name in _POINTED else given
        config = node.arguments[0]
        return configured(name, config, names), given, bare(config, names, lent)
    shape = (*node.arguments[1:3], *node.arguments[4:5])
    return shape, pointed(node.arguments[3:4], names), name == _PLAIN


def bare(config: n.Expr, names: Names, lent: Collection[str]) -> bool:
    """Whether a launch configuration surely holds no attribute: it is declared here, none is set,
    and nothing else was given it."""
    name = shown(config).removeprefix("&")
    made = names.get(name)
    given = made.items if isinstance(made, n.Braces) else ()
    here = isinstance(made, n.Variable) and made.type.name == "cudaLaunchConfig_t"
    here = here or (isinstance(made, n.Braces) and len(given) <= _WITHOUT)
    return here and name not in lent and not any(f"{name}.{x}" in names for x in _HELD)


@dataclass(frozen=True, slots=True)
class Thrown:
    """A launch by an object: the kernel, the extents and the arguments; `plain` when the object is
    made for it, without that attribute."""

    kernel: n.Expr
    shape: tuple[n.Expr | None, ...]
    arguments: tuple[n.Expr, ...]
    plain: bool = False


@dataclass(slots=True)
class Launchers:
    """Looks up which structs launch; `library` knows them."""

    library: Library
    _known: dict[str, _Launcher | None] = field(default_factory=dict)

    def launch(self, call: n.Call, names: Names) -> Thrown | None:
        """What a call of an object, or of a method of it, launches; None for other calls."""
        target: n.Expr = call.function
        way = CALLED
        if isinstance(target, n.Field):
            way, target = target.name, target.operand
        first = target
        for _ in range(MAX_LINKS):
            if not (isinstance(target, n.Call) and isinstance(target.function, n.Field)):
                break
            target = target.function.operand
        kind, given = _made(target, names)
        launcher = self._of(kind) if kind else None
        place = launcher.ways.get(way) if launcher is not None else None
        if launcher is None or place is None or place >= len(call.arguments):
            return None
        plain = target is first and not isinstance(target, n.Name) and launcher.bare
        return Thrown(
            call.arguments[place], launcher.shape(given), call.arguments[place + 1 :], plain
        )  # fmt: skip

    def _of(self, kind: str) -> _Launcher | None:
        if kind not in self._known:
            found = (_launcher(one, self.library) for one in self.library.records(kind))
            self._known[kind] = next((one for one in found if one is not None), None)
        return self._known[kind]


@dataclass(frozen=True, slots=True)
class _Launcher:
    """`ways`: methods that launch, with the place of the kernel; `extents`: per constructor, how
    many arguments it takes and which of them, if any, each extent is; `bare` when neither these nor
    those ask for an early start."""

    ways: Mapping[str, int]
    extents: tuple[tuple[int, tuple[int | None, ...]], ...]
    bare: bool = False

    def shape(self, given: Sequence[n.Expr]) -> tuple[n.Expr | None, ...]:
        places = next((p for most, p in self.extents if len(given) <= most), ())
        return tuple(given[p] if p is not None and p < len(given) else None for p in places)


def _made(target: n.Expr, names: Names) -> tuple[str, tuple[n.Expr, ...]]:
    """The struct that an object is of and what its constructor was given; empty for others."""
    held: n.Expr | n.Variable | None = target
    if isinstance(target, n.Name):
        held = names.get(target.text)
    match held:
        case n.Variable(type=kind, arguments=arguments) if arguments is not None:
            return kind.name, arguments
        case n.Call(function=n.Name(text=text), arguments=arguments):
            return text, arguments
        case n.Braces(type=n.CType(name=text), items=items):
            return text, items
        case n.Cast(form="construct", type=kind, operand=operand):
            return kind.name, (operand,)
    return "", ()


def _launcher(record: n.Record, library: Library) -> _Launcher | None:
    ways: dict[str, int] = {}
    shape: tuple[n.Expr, ...] = ()
    for method in record.methods:
        for call in _calls(method):
            place, given = _launch(call)
            own = _parameter(call.arguments[place], method) if given else None
            if own is not None:
                ways[method.name], shape = own, given
    for method in record.methods:
        for call in _calls(method):
            place_ = ways.get(_own(call))
            if place_ is not None and place_ < len(call.arguments) and method.name not in ways:
                own = _parameter(call.arguments[place_], method)
                ways |= {method.name: own} if own is not None else {}
    makers = [m for m in record.methods if m.name == record.name]
    extents = tuple(
        (len(m.parameters), tuple(_place(one, m, record, library) for one in shape))
        for m in makers
    )  # fmt: skip
    asking = (
        m for m in record.methods if (m.name == record.name or m.name in ways) and serialises(m)
    )
    return _Launcher(ways, extents, not any(asking)) if ways and extents else None


def serialises(function: n.Definition) -> bool:
    """Whether a function names that attribute."""
    return any(True for _ in serialised(function))


def serialised(function: n.Definition) -> Iterator[n.Name]:
    """Where a function names it."""
    for one in n.inside(function.body):
        if isinstance(one, n.Name) and one.text.rpartition("::")[2] == SERIALISED:
            yield one


def _calls(method: n.Definition) -> Iterator[n.Call]:
    return (one for one in n.inside(method.body) if isinstance(one, n.Call))


def _launch(call: n.Call) -> tuple[int, tuple[n.Expr, ...]]:
    """Place of the kernel and the extents of a launch of the runtime; no extents for others."""
    place = LAUNCHERS.get(shown(call.function).removeprefix("::"))
    if place is None or len(call.arguments) < 2:
        return 0, ()
    if not place:
        return 0, (*call.arguments[1:3], *call.arguments[4:5])
    config = call.arguments[0]
    config = config.operand if isinstance(config, n.Unary) else config
    return place, tuple(n.Field(config.at, config, one) for one in CONFIG)


def _own(call: n.Call) -> str:
    """The method of its own that a method calls."""
    match call.function:
        case n.Unary(operator="*", operand=n.Name(text="this")):
            return CALLED
        case n.Field(operand=n.Unary(operator="*", operand=n.Name(text="this")), name=name):
            return name
        case n.Name(text=text):
            return text
    return ""


def _plain(node: n.Expr) -> n.Expr:
    """An expression without casts, and without the function that hands it on as it was given."""
    while True:
        match node:
            case n.Cast(operand=operand):
                node = operand
            case n.Call(function=n.Name(text="std::forward" | "std::move"), arguments=(one,)):
                node = one
            case _:
                return node


def _parameter(node: n.Expr, function: n.Definition) -> int | None:
    """Which parameter of a function an expression is."""
    text = shown(_plain(node))
    places = [place for place, one in enumerate(function.parameters) if one.name == text]
    return places[0] if places else None


def _place(
    extent: n.Expr, maker: n.Definition, record: n.Record, library: Library
) -> int | None:  # fmt: skip
    """Which argument of a constructor an extent is that the object keeps in a field of its own, or
    in a field of the configuration that it keeps."""
    inner = extent.name if isinstance(extent, n.Field) else ""
    kept = _field(extent.operand if isinstance(extent, n.Field) else extent)
    for target, value in _assigned(maker.body):
        if inner and _field(target) == inner and isinstance(target, n.Field):
            if _field(target.operand) == kept:
                return _parameter(value, maker)
        elif _field(target) == kept:
            if not inner:
                return _parameter(value, maker)
            return _through(_plain(value), inner, maker, record, library)
    return None


def _through(
    value: n.Expr, inner: str, maker: n.Definition, record: n.Record, library: Library
) -> int | None:  # fmt: skip
    """Which argument a field of a configuration is, made by a function or written out."""
    if isinstance(value, n.Braces) and inner in CONFIG:
        place = CONFIG.index(inner)
        return _parameter(value.items[place], maker) if place < len(value.items) else None
    if not (isinstance(value, n.Call) and isinstance(value.function, n.Name)):
        return None
    last = value.function.text.rpartition("::")[2]
    own = [m for m in record.methods if m.name == last]
    for function in own or library.functions(last):
        for target, given in _assigned(function.body):
            if isinstance(target, n.Field) and target.name == inner:
                place_ = _parameter(given, function)
                if place_ is not None and place_ < len(value.arguments):
                    return _parameter(value.arguments[place_], maker)
    return None


def _assigned(body: n.Block) -> Iterator[tuple[n.Expr, n.Expr]]:
    for one in n.inside(body):
        if isinstance(one, n.Assign) and not one.operator:
            yield one.target, one.value


def _field(node: n.Expr) -> str:
    """The last name of a variable or a field."""
    if isinstance(node, n.Field):
        return node.name
    return node.text if isinstance(node, n.Name) else ""


def launches(call: n.Call) -> bool:
    """Whether a call launches by itself: angle brackets, or a function of the runtime."""
    named = isinstance(call.function, n.Name) and call.function.text in LAUNCHERS
    return named or bool(call.launch)
