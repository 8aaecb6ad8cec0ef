"""Axis entries as records: which space an axis belongs to, who says so, what it was called."""

from __future__ import annotations

from kb.dsl.fields import Source, Words
from kb.dsl.model import ValueMark
from kb.dsl.tree import Element, Field, IntRange, Listing, Section, anchors
from kb.errors import UnknownName
from kb.evidence import AxisKind, Diagnostic, Severity
from kb.space import Axis, Origin, Scalar
from kb.vocabulary_model import AxisTerm, Vocabulary, folded

MAX_VALUES = 4096
SECTION_OF = {
    AxisKind.DESIGN: "design_space",
    AxisKind.TUNING: "tuning_space",
    AxisKind.HOST: "host_space",
}


class Axes:
    """Collects the axes of all space sections; `own` are the kernel's parameters and hints."""

    def __init__(self, source: Source, vocabulary: Vocabulary, own: set[str]) -> None:
        self.source = source
        self.vocabulary = vocabulary
        self.own = own
        self.axes: list[tuple[int, Axis]] = []
        self.marks: list[ValueMark] = []
        self.notes: list[Diagnostic] = []
        self.canonical: list[tuple[str, str]] = []
        self.moves: dict[tuple[str, ...], tuple[str, ...]] = {}
        self.blocks = 0
        self.block_of: dict[AxisKind, int] = {}

    def add(self, section: Section, kind: AxisKind) -> None:
        """Read the axes of one section, which is written for axes of `kind`."""
        self.blocks += 1
        self.block_of[kind] = self.blocks
        fields = self.source.only(section.entries, Field, section)
        for anchor, field in zip(anchors(section.entries), fields, strict=True):
            term = self._term(field, kind)
            actual = self._kind(field, term, kind)
            if actual is not kind:
                self._move(field, actual, kind)
                self.moves[(section.key, anchor)] = (SECTION_OF[actual], field.key)
            axis = self._axis(field, actual)
            self._refuse_second(field, axis, term)
            self.axes.append((self.blocks, axis))

    def ordered(self) -> tuple[Axis, ...]:
        """Axes in file order; a moved one stands last in the section of its kind."""
        placed: list[tuple[int, int, Axis]] = []
        for position, (block, axis) in enumerate(self.axes):
            moved = (SECTION_OF[axis.kind], axis.name) in self.moves.values()
            home = self.block_of.get(axis.kind, self.blocks + 1) if moved else block
            placed.append((home, len(self.axes) + position if moved else position, axis))
        return tuple(axis for _, _, axis in sorted(placed, key=lambda entry: entry[:2]))

    def ordered_marks(self) -> tuple[ValueMark, ...]:
        """Marks in the order of their axes, so that a moved axis takes its marks along."""
        place = {axis.name: index for index, axis in enumerate(self.ordered())}
        return tuple(sorted(self.marks, key=lambda mark: place[mark.axis]))

    def _term(self, field: Field, kind: AxisKind) -> AxisTerm | None:
        term = self.vocabulary.find_axis(field.key)
        if term is not None:
            if folded(term.name) != folded(field.key):
                self.canonical.append((field.key, term.name))
            return term
        if field.key in self.own or self.vocabulary.is_parameter(field.key):
            return None
        near = self.vocabulary.near_axis(field.key)
        hint = f"Did you mean `{near}`?" if near else "`tilelore query axes` lists the known axes."
        if kind is AxisKind.TUNING:
            hint += " A parameter of the kernel is named in `parameters` of its header."
        raise UnknownName(
            f"there is no axis `{field.key}`.", where=self.source.at(field.place), hint=hint
        )

    def _kind(self, field: Field, term: AxisTerm | None, written: AxisKind) -> AxisKind:
        """A name that the kernel itself tunes or binds is a tuning axis, whatever else it means."""
        if field.key in self.own and written is AxisKind.TUNING:
            return AxisKind.TUNING
        return term.kind if term is not None else AxisKind.TUNING

    def _move(self, field: Field, actual: AxisKind, written: AxisKind) -> None:
        way = f"from {SECTION_OF[written]} to {SECTION_OF[actual]}"
        message = f"`{field.key}` is a {actual} axis: moved {way}."
        lines = (field.place.line, field.place.end_line)
        self.notes.append(Diagnostic(severity=Severity.NOTE, message=message, lines=lines))

    def _axis(self, field: Field, kind: AxisKind) -> Axis:
        words = Words(self.source, field.attributes, field.place)
        origin = words.choice(Origin, Origin.PROPOSED)
        axis = Axis(
            name=field.key,
            kind=kind,
            values=self._values(field),
            origin=origin,
            by=words.text("by"),
            derived_from=words.texts("from") or (),
            rationale=words.text("because"),
        )
        words.finish()
        return axis

    def _values(self, field: Field) -> tuple[Scalar, ...]:
        value = field.value
        if isinstance(value, IntRange):
            if not 0 <= value.last - value.first < MAX_VALUES:
                hint = f"It runs from the smaller end to the larger and holds at most {MAX_VALUES}."
                raise self.source.problem("the range is empty or too long", field.place, hint)
            return tuple(range(value.first, value.last + 1))
        if isinstance(value, Listing):
            if len(value.elements) > MAX_VALUES:
                raise self.source.problem("the axis has too many values", field.place)
            self.marks.extend(
                self._mark(field, element) for element in value.elements if element.origin
            )
            return tuple(element.value for element in value.elements)
        if isinstance(value, str | int | float | None):
            return (value,)
        raise self.source.problem("an axis has a list of values", field.place, "Write `[a, b]`.")

    def _mark(self, field: Field, element: Element) -> ValueMark:
        if element.origin not in tuple(Origin):
            raise self.source.unknown(str(element.origin), list(Origin), field.place)
        return ValueMark(
            axis=field.key, value=element.value, origin=Origin(element.origin), by=element.by
        )

    def _refuse_second(self, field: Field, axis: Axis, term: AxisTerm | None) -> None:
        aliases = dict(self.canonical)
        for _, other in self.axes:
            if other.name == axis.name:
                raise self.source.problem(f"the axis `{axis.name}` is given twice", field.place)
            known = term is not None and aliases.get(other.name, folded(other.name)) == term.name
            if known and axis.kind is not AxisKind.TUNING:
                message = f"`{other.name}` and `{axis.name}` are the same axis"
                raise self.source.problem(message, field.place, "Merge their values.")
