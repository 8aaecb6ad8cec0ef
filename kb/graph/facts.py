"""Triples being written and read: relative subjects, typed literals, order by tl:position."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache

from pyoxigraph import Literal, NamedNode, Quad, RdfFormat, serialize

from kb.errors import InputError
from kb.evidence import Lines
from kb.graph import names
from kb.ir_text import literal_text, parse_literal

Scalar = int | float | bool | str | None


class Rel(str):
    """An IRI relative to the record that is written: empty, or starting with a slash."""

    __slots__ = ()


_INTEGER = NamedNode(names.term("xsd:integer"))
_DOUBLE = NamedNode(names.term("xsd:double"))
_BOOLEAN = NamedNode(names.term("xsd:boolean"))
_NONE = NamedNode(names.term("tl:none"))
_QUOTED = NamedNode(names.term("tl:quoted"))
SHORT = 10_000
"""Bits of a number that Python itself writes in decimal."""

_SPECIAL = {"inf": "INF", "-inf": "-INF", "nan": "NaN"}


def literal(value: Scalar) -> Literal:
    """A typed literal; None is `"none"^^tl:none`, text with a lone surrogate is kept quoted."""
    if value is None:
        return Literal("none", datatype=_NONE)
    if isinstance(value, bool):
        return Literal("true" if value else "false", datatype=_BOOLEAN)
    if isinstance(value, int):
        return Literal(_digits(value), datatype=_INTEGER)
    if isinstance(value, float):
        text = literal_text(value)
        return Literal(_SPECIAL.get(text, text), datatype=_DOUBLE)
    if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
        return Literal(literal_text(value), datatype=_QUOTED)
    return Literal(value)


def _digits(value: int) -> str:
    """Decimal digits of a whole number of any size; Python itself stops at a few thousand."""
    if value.bit_length() < SHORT:
        return str(value)
    sign, rest, parts = "-" if value < 0 else "", abs(value), []
    while rest:
        rest, part = divmod(rest, 10**1000)
        parts.append(f"{part:01000d}")
    return sign + "".join(reversed(parts)).lstrip("0")


def scalar(term: Literal) -> Scalar:
    """The value of a literal that `literal` wrote."""
    text, kind = term.value, term.datatype
    if kind == _NONE:
        return None
    if kind == _BOOLEAN:
        return text in ("true", "1")
    if kind == _INTEGER:
        return _whole(text)
    if kind == _DOUBLE:
        return float(text) if text != "NaN" else float(parse_literal("nan") or 0)
    if kind == _QUOTED:
        return str(parse_literal(text))
    return text


def _whole(text: str) -> int:
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    found = 0
    for start in range(0, len(digits), 1000):
        part = digits[start : start + 1000]
        found = found * 10 ** len(part) + int(part)
    return sign * found


class Facts:
    """Triples about one record, its own IRI left open until its digest is known."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, Rel | NamedNode | Literal]] = []
        self._spans: set[str] = set()

    def add(self, subject: str, predicate: str, value: Scalar | Rel | NamedNode) -> None:
        """One triple; a plain value becomes a typed literal."""
        node = value if isinstance(value, Rel | NamedNode) else literal(value)
        self.rows.append((subject, predicate, node))

    def maybe(self, subject: str, predicate: str, value: Scalar) -> None:
        """One triple unless the value is None."""
        if value is not None:
            self.add(subject, predicate, value)

    def node(self, subject: str, link: str, kind: str, child: str, position: int) -> str:
        """A part of `subject`: its link, class and place; the part's IRI is returned."""
        self.add(subject, link, Rel(child))
        self.add(child, "rdf:type", NamedNode(names.term(kind)))
        self.add(child, "tl:position", position)
        return child

    def lines(
        self,
        subject: str,
        lines: Iterable[Lines],
        file: str | None = None,
        link: str = "tl:evidence",
    ) -> None:
        """Source spans as evidence: facts that the same lines show share their span."""
        within = "" if file is None else f"/{names.segment(file)}"
        for first, last in lines:
            span = f"/span{within}/{first}-{last}"
            self.add(subject, link, Rel(span))
            if span not in self._spans:
                self._spans.add(span)
                self.add(span, "rdf:type", NamedNode(names.term("tl:SourceSpan")))
                self.add(span, "tl:startLine", first)
                self.add(span, "tl:endLine", last)
                self.maybe(span, "tl:file", file)

    def settings(
        self, subject: str, link: str, place: str, pairs: Sequence[tuple[str, Scalar]]
    ) -> None:
        """Names with their values, in order."""
        keys = names.distinct([name for name, _ in pairs])
        for index, ((name, value), key) in enumerate(zip(pairs, keys, strict=True)):
            child = self.node(subject, link, "tl:Setting", f"{subject}/{place}/{key}", index)
            self.add(child, "tl:name", name)
            self.add(child, "tl:value", value)

    def json(self, subject: str, value: object) -> None:
        """What has no words of its own, or whose order counts, as canonical JSON."""
        self.add(subject, "tl:json", json.dumps(value, sort_keys=True))

    def digest(self, *more: str) -> str:
        """sha256 of the facts and of further texts."""
        state = hashlib.sha256()
        for text in (*more, *sorted(f"{s} {p} {o!r}" for s, p, o in self.rows)):
            state.update(text.encode(errors="surrogatepass") + b"\n")
        return state.hexdigest()

    def quads(self, base: str, graph: str) -> tuple[Quad, ...]:
        """The facts about `base` in `graph`, sorted, none twice."""
        name = NamedNode(graph)
        links = {value for _, _, value in self.rows if isinstance(value, Rel)}
        parts = {part: NamedNode(base + part) for part in links.union(row[0] for row in self.rows)}
        found = [
            Quad(
                parts[subject],
                _property(predicate),
                parts[value] if isinstance(value, Rel) else value,
                name,
            )
            for subject, predicate, value in self.rows
        ]
        quads = dict(zip(_lines(found), found, strict=True))
        return tuple(quads[line] for line in sorted(quads))


