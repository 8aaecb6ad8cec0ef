"""The host contract of a Triton kernel that is written in its own dialect: a launch, and no more.

Every pointer of the kernel is an argument, those that it writes included: the host facts say how a
launch is made, not how results are allocated. What the launch computes from sizes is computed; what
cannot be told from the arguments becomes an argument of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from generators.host_text import HostNames, folded, rebuilt
from generators.launch_point import Capability
from generators.usage import Usage
from generators.usage_classes import Role
from kb.analysis.facts import Facts
from kb.analysis.parameters import parameters_of
from kb.dsl.model import Document
from kb.errors import CannotEmit, TileloreError
from kb.families.contract import Check, Constant, HostContract, ScalarContract, TensorContract
from kb.ir import Kernel, Parameter, ParameterKind
from kb.knowledge import ParameterRole
from kb.planner.expressions import names, parse, to_text
from kb.planner.nodes import Attribute, Expr, Index, Literal, Name, Unary
from kb.space import Binding, Launch, Scalar

GRID = "grid"
OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""Launch options of Triton that a host passes on."""

_METHODS = (
    (re.compile(r"([A-Za-z_]\w*)\.numel\(\)"), r"prod(\1.shape)"),
    (re.compile(r"\.element_size\(\)"), ".element_size"),
    (re.compile(r"\.dim\(\)"), ".ndim"),
    (re.compile(r"\btarget\.sms\b"), "device.sms"),
)
"""Methods of tensors in host facts, as the grammar of a contract says them."""

_SIZES = frozenset({"shape", "stride", "ndim", "element_size"})
_DTYPES = frozenset({"triton.language", "torch"})
_NUMBER = "int | float | bool"
_ANY = "object"
_HANDLE = "Any"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """What a launch is made from: the kernel as it is written, its space, the chosen values."""

    document: Document
    kernel: Kernel
    function: str
    summary: str
    capability: Capability
    values: Mapping[str, int]
    options: Mapping[str, Scalar]


def launch_contract(request: LaunchRequest) -> tuple[HostContract, tuple[str, ...]]:
    """The contract, and notes on what could not be told.

    Raises CannotEmit for a kernel without a pointer or descriptor.
    """
    found = [_Launch(request, launch) for launch in request.document.launches]
    best = min(found or [_Launch(request, None)], key=lambda launch: len(launch.open))
    if len(found) > 1:
        lines = sorted({launch.lines[0] for launch in request.document.launches})
        where = ", ".join(map(str, lines))
        best.notes.append(f"launch: one of {len(found)} in the source (line {where})")
        best.choose(found)
    return best.contract(), tuple(best.notes)


