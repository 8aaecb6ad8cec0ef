"""What the host code of a file says of its kernels: launches, with the cases of their dispatch.

Host code is read, never run. A launch in another file than its kernel's is not seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from extractors.cuda import nodes as n
from extractors.cuda.block_size import one_block, warps_of_blocks
from extractors.cuda.capability import by_capability
from extractors.cuda.checks import Check, checked, stated
from extractors.cuda.contracts import divisors, threads_fit, whole_warps
from extractors.cuda.read import ReadCuda
from extractors.cuda.render import shown
from extractors.cuda.vector_choice import vector_choice
from extractors.host.facts import HostFacts
from kb.ir import Kernel, ParameterKind
from kb.space import Binding, Constraint, GuardedPoints, Launch, Point, Scalar, Tuning

MAX_LAUNCHES = 400
MAX_STEPS = 200_000
_LAUNCHERS = {"cudaLaunchKernelEx": 1, "cudaLaunchKernelExC": 1, "cudaLaunchKernel": 0,
              "cudaLaunchCooperativeKernel": 0}  # fmt: skip
"""Runtime functions that launch, with the place of the kernel. Source: CUDA Runtime API 13.0."""

_AXES = ("x", "y", "z")
_NONE: Mapping[str, n.Expr] = {}
_BLOCK = frozenset(f"block_{axis}" for axis in _AXES)
Names = dict[str, n.Expr | n.Variable]


@dataclass(frozen=True, slots=True)
class _Found:
    """A launch of a kernel: what stands in its angle brackets, its arguments, its conditions."""

    kernel: n.Name
    shape: tuple[n.Expr | n.Variable | None, ...]
    arguments: tuple[n.Expr, ...]
    at: n.Place
    guards: tuple[str, ...]
    names: Names
    function: str
    checks: tuple[Check, ...] = ()
    cases: tuple[tuple[n.Expr, n.Expr], ...] = ()
    tests: tuple[n.Expr, ...] = ()

    def words(self, definition: n.Definition) -> dict[str, str]:
        """Parameters of the kernel by what the host calls them here."""
        found = _own_names(definition)
        held = {shown(value): label for value, label in self.cases}
        names = [*(one.name for one in definition.template[: len(self.kernel.arguments)]),
                 *(one.name for one in definition.parameters)]  # fmt: skip
        pairs = zip(names, (*self.kernel.arguments, *self.arguments), strict=False)
        for parameter, given in pairs:
            value = _constant(given, self.names)
            chosen = [text for text, label in held.items()
                      if value is not None and _constant(label, self.names) == value]  # fmt: skip
            found |= dict.fromkeys([shown(given), *chosen], parameter)
        return found


def host_facts(found: ReadCuda) -> Mapping[str, HostFacts]:
    """Launches and dispatched template arguments of every kernel, by its name."""
    walker = _Walker()
    unit = found.library.unit
    for function in (one for many in unit.functions.values() for one in many):
        walker.function(function)
    for record in (one for many in unit.records.values() for one in many):
        constants = {f.name: f.value for f in record.fields if "static" in f.storage and f.value}
        for method in record.methods:
            walker.function(method, constants)
    pairs = list(zip(found.kernels, found.definitions, strict=True))
    facts: dict[str, HostFacts] = {}
    for kernel, definition in pairs:
        mine = [one for one in walker.found if _is(one, definition, [d for _, d in pairs])]
        launches = tuple(_launch(one, definition, kernel.entry.parameter_names) for one in mine)
        tuning = _tuning(mine, definition)
        settled = _settled(launches, kernel)
        if tuning.mechanism == "none" and launches:
            tuning = replace(tuning, mechanism=_rule(launches, settled))
        tuning = replace(tuning, launched_with=settled)
        warps = warps_of_blocks([(one.shape[1], one.names, one.at) for one in mine])
        grids = one_block([(one.shape[0], one.names, one.at) for one in mine])
        chosen = by_capability([(one.tests, one.names) for one in mine], found.library)
        kept = [
            *threads_fit(launches),
            *whole_warps(kernel, launches),
            *(c for one in mine for c in divisors(one.names)),
        ]
        kept += _stated(mine, definition)
        vectors = (v for one in mine for v in vector_choice(definition, one.kernel, one.cases,
                                                            one.names))  # fmt: skip
        facts[kernel.name] = HostFacts(
            tuning=tuning, launches=launches,
            decisions=(*warps, *grids, *chosen, *dict.fromkeys(vectors)),
            constraints=tuple({c.expression: c for c in reversed(kept)}.values()),
        )  # fmt: skip
    return facts


def _stated(found: Sequence[_Found], definition: n.Definition) -> list[Constraint]:
    """What the kernel asserts, and what every launch of it checks before."""
    own = [
        c for one in n.inside(definition.body) if isinstance(one, n.Assert) for c in checked(one)
    ]
    each = [{c.expression: c for c in stated(one.checks, one.words(definition))} for one in found]
    common = [c for text, c in each[0].items() if all(text in o for o in each)] if each else []
    return [*stated(own, _own_names(definition)), *common]


def _own_names(definition: n.Definition) -> dict[str, str]:
    names = (*(p.name for p in definition.template), *(p.name for p in definition.parameters))
    return dict(zip(names, names, strict=True))


def _settled(launches: Sequence[Launch], kernel: Kernel) -> Point:
    """Numbers that every launch gives: template arguments, extents of the block, and the fewest
    blocks that the kernel promises to share a multiprocessor."""
    templates = {p.name for p in kernel.entry.parameters if p.kind is ParameterKind.CONSTEXPR}
    given = [
        {b.parameter: b.expression for b in one.bindings if b.parameter in templates}
        | {name: str(value) for name, value in one.hints}
        for one in launches
    ]
    found: list[tuple[str, Scalar]] = [
        (name, int(value))
        for name, value in (given[0].items() if given else ())
        if value.isdigit() and all(other.get(name) == value for other in given)
    ]
    least = dict(kernel.entry.options).get("min_blocks")
    return (*found, ("occupancy", least)) if isinstance(least, int) else tuple(found)


def _rule(launches: Sequence[Launch], settled: Point) -> str:
    """`host rule` when the host computes an extent of a block; `fixed` when all is constant."""
    extents = [value for one in launches for name, value in one.hints if name in _BLOCK]
    if any(isinstance(value, str) and value != "?" for value in extents):
        return "host rule"
    return "fixed" if settled else "none"


def _is(found: _Found, definition: n.Definition, all_of: Sequence[n.Definition]) -> bool:
    """Whether a launch is of a definition; overloads are told apart by their parameters."""
    if found.kernel.text.rpartition("::")[2] != definition.name:
        return False
    same = [d for d in all_of if d.name == definition.name]
    if len(same) == 1:
        return True
    fitting = [
        d for d in same
        if len(d.parameters) == len(found.arguments)
        and len(d.template) >= len(found.kernel.arguments)
    ]  # fmt: skip
    return fitting == [definition]


@dataclass(slots=True)
class _Walker:
    """Walks host functions in order and remembers what names were last given."""

    found: list[_Found] = field(default_factory=list)
    names: Names = field(default_factory=dict)
    guards: tuple[str, ...] = ()
    steps: int = 0
    within: str = ""
    checks: tuple[Check, ...] = ()
    cases: tuple[tuple[n.Expr, n.Expr], ...] = ()
    tests: tuple[n.Expr, ...] = ()

    def function(self, function: n.Definition, constants: Mapping[str, n.Expr] = _NONE) -> None:
        """Every launch in a function of the host, which may be a method of a struct with
        constants."""
        if "__global__" in function.words:
            return
        self.names, self.guards, self.within = dict(constants), (), function.name
        self.checks = self.cases = self.tests = ()
        self._walk(function.body)

    def _walk(self, node: object) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS or len(self.found) >= MAX_LAUNCHES:
            return
        match node:
            case tuple():
                for one in node:
                    self._walk(one)
            case n.Block(body=body):
                before = self.names
                self.names = dict(before)
                self._walk(body)
                self.names = before
            case n.Variable(name=name):
                self._walk((node.value, node.arguments))
                self.names[name] = node if node.value is None else node.value
            case n.If():
                text = shown(node.condition)
                self._walk((node.before, node.condition))
                around, self.tests = self.tests, (*self.tests, node.condition)
                self._scoped(node.then, (text,))
                self._scoped(node.other, (f"not ({text})",))
                self.tests = around
                self.checks += tuple(checked(node))
            case n.Switch(value=value, cases=cases):
                self._walk(value)
                passed = tuple(checked(node))
                for label, body in cases:
                    when = f"{shown(value)} == {shown(label)}" if label is not None else "otherwise"
                    held = self.cases
                    self.cases = (*held, (value, label)) if label is not None else held
                    self._scoped(body, (when,), passed)
                    self.cases = held
                self.checks += passed
            case n.Assign(target=target, value=value):
                self._walk(value)
                self.names[shown(target)] = value
            case n.Call():
                self._call(node)
            case n.Expr() | n.Stmt():
                for part in type(node).__dataclass_fields__:
                    inner = getattr(node, part)
                    if isinstance(inner, tuple | n.Expr | n.Stmt):
                        self._walk(inner)

    def _scoped(
        self, node: object, guards: tuple[str, ...], passed: tuple[Check, ...] = ()
    ) -> None:
        names, before, checks = dict(self.names), self.guards, self.checks
        self.guards, self.checks = (*before, *guards), (*checks, *passed)
        self._walk(node)
        self.names, self.guards, self.checks = names, before, checks

    def _call(self, node: n.Call) -> None:
        self._walk((node.function, node.arguments))
        self.checks += tuple(checked(node))
        if node.launch:
            kernel = self._kernel(node.function)
            if kernel is not None:
                shape = (*node.launch, None, None)[:3]
                self._keep(kernel, shape, node.arguments, node.at)
            return
        name = node.function.text if isinstance(node.function, n.Name) else ""
        place = _LAUNCHERS.get(name)
        if place is None or len(node.arguments) < 2:
            return
        kernel = self._kernel(node.arguments[place])
        if kernel is None:
            return
        if place:
            config = shown(node.arguments[0]).removeprefix("&")
            keys = ("gridDim", "blockDim", "dynamicSmemBytes")
            shape_ = tuple(self.names.get(f"{config}.{key}") for key in keys)
            self._keep(kernel, shape_, node.arguments[2:], node.at)
        else:
            given = (*node.arguments[1:3], *node.arguments[4:5])
            self._keep(kernel, given, (), node.at)

    def _keep(
        self, kernel: n.Name, shape: tuple[n.Expr | n.Variable | None, ...],
        arguments: tuple[n.Expr, ...], at: n.Place,
    ) -> None:  # fmt: skip
        self.found.append(
            _Found(
                kernel,
                shape,
                arguments,
                at,
                self.guards,
                dict(self.names),
                self.within,
                self.checks,
                self.cases,
                self.tests,
            )
        )

    def _kernel(self, node: n.Expr) -> n.Name | None:
        """The kernel behind a name, a cast or a variable that holds it."""
        for _ in range(8):
            while isinstance(node, n.Cast | n.Unary):
                node = node.operand
            if not isinstance(node, n.Name):
                return None
            held = self.names.get(node.text)
            if not isinstance(held, n.Name | n.Cast | n.Unary):
                return node
            node = held
        return None


def _launch(found: _Found, definition: n.Definition, parameters: Sequence[str]) -> Launch:
    grid, block, shared = (*found.shape, None, None, None)[:3]
    hints: list[tuple[str, Scalar]] = []
    for axis, extent in zip(_AXES, _extents(block, found.names), strict=False):
        hints.append((f"block_{axis}", int(extent) if extent.isdigit() else extent))
    if shared is not None and (size := shown(_value(shared, found.names))) != "0":
        hints.append(("shared_bytes", int(size) if size.isdigit() else size))
    bindings = [
        Binding(parameter=one.name, expression=_argument(given, found.names))
        for one, given in zip(definition.template, found.kernel.arguments, strict=False)
        if one.name in parameters
    ]
    runtime = parameters[len(definition.template) :]
    bindings += [
        Binding(parameter=name, expression=shown(given))
        for name, given in zip(runtime, found.arguments, strict=False)
    ]
    return Launch(
        grid=tuple(_extents(grid, found.names)),
        bindings=tuple(bindings),
        hints=tuple(hints),
        lines=(found.at.line, max(found.at.line, found.at.end_line)),
        when=" and ".join(found.guards) or "always",
        host_function=found.function,
    )


def _value(node: n.Expr | n.Variable, names: Names) -> n.Expr | n.Variable:
    """What a name was last given, one step back."""
    if isinstance(node, n.Name):
        return names.get(node.text, node)
    return node


def _extents(node: n.Expr | n.Variable | None, names: Names) -> Iterator[str]:
    """Extents of a grid or block, x first: a dim3, or one number."""
    if node is None:
        yield "?"
        return
    found = _value(node, names)
    if isinstance(found, n.Variable):
        yield from (shown(one) for one in found.arguments or (n.Name(found.at, found.name),))
    elif isinstance(found, n.Braces):
        yield from (shown(one) for one in found.items)
    elif isinstance(found, n.Call) and shown(found.function) == "dim3":
        yield from (shown(one) for one in found.arguments)
    elif isinstance(node, n.Name) and isinstance(found, n.Constant):
        yield shown(found)
    else:
        yield shown(node)


def _argument(given: n.CType | n.Expr, names: Names) -> str:
    value = _constant(given, names)
    return str(value) if value is not None else shown(given)


def _constant(given: n.CType | n.Expr, names: Names) -> Scalar:
    """The number or truth value that a template argument surely is."""
    if isinstance(given, n.CType):
        plain = not given.pointers and not given.arguments
        found = names.get(given.name) if plain else None
        return _constant(found, names) if isinstance(found, n.Constant) else None
    if isinstance(given, n.Name):
        held = names.get(given.text)
        return held.value if isinstance(held, n.Constant) else None
    return given.value if isinstance(given, n.Constant) else None


def _tuning(found: Sequence[_Found], definition: n.Definition) -> Tuning:
    """Template arguments that the launches enumerate; none when there is no choice."""
    numbers = [
        (place, one.name) for place, one in enumerate(definition.template)
        if one.dtype not in ("typename", "template") and one.name
    ]  # fmt: skip
    points: list[tuple[str, Point, _Found]] = []
    open_: set[str] = set()
    for one in found:
        given = one.kernel.arguments
        point: list[tuple[str, Scalar]] = []
        for place, name in numbers:
            value = _constant(given[place], one.names) if place < len(given) else None
            if value is None:
                open_.add(name)
            else:
                point.append((name, value))
        points.append((" and ".join(one.guards) or "always", tuple(point), one))
    varied = [
        name for _, name in numbers
        if name not in open_ and len({dict(p).get(name) for _, p, _ in points}) > 1
    ]  # fmt: skip
    if not varied:
        return Tuning()
    reason = f"{', '.join(sorted(open_))}: not known where it is launched" if open_ else None
    spaces = tuple(
        GuardedPoints(
            when=when, points=(tuple((k, v) for k, v in point if k in varied),),
            complete=not open_, reason=reason, lines=(one.at.line, one.at.end_line),
        )
        for when, point, one in points
    )  # fmt: skip
    lines = (min(o.at.line for o in found), max(o.at.end_line for o in found))
    return Tuning(mechanism="dispatch", spaces=spaces, effective_axes=tuple(varied), lines=lines)
