"""What the host code of a file says of its kernels: launches, with the cases of their dispatch.

Host code is read, never run. A launch in another file than its kernel's is not seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from extractors.cuda import nodes as n
from extractors.cuda.block_origin import BlockOrigins
from extractors.cuda.block_size import one_block, warps_of_blocks
from extractors.cuda.capability import by_capability, by_compilation
from extractors.cuda.checks import Check, checked, stated
from extractors.cuda.chosen import by_the_host
from extractors.cuda.contracts import (
    block_limits,
    divisors,
    rows_of_warps,
    shared_fits,
    threads_fit,
    whole_warps,
)
from extractors.cuda.launch_site import LaunchSite, Names, constant, launch_of, own_names
from extractors.cuda.read import ReadCuda
from extractors.cuda.render import shown
from extractors.cuda.resident import (
    ASKED,
    QUERIES,
    Query,
    asking,
    asks_about,
    names_count,
    resident,
)
from extractors.cuda.routes import Routes
from extractors.cuda.split_count import parts_by_count
from extractors.cuda.vector_choice import vector_choice
from extractors.host.facts import HostFacts
from kb.evidence import Lines
from kb.ir import Kernel, ParameterKind
from kb.space import Constraint, GuardedPoints, Launch, Point, Scalar, Tuning

MAX_LAUNCHES = 400
MAX_STEPS = 200_000
MAX_KERNELS = 16
_LAUNCHERS = {"cudaLaunchKernelEx": 1, "cudaLaunchKernelExC": 1, "cudaLaunchKernel": 0,
              "cudaLaunchCooperativeKernel": 0}  # fmt: skip
"""Runtime functions that launch, with the place of the kernel. Source: CUDA Runtime API 13.0."""

_NONE: Mapping[str, n.Expr] = {}
_BLOCK = frozenset(f"block_{axis}" for axis in "xyz")


def host_facts(found: ReadCuda) -> Mapping[str, HostFacts]:
    """Launches and dispatched template arguments of every kernel, by its name."""
    unit = found.library.unit
    walker = _Walker(unit.functions, asking(unit.functions))
    for function in (one for many in unit.functions.values() for one in many):
        walker.function(function)
    for record in (one for many in unit.records.values() for one in many):
        constants = {f.name: f.value for f in record.fields if "static" in f.storage and f.value}
        for method in record.methods:
            walker.function(method, constants)
    pairs = list(zip(found.kernels, found.definitions, strict=True))
    facts: dict[str, HostFacts] = {}
    launched = frozenset(one.kernel.text.rpartition("::")[2] for one in walker.found)
    path = found.definitions[0].at.path if found.definitions else ""
    forks = Routes(unit.functions, launched, path).forks() if launched else ()
    origins = BlockOrigins(unit.functions, path)
    for kernel, definition in pairs:
        mine = [one for one in walker.found if _is(one, definition, [d for _, d in pairs])]
        launches = tuple(launch_of(one, definition, kernel.entry.parameter_names) for one in mine)
        tuning = _tuning(mine, definition)
        settled = _settled(launches, kernel)
        if tuning.mechanism == "none" and launches:
            tuning = replace(tuning, mechanism=_rule(launches, settled))
        tuning = replace(tuning, launched_with=settled)
        warps = warps_of_blocks([(one.shape[1], one.names, one.at) for one in mine])
        made = origins.lines(mine) if warps else set()
        warps = tuple(replace(w, lines=tuple(sorted({*w.lines, *made}))) for w in warps)
        grids = one_block([(one.shape[0], one.names, one.at) for one in mine])
        chosen = by_capability([(one.tests, one.names) for one in mine], found.library)
        counters = frozenset(walker.counters)
        blocks = resident(mine, walker.queries, definition.name, found.library, counters)
        parts = parts_by_count(mine, found.library, counters)
        led = {line for fork in forks for line in fork.lines(definition.name)} if mine else ()
        others = by_the_host(mine, walker.found, led)
        compiled = by_compilation(kernel, found.targets)
        kept = [
            *block_limits(definition, kernel),
            *threads_fit(launches),
            *whole_warps(kernel, launches),
            *rows_of_warps(kernel, launches),
            *shared_fits(launches),
            *(c for one in mine for c in divisors(one.names)),
        ]
        kept += _stated(mine, definition)
        vectors = (v for one in mine for v in vector_choice(definition, one.kernel, one.cases,
                                                            one.names))  # fmt: skip
        facts[kernel.name] = HostFacts(
            tuning=tuning, launches=launches,
            decisions=tuple(dict.fromkeys(
                (*warps, *grids, *chosen, *compiled, *blocks, *parts, *others, *vectors)
            )),
            constraints=tuple({c.expression: c for c in reversed(kept)}.values()),
        )  # fmt: skip
    return facts


def _stated(found: Sequence[LaunchSite], definition: n.Definition) -> list[Constraint]:
    """What the kernel asserts, and what every launch of it checks before."""
    own = [
        c
        for one in n.inside(definition.body)
        if isinstance(one, n.Assert | n.Call)
        for c in checked(one)
    ]
    each = [{c.expression: c for c in stated(one.checks, one.words(definition))} for one in found]
    common = [c for text, c in each[0].items() if all(text in o for o in each)] if each else []
    words = own_names(definition) | {name: name for name in ("blockDim", "gridDim")}
    return [*stated(own, words), *common]


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


def _is(found: LaunchSite, definition: n.Definition, all_of: Sequence[n.Definition]) -> bool:
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

    functions: Mapping[str, Sequence[n.Definition]] = field(default_factory=dict)
    asking: Mapping[str, Mapping[int, Lines]] = field(default_factory=dict)
    found: list[LaunchSite] = field(default_factory=list)
    queries: list[Query] = field(default_factory=list)
    counters: set[str] = field(default_factory=set)
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
                told = {key: value for key, value in self.names.items() if key.startswith("&")}
                self.names = before | told
            case n.Variable(name=name):
                self._walk((node.value, node.arguments))
                self.names[name] = node if node.value is None else node.value
            case n.If():
                text = shown(node.condition)
                self._walk((node.before, node.condition))
                around = self.tests
                self.tests = around if node.static else (*around, node.condition)
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
                self.counters |= {shown(target)} if names_count(value) else set()
            case n.Call():
                self._call(node)
            case n.Assert():
                self.checks += tuple(checked(node))
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
            for kernel in self._kernels(node.function):
                shape = (*node.launch, None, None)[:3]
                self._keep(kernel, shape, node.arguments, node.at)
            return
        self._asked(node)
        name = node.function.text if isinstance(node.function, n.Name) else ""
        self.checks += tuple(self._checked_by(name, node.arguments))
        place = _LAUNCHERS.get(name)
        if place is None or len(node.arguments) < 2:
            return
        for kernel in self._kernels(node.arguments[place]):
            if place:
                config = shown(node.arguments[0]).removeprefix("&")
                keys = ("gridDim", "blockDim", "dynamicSmemBytes")
                shape_ = tuple(self.names.get(f"{config}.{key}") for key in keys)
                self._keep(kernel, shape_, node.arguments[2:], node.at)
            else:
                given = (*node.arguments[1:3], *node.arguments[4:5])
                self._keep(kernel, given, self._pointed(node.arguments[3:4]), node.at)

    def _asked(self, node: n.Call) -> None:
        """What the runtime is asked of the device or of a kernel, and where the answer goes."""
        name = node.function.text if isinstance(node.function, n.Name) else ""
        if name in QUERIES or name == ASKED:
            self.names[shown(node.arguments[0])] = node
        for given, lines in asks_about(node, self.asking):
            self.queries += [
                Query(kernel.text.rpartition("::")[2], lines) for kernel in self._kernels(given)
            ]

    def _checked_by(self, name: str, arguments: Sequence[n.Expr]) -> Iterator[Check]:
        """What a function of the host that is called checks before anything else can end it."""
        called = self.functions.get(name, ())
        if len(called) != 1 or {"__global__", "__device__"} & set(called[0].words):
            return
        names = [one.name for one in called[0].parameters]
        handed = tuple(zip(names, map(shown, arguments), strict=False))
        for statement in called[0].body.body:
            inner = statement.value if isinstance(statement, n.Do) else statement
            for check in checked(inner):
                yield replace(check, handed=handed)

    def _pointed(self, given: Sequence[n.Expr]) -> tuple[n.Expr, ...]:
        """What the addresses in an array of arguments point to."""
        made = self.names.get(given[0].text) if given and isinstance(given[0], n.Name) else None
        items = made.items if isinstance(made, n.Braces) else ()
        found: list[n.Expr] = []
        for item in items:
            while isinstance(item, n.Cast | n.Unary):
                item = item.operand
            found.append(item)
        return tuple(found)

    def _keep(
        self, kernel: n.Name, shape: tuple[n.Expr | n.Variable | None, ...],
        arguments: tuple[n.Expr, ...], at: n.Place,
    ) -> None:  # fmt: skip
        self.found.append(
            LaunchSite(
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

    def _kernels(self, node: n.Expr) -> Iterator[n.Name]:
        """The kernels behind a name, a cast, a choice, or a variable that holds them."""
        pending = [node]
        for _ in range(MAX_KERNELS):
            if not pending:
                return
            one = pending.pop(0)
            if isinstance(one, n.Cast | n.Unary):
                pending.insert(0, one.operand)
            elif isinstance(one, n.Choice):
                pending[:0] = [one.then, one.other]
            elif isinstance(one, n.Name):
                held = self.names.get(one.text)
                if isinstance(held, n.Name | n.Cast | n.Unary | n.Choice) and held != one:
                    pending.insert(0, held)
                else:
                    yield one


def _tuning(found: Sequence[LaunchSite], definition: n.Definition) -> Tuning:
    """Template arguments that the launches enumerate; none when there is no choice."""
    numbers = [
        (place, one.name) for place, one in enumerate(definition.template)
        if one.dtype not in ("typename", "template") and one.name
    ]  # fmt: skip
    points: list[tuple[str, Point, LaunchSite]] = []
    open_: set[str] = set()
    for one in found:
        given = one.kernel.arguments
        point: list[tuple[str, Scalar]] = []
        for place, name in numbers:
            value = constant(given[place], one.names) if place < len(given) else None
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