@dataclass(slots=True)
class _Launch:
    """One launch: what its expressions become under the names of the kernel's parameters."""

    request: LaunchRequest
    launch: Launch | None
    tensors: list[str] = field(default_factory=list)
    handles: list[str] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    defaults: dict[str, Scalar] = field(default_factory=dict)
    _hosts: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        usage, entry = Usage(self.request.kernel), self.request.kernel.entry
        bound = {b.parameter: b.expression for b in self.launch.bindings} if self.launch else {}
        for parameter in entry.parameters:
            roles = usage.of(entry.name, parameter.name).roles
            if parameter.kind is not ParameterKind.CONSTEXPR and Role.MEMORY in roles:
                self.tensors.append(parameter.name)
            elif roles & {Role.DESCRIPTOR, Role.LIST, Role.SEQUENCE}:
                self.handles.append(parameter.name)
        for name in self.tensors:
            text = bound.get(name, "")
            if text.isidentifier():
                self._hosts.setdefault(text, name)
        for parameter in entry.parameters:
            if parameter.name not in self.tensors:
                self._bind(parameter, bound.get(parameter.name))

    # -- one parameter

    def _bind(self, parameter: Parameter, text: str | None) -> None:
        name = parameter.name
        if name in self.request.values:
            self.texts[name] = name
            return
        if name in self.handles:
            self.texts[name] = name
            self.arguments[name] = _HANDLE
            return
        if text is None and parameter.has_default:
            # A runtime parameter is passed by its place, so one before others is written out.
            if parameter.kind is not ParameterKind.CONSTEXPR:
                self.texts[name] = repr(parameter.default)
            return
        found = self.resolved(text, of=name) if text is not None else None
        if found is None:
            self.open.append(name)
            self.texts[name] = name
            self.arguments[name] = _ANY if parameter.kind is ParameterKind.CONSTEXPR else _NUMBER
            shown = f"; the source passes `{text}`" if text and len(text) < 60 else ""
            self.notes.append(f"{name}: an argument, not told by the others{shown}")
        else:
            self.texts[name] = found

    def resolved(self, text: str, of: str = "") -> str | None:
        """An expression of the launch under the names of the kernel; None when it needs more."""
        for pattern, instead in _METHODS:
            text = pattern.sub(instead, text)
        try:
            tree = parse(folded(text, {"capability": self.request.capability}))
            tree = self._renamed(tree)
            scalars = set(self._scalars(tree, of))
            HostNames().text(to_text(tree))
        except TileloreError:
            return None
        for name in scalars:
            self.arguments.setdefault(name, _NUMBER)
        return to_text(tree)

    def _renamed(self, tree: Expr) -> Expr:
        """Tensors of the host under the names of the parameters that they are passed for."""

        def change(expr: Expr) -> Expr:
            if isinstance(expr, Name) and expr.name not in self.tensors:
                return Name(self._hosts.get(expr.name, expr.name))
            return rebuilt(expr, change)

        return change(tree)

    def _scalars(self, tree: Expr, of: str) -> Iterator[str]:
        """Names that the caller has to give.

        Raises CannotEmit for a name that stands for something else than a number.
        """
        parameters = set(self.request.kernel.entry.parameter_names)
        for name in names(tree):
            head, _, rest = name.partition(".")
            if name.rpartition(".")[0] in _DTYPES or name == "device.sms":
                continue
            if head in self.tensors:
                if rest not in _SIZES:
                    raise CannotEmit(f"`{name}` is no size.")
            elif head in self.request.values:
                continue
            elif rest or head == "unknown" or (head in parameters and head != of):
                raise CannotEmit(f"`{name}` is not known to the host.")
            else:
                yield head

    def choose(self, others: list[_Launch]) -> None:
        """A constant that the launches of the source differ in is an argument with a default."""
        for name in list(self.texts):
            values = {other.texts.get(name) for other in others}
            here = parse(self.texts[name])
            if isinstance(here, Literal) and len(values) > 1 and name not in self.arguments:
                self.arguments[name] = _NUMBER
                self.defaults[name] = here.value
                self.texts[name] = name

    # -- the contract

    def contract(self) -> HostContract:
        """Everything together."""
        if not self.tensors and not self.handles:
            raise CannotEmit(
                f"`{self.request.kernel.name}` takes no pointer and no descriptor.",
                where=str(self.request.kernel.entry.span),
                hint="A launch is written for kernels that take tensors.",
            )
        grid = self._grid()
        options = tuple(self._options())
        computed = {n: t for n, t in self.texts.items() if t != n}
        written = self._written()
        sized = self._sized([*computed.values(), *grid, *(text for _, text in options)])
        checks = (
            *self._rank_checks(sized),
            *self._constraints({**sized, self.tensors[0]: 0} if self.tensors else sized),
        )
        return HostContract(
            function=self.request.function,
            summary=self.request.summary,
            tensors=tuple(self._tensor(name, written, sized) for name in self.tensors),
            scalars=tuple(self._arguments()),
            outputs=(),
            constants=tuple(Constant(name=n, expression=t) for n, t in computed.items()),
            checks=checks,
            grid=grid,
            bindings=tuple(
                Binding(parameter=name, expression=name) for name in (*self.tensors, *self.texts)
            ),
            options=options,
            configuration=tuple(
                Constant(name=n, expression=str(v)) for n, v in self.request.values.items()
            ),
            written=tuple(name for name in self.tensors if name in written),
            searched=self._searched(),
            device="" if self.tensors else f"{self.handles[0]}.base",
        )

    def _grid(self) -> tuple[str, ...]:
        axes = self.launch.grid if self.launch else ()
        found = [self.resolved(axis) for axis in axes]
        known = tuple(text for text in found if text is not None)
        if axes and len(known) == len(axes):
            return known
        self.arguments[GRID] = "tuple[int, ...]"
        said = f"; the source computes `{', '.join(axes)}`" if axes else ""
        self.notes.append(f"grid: an argument{said if len(said) < 90 else ''}")
        return ()

    def _options(self) -> Iterator[tuple[str, str]]:
        given = dict(self.launch.hints) if self.launch else {}
        tuning = self.request.document.tuning
        given |= {n: v for n, v in (tuning.launched_with if tuning else ()) if n not in given}
        given |= self.request.options
        own = self.request.kernel.entry.parameter_names
        for name in (name for name in OPTIONS if name not in own):
            text = self.resolved(str(given[name])) if name in given else None
            if text is not None and text != name:
                yield name, text

    def _written(self) -> set[str]:
        """Pointers that the kernel stores to."""
        facts = parameters_of(Facts(self.request.kernel))
        roles = (ParameterRole.OUTPUT, ParameterRole.IN_OUT)
        return {fact.name for fact in facts if fact.role in roles}

    def _sized(self, texts: list[str]) -> dict[str, int]:
        """Axes that a tensor has at least, for those whose sizes are read."""
        found: dict[str, int] = {}

        def visit(expr: Expr) -> Expr:
            match expr:
                case Index(value=Attribute(value=Name(name=name)), index=index):
                    found[name] = max(found.get(name, 0), _axes(index))
                case Attribute(value=Name(name=name)):
                    found.setdefault(name, 0)
            return rebuilt(expr, visit)

        for text in texts:
            visit(parse(text))
        return {name: axes for name, axes in found.items() if name in self.tensors}

    def _tensor(self, name: str, written: set[str], sized: Mapping[str, int]) -> TensorContract:
        optional = name not in sized and name != self.tensors[0]
        what = "written by the kernel" if name in written else "read by the kernel"
        none = "; may be None where the kernel does not touch it" if optional else ""
        return TensorContract(
            name=name, dtypes=(), last_axis_contiguous=False, meaning=what + none,
            optional=optional,
        )  # fmt: skip

    def _rank_checks(self, sized: Mapping[str, int]) -> Iterator[Check]:
        for name, axes in sized.items():
            if axes:
                message = f"{name} has {{{name}.ndim}} axes; the launch reads {axes} of them"
                yield Check(expression=f"{name}.ndim >= {axes}", message=message)

    def _constraints(self, sized: Mapping[str, int]) -> Iterator[Check]:
        """Constraints on what the host knows; words that mean two things are left out."""
        meant = {n for n in self.texts if n not in self.arguments or n in self.request.values}
        for constraint in self.request.document.space.constraints:
            try:
                used = {n.partition(".")[0] for n in names(parse(constraint.expression))}
                HostNames().text(constraint.expression)
            except TileloreError:
                continue
            sizes = {n for n in names(parse(constraint.expression)) if "." in n}
            plain = all(name.rpartition(".")[2] in _SIZES for name in sizes)
            if used and plain and used <= meant | set(self.tensors):
                text = constraint.expression
                loose = sorted(name for name in used & set(self.tensors) if name not in sized)
                guard = " and ".join(f"{name} != None" for name in loose)
                yield Check(expression=text, message=f"`{text}` does not hold", when=guard)

    def _arguments(self) -> Iterator[ScalarContract]:
        defaults: dict[str, Scalar] = {
            p.name: p.default for p in self.request.kernel.entry.parameters if p.has_default
        }
        defaults |= self.defaults
        for name, annotation in self.arguments.items():
            meaning = {GRID: "blocks along every axis"}.get(name, "as the kernel takes it")
            if name in self.open or name in self.handles:
                meaning = f"the kernel's `{name}`"
            if name in self.defaults:
                meaning = "a constant in which the launches of the source differ"
            yield ScalarContract(
                name=name, annotation=annotation, default=defaults.get(name),
                has_default=name in defaults, meaning=meaning,
            )  # fmt: skip

    def _searched(self) -> tuple[tuple[tuple[str, Scalar], ...], ...]:
        tuning = self.request.document.tuning
        spaces = tuning.spaces if tuning is not None else ()
        return tuple(point for space in spaces for point in space.points)


def _axes(index: Expr) -> int:
    match index:
        case Literal(value=int(axis)):
            return axis + 1 if axis >= 0 else -axis
        case Unary(operand=Literal(value=int(axis))):
            return axis
    return 1