@cache
def _property(predicate: str) -> NamedNode:
    return NamedNode(names.term(predicate))


def canonical(quads: Iterable[Quad]) -> str:
    """Sorted N-Quads: the same quads always give the same text."""
    return "".join(sorted(f"{line}\n" for line in _lines(quads)))


def _lines(quads: Iterable[Quad]) -> list[str]:
    """N-Quads, one line for each quad."""
    return (serialize(quads, format=RdfFormat.N_QUADS) or b"").decode().split("\n")[:-1]


@contextmanager
def whole() -> Iterator[None]:
    """Around a decoder: a damaged graph is an InputError, whatever the damage trips over."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InputError(
            f"the graph is damaged: {error!r}.", hint="Encode the record again."
        ) from error


def _wrong(subject: str, predicate: str, wanted: str) -> InputError:
    return InputError(
        f"{predicate} should be {wanted}.", where=subject, hint="Encode the record again."
    )


class Reading:
    """Triples by subject and predicate."""

    def __init__(self, quads: Iterable[Quad]) -> None:
        self.facts: dict[str, dict[str, list[NamedNode | Literal]]] = {}
        for quad in quads:
            if isinstance(quad.subject, NamedNode) and isinstance(quad.object, NamedNode | Literal):
                row = self.facts.setdefault(quad.subject.value, {})
                row.setdefault(quad.predicate.value, []).append(quad.object)

    def subject(self, kind: str) -> str:
        """The only thing of a class; InputError when there is none or more than one."""
        wanted = NamedNode(names.term(kind))
        rows = self.facts.items()
        found = sorted(s for s, row in rows if wanted in row.get(names.term("rdf:type"), ()))
        if len(found) != 1:
            raise InputError(
                f"the graph holds {len(found)} {kind}, one is wanted.",
                hint="Read one graph at a time.",
            )
        return found[0]

    def all(self, subject: str, predicate: str) -> list[NamedNode | Literal]:
        """Every object."""
        return self.facts.get(subject, {}).get(names.term(predicate), [])

    def get(self, subject: str, predicate: str) -> Scalar:
        """The only literal; None when there is none."""
        found = self.all(subject, predicate)
        if not found:
            return None
        if len(found) > 1 or not isinstance(found[0], Literal):
            raise _wrong(subject, predicate, "one literal")
        return scalar(found[0])

    def has(self, subject: str, predicate: str) -> bool:
        """Whether there is such a triple."""
        return bool(self.all(subject, predicate))

    def is_a(self, subject: str, kind: str) -> bool:
        """Whether the class is among its types."""
        return NamedNode(names.term(kind)) in self.all(subject, "rdf:type")

    def text(self, subject: str, predicate: str) -> str:
        """The only literal, a text."""
        found = self.get(subject, predicate)
        if not isinstance(found, str):
            raise _wrong(subject, predicate, "text")
        return found

    def optional(self, subject: str, predicate: str) -> str | None:
        """A text, None when absent."""
        return self.text(subject, predicate) if self.has(subject, predicate) else None

    def integer(self, subject: str, predicate: str) -> int:
        """The only literal, a whole number."""
        found = self.get(subject, predicate)
        if isinstance(found, bool) or not isinstance(found, int):
            raise _wrong(subject, predicate, "an integer")
        return found

    def link(self, subject: str, predicate: str) -> str:
        """The only IRI."""
        found = self.all(subject, predicate)
        if len(found) != 1 or not isinstance(found[0], NamedNode):
            raise _wrong(subject, predicate, "one IRI")
        return found[0].value

    def parts(self, subject: str, predicate: str) -> list[str]:
        """The parts that a link leads to, by tl:position."""
        nodes = [node.value for node in self.all(subject, predicate) if isinstance(node, NamedNode)]
        return sorted(nodes, key=lambda node: self.integer(node, "tl:position"))

    def lines(self, subject: str) -> tuple[Lines, ...]:
        """Source spans, in the order of their lines."""
        nodes = [node.value for node in self.all(subject, "tl:evidence")]
        return tuple(
            sorted((self.integer(n, "tl:startLine"), self.integer(n, "tl:endLine")) for n in nodes)
        )

    def elsewhere(self, subject: str) -> tuple[tuple[str, Lines], ...]:
        """Spans of other files, in the order of files and lines."""
        nodes = [node.value for node in self.all(subject, "tl:evidenceElsewhere")]
        spans = [(n, self.integer(n, "tl:startLine"), self.integer(n, "tl:endLine")) for n in nodes]
        return tuple(sorted((self.text(n, "tl:file"), (first, last)) for n, first, last in spans))

    def settings(self, subject: str, link: str) -> tuple[tuple[str, Scalar], ...]:
        """Names with their values, in order."""
        return tuple(
            (self.text(node, "tl:name"), self.get(node, "tl:value"))
            for node in self.parts(subject, link)
        )

    def json(self, subject: str) -> dict[str, list[str]]:
        """The structured remainder; empty when there is none."""
        text = self.optional(subject, "tl:json")
        return dict(json.loads(text)) if text is not None else {}
