"""Random documents for the laws of the DSL."""

from __future__ import annotations

from hypothesis import strategies as st

from kb.dsl.model import Document, DocumentKind, Refusal, ValueMark
from kb.evidence import AxisKind, Decision, Finding, Measurement, Severity
from kb.space import (
    Axis,
    Binding,
    Constraint,
    DesignSpace,
    GuardedPoints,
    Launch,
    Origin,
    Scalar,
    Tuning,
)

TEXT = st.text(max_size=12)
OPTIONAL = st.none() | TEXT
NAME = st.sampled_from(
    ["TILE_M", "num_stages", "occupancy", "a b", "x.y", "case", "é", "by", "int"]
)
SCALAR: st.SearchStrategy[Scalar] = st.one_of(
    st.integers(-(10**12), 10**12),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.none(),
    TEXT,
)
LINES = st.tuples(st.integers(0, 999), st.integers(0, 999))
SPANS = st.lists(LINES, max_size=2).map(tuple)
POINT = st.lists(st.tuples(NAME, SCALAR), max_size=3).map(tuple)
TEXTS = st.lists(TEXT, max_size=3).map(tuple)
EXPRESSION = st.sampled_from(
    ["a <= b", 'x in ["a;b", "#{}"]', "cdiv(q, 2) == target.sms", "not a", "(a + b) % 2 == 0"]
)
RUN = st.builds(
    lambda first, count: tuple(range(first, first + count)), st.integers(-5, 5), st.integers(0, 6)
)
VALUES = RUN | st.lists(SCALAR, max_size=4).map(tuple)


@st.composite
def axes(draw: st.DrawFn) -> tuple[Axis, ...]:
    """Axes with distinct known names, each in the space of its kind."""
    kinds = {
        "softmax_scheme": AxisKind.DESIGN,
        "mask_fusion": AxisKind.DESIGN,
        "accum_dtype": AxisKind.DESIGN,
        "tile_m": AxisKind.TUNING,
        "load_latency": AxisKind.TUNING,
        "num_warps": AxisKind.TUNING,
        "autotuning": AxisKind.HOST,
    }
    names = draw(st.lists(st.sampled_from(sorted(kinds)), unique=True, max_size=5))
    return tuple(
        Axis(
            name=name,
            kind=kinds[name],
            values=draw(VALUES),
            origin=draw(st.sampled_from(Origin)),
            by=draw(OPTIONAL),
            derived_from=draw(TEXTS),
            rationale=draw(OPTIONAL),
        )
        for name in names
    )


CONSTRAINT = st.builds(
    Constraint,
    expression=EXPRESSION,
    origin=st.sampled_from(Origin),
    because=OPTIONAL,
    hint=OPTIONAL,
    source=OPTIONAL,
    lines=st.none() | LINES,
    checked_by_host=st.booleans(),
)
CASE = st.builds(
    GuardedPoints,
    when=TEXT,
    points=st.lists(POINT, max_size=2).map(tuple),
    complete=st.booleans(),
    reason=OPTIONAL,
    lines=st.none() | LINES,
)
TUNING = st.builds(
    Tuning,
    mechanism=TEXT.filter(bool),
    spaces=st.lists(CASE, max_size=2).map(tuple),
    effective_axes=TEXTS,
    dead_axes=TEXTS,
    launched_with=POINT,
    timed_with=POINT,
    cache_key=st.none() | TEXTS,
    lines=st.none() | LINES,
)
LAUNCH = st.builds(
    Launch,
    grid=TEXTS,
    bindings=st.lists(st.builds(Binding, parameter=NAME, expression=TEXT), max_size=2).map(tuple),
    hints=POINT,
    lines=LINES,
    when=TEXT.filter(bool),
    host_function=OPTIONAL,
)
DECISION = st.builds(
    Decision,
    axis=TEXT,
    value=TEXT,
    pattern=TEXT,
    lines=SPANS,
    kind=st.sampled_from(AxisKind),
    subject=OPTIONAL,
    file=OPTIONAL,
    elsewhere=st.lists(st.tuples(TEXT, LINES), max_size=3).map(lambda x: tuple(sorted(set(x)))),
)
FINDING = st.builds(
    Finding,
    rule=TEXT,
    severity=st.sampled_from(Severity),
    message=TEXT,
    lines=SPANS,
    fix=OPTIONAL,
)
PAIRS = st.lists(st.tuples(TEXT, TEXT), max_size=2).map(tuple)
MEASUREMENT = st.builds(
    Measurement,
    metric=TEXT,
    value=st.floats(allow_nan=False, allow_infinity=False),
    unit=TEXT,
    target=TEXT,
    samples=st.integers(0, 99),
    seed=st.integers(0, 99),
    versions=PAIRS,
    kernel_digest=TEXT,
    problem=PAIRS,
    point=PAIRS,
)
REFUSAL = st.builds(
    Refusal, axis=TEXT, value=TEXT, reason=TEXT, source=OPTIONAL, derived_from=TEXTS
)
PROGRAM = st.none() | st.lists(st.sampled_from(["", "  ", "}", "a {", "  b # c", "\t", "x"])).map(
    "\n".join
)
MAPPED = st.sampled_from(
    ["softmax_scheme", 'softmax_scheme "online"', "tile_m 3", "-> x", "a  b", ""]
)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    """Whole documents; marks name values of their axes, in order."""
    space = DesignSpace(
        name=draw(TEXT),
        operation=draw(TEXT),
        axes=draw(axes()),
        constraints=draw(st.lists(CONSTRAINT, max_size=2).map(tuple)),
        mapping=draw(st.lists(st.tuples(MAPPED, TEXT), max_size=3).map(tuple)),
        holes=draw(TEXTS),
        dialect=draw(OPTIONAL),
        source_digest=draw(OPTIONAL),
        derived_from=draw(TEXTS),
    )
    marks = tuple(
        ValueMark(axis=axis.name, value=axis.values[0], origin=Origin.PROPOSED, by=draw(OPTIONAL))
        for axis in space.axes
        if len(axis.values) == 1 and draw(st.booleans())
    )
    return Document(
        space=space,
        kind=draw(st.sampled_from(DocumentKind)),
        tuning=draw(st.none() | TUNING),
        launches=draw(st.lists(LAUNCH, max_size=2).map(tuple)),
        program=draw(PROGRAM),
        decisions=draw(st.lists(DECISION, max_size=2).map(tuple)),
        findings=draw(st.lists(FINDING, max_size=1).map(tuple)),
        measurements=draw(st.lists(MEASUREMENT, max_size=1).map(tuple)),
        refused=draw(st.lists(REFUSAL, max_size=2).map(tuple)),
        parameters=draw(TEXTS),
        path=draw(OPTIONAL),
        package=draw(OPTIONAL),
        licence=draw(OPTIONAL),
        lines=draw(st.none() | LINES),
        marks=marks,
    )
