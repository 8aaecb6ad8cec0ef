"""Random well-formed records for law tests: kernels, knowledge, design spaces, measurements."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from hypothesis import strategies as st

from kb.evidence import AxisKind, Decision, Finding, Lines, Measurement, Severity
from kb.ir import (
    Function,
    Kernel,
    Literal,
    MemorySpace,
    Op,
    Parameter,
    ParameterKind,
    Region,
    Span,
    TileType,
    TypeKind,
    Value,
)
from kb.knowledge import KernelKnowledge, ParameterFact, ParameterRole, Source
from kb.space import (
    Axis,
    Binding,
    Constraint,
    DesignSpace,
    GuardedPoints,
    Launch,
    Origin,
    Point,
    Scalar,
    Tuning,
)

HINTS = st.sampled_from(
    ["", "acc", "x", "q_1", "größe", 'a"{b', "two words", "then", "a.b", "#", "%"]
)
NAMES = st.sampled_from(
    ["x", "out", "TILE_M", "größe", "if", "with space", 'q"', "{", "kernel", "do"]
)
TEXTS = st.text(max_size=12) | st.sampled_from(
    ["", "}{", '"', "\\", "# no", "\n", "\u2028", "\x00"]
)
SOME_TEXT = TEXTS.filter(bool)
PLAIN = st.sampled_from(["a", "b c", "tile_m", "größe/2", "<x>", "100%", "..", "A", "a-", "-a"])
LITERALS: st.SearchStrategy[Literal] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=2**255, max_value=2**300),
    st.floats(allow_nan=False),
    st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 0.0, 1e300, 5e-324]),
    TEXTS,
)
SPANS = (
    st.just(Span(0))
    | st.builds(
        Span,
        st.integers(0, 9999),
        st.integers(0, 200),
        st.integers(0, 9999),
        st.sampled_from(["", "k.py", 'a/größe "x".py']),
        st.sampled_from([0, 1, 512]),
    )
    | st.builds(
        Span,
        st.integers(1, 99),
        call=st.integers(1, 99),
        via=st.lists(st.integers(1, 99)).map(tuple),
    )
)
EXTENTS = st.sampled_from(
    ["16", "TILE_M", "2 * TILE_D", "?", "cdiv(N, 4)", "a, b", "", " ", "x]", "(", "-1"]
)
TYPES = st.builds(
    TileType,
    st.sampled_from(TypeKind),
    st.sampled_from(["f32", "?", "dtypeof(Q)", "weird type>", "", "i1"]),
    st.lists(EXTENTS, max_size=3).map(tuple),
    st.sampled_from(MemorySpace),
)
PURE_KINDS = ("const", "add", "mma", "load_tile", "opaque", "reduce_max", "cast", "store_tile")


@dataclass
class _Writer:
    """Draws the body of one function; `known` are the values in scope."""

    draw: st.DrawFn
    helpers: tuple[Function, ...]
    known: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def fresh(self) -> Value:
        name = f"{self.draw(HINTS)}.{len(self.used)}"
        self.used.add(name)
        return Value(name, self.draw(st.none() | TYPES))

    def values(self, count: int) -> tuple[Value, ...]:
        return tuple(self.fresh() for _ in range(count))

    def operands(self, roles: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
        if not self.known:
            return ()
        return tuple((role, self.draw(st.sampled_from(self.known))) for role in roles)

    def op(self, kind: str, operands: tuple[tuple[str, str], ...], results: tuple[Value, ...],
           regions: tuple[Region, ...] = ()) -> Op:  # fmt: skip
        """An operation with drawn attributes and span; its results come into scope."""
        attributes = self.draw(st.lists(st.tuples(NAMES, LITERALS), max_size=2).map(tuple))
        self.known.extend(value.name for value in results)
        return Op(kind, operands, attributes, results, regions, self.draw(SPANS))

    def region(self, depth: int, carried: int, arguments: tuple[Value, ...], last: str) -> Region:
        """A region that hands over `carried` values by its terminator."""
        outer = list(self.known)
        self.known.extend(value.name for value in arguments)
        ops: list[Op] = []
        if not self.known:
            ops.append(self.op("const", (), self.values(1)))
        for _ in range(self.draw(st.integers(0, 3))):
            ops.append(self.step(depth))
        names = tuple(self.draw(NAMES) for _ in range(carried))
        ops.append(Op(last, self.operands(names), (), (), (), self.draw(SPANS)))
        self.known = outer
        return Region(arguments, tuple(ops))

    def step(self, depth: int) -> Op:
        kinds = ("pure", "pure", "call") + (
            ("for", "while", "if", "if_expression") if depth else ()
        )
        kind = str(self.draw(st.sampled_from(kinds)))
        if not self.known or kind == "pure" or (kind == "call" and not self.helpers):
            roles = tuple(self.draw(st.lists(NAMES, max_size=3)))
            count = int(self.draw(st.integers(0, 2)))
            return self.op(
                str(self.draw(st.sampled_from(PURE_KINDS))),
                self.operands(roles),
                self.values(count),
            )
        if kind == "call":
            return self.call()
        carried = int(self.draw(st.integers(0, 2)))
        return self.nested(kind, depth, carried)

    def call(self) -> Op:
        helper: Function = self.draw(st.sampled_from(self.helpers))
        operands = self.operands(helper.parameter_names)
        op = self.op("call", operands, self.values(1))
        return Op("call", operands, (("callee", helper.name),), op.results, (), op.span)

    def nested(self, kind: str, depth: int, carried: int) -> Op:
        head = {"for": ("iterable",), "while": ()}.get(kind, ("condition",))
        carried = 1 if kind == "if_expression" else carried
        init = ("init",) * carried if kind in ("for", "while") else ()
        operands = self.operands((*head, *init))
        regions: tuple[Region, ...]
        if kind == "for":
            last = str(self.draw(st.sampled_from(["yield", "break", "continue", "return"])))
            regions = (
                self.region(
                    depth - 1, carried if last != "return" else 1, self.values(carried + 1), last
                ),
            )
        elif kind == "while":
            test = self.region(depth - 1, 1, self.values(carried), "yield")
            regions = (test, self.region(depth - 1, carried, self.values(carried), "yield"))
        else:
            regions = tuple(self.region(depth - 1, carried, (), "yield") for _ in range(2))
        return self.op(kind, operands, self.values(carried), regions)


@st.composite
def functions(
    draw: st.DrawFn, name: str, helpers: tuple[Function, ...] = (), depth: int = 2
) -> Function:
    """A function that may call `helpers`."""
    names = draw(st.lists(NAMES, max_size=4, unique=True))
    parameters = []
    for parameter in names:
        default = draw(st.none() | LITERALS.map(lambda value: (value,)))
        annotation = draw(st.sampled_from(["", "f32", "int", "odd >"]))
        kind = draw(st.sampled_from(ParameterKind))
        plain = default[0] if default else None
        parameters.append(Parameter(parameter, kind, annotation, plain, default is not None))
    writer = _Writer(draw, helpers, list(names), set(names))
    body = writer.region(depth, 0, (), "return")
    options = draw(st.lists(st.tuples(NAMES, LITERALS), max_size=2).map(tuple))
    return Function(name, tuple(parameters), body, draw(SPANS), options, draw(st.booleans()))


@st.composite
def kernels(draw: st.DrawFn, depth: int = 2) -> Kernel:
    """A well-formed program: nested control flow, helpers that call helpers, odd names."""
    helpers: tuple[Function, ...] = ()
    for name in ("helper", "größe 2")[: draw(st.integers(0, 2))]:
        helpers += (draw(functions(name, helpers, 1)),)
    entry: Function = draw(functions("kernel_entry", helpers, depth))
    return Kernel(entry, helpers, draw(st.sampled_from(["cutile", "triton", ""])))


# -- what is known of a kernel

LINES: st.SearchStrategy[Lines] = st.integers(1, 500).flatmap(
    lambda first: st.tuples(st.just(first), st.integers(first, 999))
)
DIGESTS = st.text("0123456789abcdef", min_size=64, max_size=64)
SCALARS: st.SearchStrategy[Scalar] = LITERALS
POINTS: st.SearchStrategy[Point] = st.lists(st.tuples(TEXTS, SCALARS), max_size=3).map(tuple)


def some(strategy: st.SearchStrategy[object], size: int = 2) -> st.SearchStrategy[object]:
    """A short tuple."""
    return st.lists(strategy, max_size=size).map(tuple)


def maybe(strategy: st.SearchStrategy[object] = TEXTS) -> st.SearchStrategy[object]:
    """None, or something that may be empty."""
    return st.none() | strategy


CONSTRAINTS = st.builds(
    Constraint, expression=TEXTS, origin=st.sampled_from(Origin), because=maybe(), hint=maybe(),
    source=maybe(), lines=maybe(LINES), checked_by_host=st.booleans(),
)  # fmt: skip
DECISIONS = st.builds(
    Decision, axis=PLAIN, value=TEXTS, pattern=PLAIN, lines=some(LINES),
    kind=st.sampled_from(AxisKind), subject=maybe(), file=maybe(),
)  # fmt: skip
CASES = st.builds(
    GuardedPoints, when=TEXTS, points=some(POINTS), complete=st.booleans(), reason=maybe(),
    lines=maybe(LINES),
)  # fmt: skip
TUNINGS = st.builds(
    Tuning, mechanism=TEXTS, spaces=some(CASES), effective_axes=some(TEXTS), dead_axes=some(TEXTS),
    launched_with=POINTS, timed_with=POINTS, cache_key=maybe(some(TEXTS)), lines=maybe(LINES),
)  # fmt: skip
LAUNCHES = st.builds(
    Launch, grid=some(TEXTS, 3),
    bindings=some(st.builds(Binding, parameter=TEXTS, expression=TEXTS)),
    hints=POINTS, lines=LINES, when=TEXTS, host_function=maybe(),
)  # fmt: skip
PARAMETERS = st.builds(
    ParameterFact, name=TEXTS, kind=st.sampled_from(["tensor", "scalar", "constexpr"]),
    role=st.sampled_from(ParameterRole), dtype=maybe(), rank=st.none() | st.integers(0, 5),
)  # fmt: skip
FINDINGS = st.builds(
    Finding, rule=PLAIN, severity=st.sampled_from(Severity), message=TEXTS, lines=some(LINES),
    fix=maybe(),
)  # fmt: skip
SOURCES = st.builds(
    Source, path=st.sampled_from(["a/b.py", "../x y.py", "/abs//é.py", "k.py"]), sha256=DIGESTS,
    dialect=st.sampled_from(["cutile", "triton"]), package=maybe(), licence=maybe(),
)  # fmt: skip


def knowledge() -> st.SearchStrategy[KernelKnowledge]:
    """Everything that extract may say about one kernel, oddities included."""
    return st.builds(
        KernelKnowledge, kernel=kernels(1), source=SOURCES, lines=LINES, operation=maybe(PLAIN),
        parameters=some(PARAMETERS), decisions=some(DECISIONS), tuning=TUNINGS,
        launches=some(LAUNCHES), constraints=some(CONSTRAINTS), findings=some(FINDINGS),
        operations=st.integers(0, 99), opaque=st.integers(0, 9),
    )  # fmt: skip


def design_spaces() -> st.SearchStrategy[DesignSpace]:
    """Spaces and templates."""
    axes = st.builds(
        Axis, name=TEXTS, kind=st.sampled_from(AxisKind), values=some(SCALARS, 3),
        origin=st.sampled_from(Origin), by=maybe(), derived_from=some(TEXTS), rationale=maybe(),
    )  # fmt: skip
    return st.builds(
        DesignSpace, name=TEXTS, operation=PLAIN, axes=some(axes), constraints=some(CONSTRAINTS),
        mapping=some(st.tuples(TEXTS, TEXTS)), holes=some(TEXTS), dialect=maybe(),
        source_digest=maybe(DIGESTS), derived_from=some(TEXTS),
    )  # fmt: skip


def measurements() -> st.SearchStrategy[Measurement]:
    """Measurements with any number, zero and infinity included."""
    pairs = some(st.tuples(TEXTS, TEXTS))
    return st.builds(
        Measurement, metric=PLAIN, value=st.floats(allow_nan=False),
        unit=st.sampled_from(["us", "µs", "", "MHz"]),
        target=PLAIN, samples=st.integers(0, 9999), seed=st.integers(), versions=pairs,
        kernel_digest=DIGESTS, problem=pairs, point=pairs,
    )  # fmt: skip
