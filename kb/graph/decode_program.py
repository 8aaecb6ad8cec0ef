"""Triples back to the tile program that `encode_program` wrote."""

from __future__ import annotations

from collections.abc import Iterable

from pyoxigraph import Quad

from kb.errors import InputError
from kb.graph.facts import Reading, whole
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
from kb.ir_parse import MAX_NESTING


@whole()
def decode_program(quads: Iterable[Quad]) -> Kernel:
    """The program of a graph; InputError when the graph holds none, or not a whole one."""
    reading = Reading(quads)
    program = reading.subject("tl:Program")
    functions = [_function(reading, node) for node in reading.parts(program, "tl:function")]
    if not functions:
        raise InputError("the program has no function.", where=program, hint="Encode it again.")
    return Kernel(functions[0], tuple(functions[1:]), reading.text(program, "tl:dialect"))


def _function(reading: Reading, node: str) -> Function:
    parameters = tuple(_parameter(reading, n) for n in reading.parts(node, "tl:argument"))
    attributes = _attributes(reading, node)
    return Function(
        reading.text(node, "tl:name"),
        parameters,
        _region(reading, reading.link(node, "tl:body"), 0),
        _span(reading, node),
        attributes[1:],
        attributes[0][1] is True,
    )


def _parameter(reading: Reading, node: str) -> Parameter:
    found = dict(_attributes(reading, node))
    return Parameter(
        reading.text(node, "tl:name"),
        ParameterKind(str(found["kind"])),
        str(found["annotation"]),
        found.get("default"),
        "default" in found,
    )


def _region(reading: Reading, node: str, depth: int) -> Region:
    if depth > MAX_NESTING:
        raise InputError(
            f"regions nest deeper than {MAX_NESTING}.", where=node, hint="Encode the program again."
        )
    arguments = tuple(_value(reading, n) for n in reading.parts(node, "tl:argument"))
    ops = tuple(_op(reading, n, depth) for n in reading.parts(node, "tl:op"))
    return Region(arguments, ops)


def _op(reading: Reading, node: str, depth: int) -> Op:
    operands = tuple(
        (
            reading.text(place, "tl:role"),
            reading.text(reading.link(place, "tl:ofValue"), "tl:name"),
        )
        for place in reading.parts(node, "tl:operand")
    )
    regions = [_region(reading, n, depth + 1) for n in reading.parts(node, "tl:region")]
    results = tuple(_value(reading, n) for n in reading.parts(node, "tl:result"))
    return Op(
        reading.text(node, "tl:kind"),
        operands,
        _attributes(reading, node),
        results,
        tuple(regions),
        _span(reading, node),
    )


def _value(reading: Reading, node: str) -> Value:
    name = reading.text(node, "tl:name")
    if not reading.has(node, "tl:kind"):
        return Value(name)
    type_ = TileType(
        TypeKind(reading.text(node, "tl:kind")),
        reading.text(node, "tl:dtype"),
        tuple(reading.json(node)["shape"]),
        MemorySpace(reading.text(node, "tl:memorySpace")),
    )
    return Value(name, type_)


def _attributes(reading: Reading, node: str) -> tuple[tuple[str, Literal], ...]:
    return reading.settings(node, "tl:attribute")


def _span(reading: Reading, node: str) -> Span:
    found = reading.json(node).get("span")
    if found is None:
        return Span(0)
    line, column, end_line, path = found
    return Span(int(line), int(column), int(end_line), path)
