"""The whole tile program as triples: one graph per program, named by the digest of its text."""

from __future__ import annotations

from pyoxigraph import NamedNode, Quad

from kb.graph import names
from kb.graph.facts import Facts, Rel
from kb.ir import Function, Kernel, Literal, Op, Region, Span, Value
from kb.ir_text import program_digest
from kb.ops import OpKind


def encode_program(kernel: Kernel) -> tuple[Quad, ...]:
    """Quads of a well-formed program, in a graph with the name of the program.

    Raises InputError when the program is larger than its text form may be; that bounds the depth.
    """
    digest = program_digest(kernel)
    writer = _Writer(kernel)
    facts = writer.facts
    facts.add("", "rdf:type", NamedNode(names.term("tl:Program")))
    facts.add("", "tl:dialect", kernel.dialect)
    facts.add("", "tl:programDigest", digest)
    facts.add("", "tl:entry", Rel("/function/0"))
    for index, function in enumerate(kernel.functions):
        writer.function(function, index)
    base = names.program(digest)
    return facts.quads(base, base)


class _Writer:
    def __init__(self, kernel: Kernel) -> None:
        self.facts = Facts()
        found = kernel.functions
        self.places = {function.name: f"/function/{i}" for i, function in enumerate(found)}
        self.place = ""

    def function(self, function: Function, index: int) -> None:
        facts = self.facts
        self.place = facts.node("", "tl:function", "tl:Function", f"/function/{index}", index)
        facts.add(self.place, "tl:name", function.name)
        self.span(self.place, function.span)
        for position, parameter in enumerate(function.parameters):
            node = self.value(self.place, "tl:argument", Value(parameter.name), position)
            facts.add(node, "tl:parameterKind", parameter.kind.value)
            facts.add(node, "tl:annotation", parameter.annotation)
            if parameter.has_default:
                facts.add(node, "tl:default", parameter.default)
        facts.add(self.place, "tl:decorated", function.decorated)
        for position, (name, value) in enumerate(function.options):
            self.attribute(self.place, name, value, position, link="option")
        facts.add(self.place, "tl:body", Rel(f"{self.place}/body"))
        self.region(f"{self.place}/body", function.body)

    def region(self, place: str, region: Region) -> None:
        """A region and what is in it; as deep as the text form allows."""
        self.facts.add(place, "rdf:type", NamedNode(names.term("tl:Region")))
        for position, value in enumerate(region.arguments):
            self.value(place, "tl:argument", value, position)
        for position, op in enumerate(region.ops):
            node = self.facts.node(place, "tl:op", "tl:Op", f"{place}/op/{position}", position)
            self.op(node, op)
            if op.kind == OpKind.YIELD:
                for index in range(len(op.operands)):
                    self.facts.add(place, "tl:yields", Rel(f"{node}/operand/{index}"))

    def op(self, node: str, op: Op) -> None:
        facts = self.facts
        facts.add(node, "tl:kind", op.kind)
        self.span(node, op.span)
        for index, (role, value) in enumerate(op.operands):
            place = f"{node}/operand/{index}"
            facts.node(node, "tl:operand", "tl:Operand", place, index)
            facts.add(place, "tl:role", role)
            facts.add(place, "tl:ofValue", self.iri(value))
            facts.add(node, "tl:uses", self.iri(value))
        for index, (name, literal) in enumerate(op.attributes):
            self.attribute(node, name, literal, index)
        for index, result in enumerate(op.results):
            self.value(node, "tl:result", result, index)
        callee = op.attribute("callee")
        if op.kind == OpKind.CALL and isinstance(callee, str) and callee in self.places:
            facts.add(node, "tl:callee", Rel(self.places[callee]))
        for index, region in enumerate(op.regions):
            place = f"{node}/region/{index}"
            facts.add(node, "tl:region", Rel(place))
            facts.add(place, "tl:position", index)
            self.region(place, region)

    def iri(self, name: str) -> Rel:
        return Rel(f"{self.place}/value/{names.segment(name)}")

    def value(self, owner: str, link: str, value: Value, position: int) -> str:
        """A value where it is defined, with its type."""
        facts = self.facts
        node = facts.node(owner, link, "tl:Value", self.iri(value.name), position)
        facts.add(node, "tl:name", value.name)
        if value.type is not None:
            facts.add(node, "tl:kind", value.type.kind.value)
            facts.add(node, "tl:dtype", value.type.dtype)
            facts.add(node, "tl:memorySpace", value.type.space.value)
            facts.add(node, "tl:shape", f"[{', '.join(value.type.shape)}]")
            facts.json(node, {"shape": list(value.type.shape)})
        return str(node)

    def attribute(
        self, owner: str, name: str, value: Literal, position: int, *, link: str = "attribute"
    ) -> None:
        place = f"{owner}/{link}/{position}"
        self.facts.node(owner, f"tl:{link}", "tl:Attribute", place, position)
        self.facts.add(place, "tl:name", name)
        self.facts.add(place, "tl:value", value)

    def span(self, node: str, span: Span) -> None:
        """Where it was read; nothing for an absent span. An end before the start and the line that
        calls a helper are kept apart."""
        if span == Span(0):
            return
        self.facts.add(node, "tl:startLine", span.lines[0])
        self.facts.add(node, "tl:endLine", span.lines[1])
        self.facts.add(node, "tl:startColumn", span.column)
        self.facts.maybe(node, "tl:file", span.path or None)
        rest: dict[str, object] = {}
        if span.end_line != span.lines[1]:
            rest["endLine"] = span.end_line
        if span.call:
            rest["call"] = [span.call, *span.via] if span.via else span.call
        if rest:
            self.facts.json(node, rest)
