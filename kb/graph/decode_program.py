"""Triples back to the tile program that `encode_program` wrote."""

from __future__ import annotations

from collections.abc import Iterable

from pyoxigraph import Quad

from kb.errors import InputError
from kb.graph.facts import Reading, whole
from kb.ir import (
    Function,
    Kernel,
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
    return Function(
        reading.text(node, "tl:name"),
        parameters,
        _region(reading, reading.link(node, "tl:body"), 0),
        _span(reading, node),
        reading.settings(node, "tl:option"),
        reading.get(node, "tl:decorated") is True,
    )


def _parameter(reading: Reading, node: str) -> Parameter:
    return Parameter(
        reading.text(node, "tl:name"),
        ParameterKind(reading.text(node, "tl:parameterKind")),
        reading.text(node, "tl:annotation"),
        reading.get(node, "tl:default"),
        reading.has(node, "tl:default"),
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
        reading.settings(node, "tl:attribute"),
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


def _span(reading: Reading, node: str) -> Span:
    if not reading.has(node, "tl:startLine"):
        return Span(0)
    rest = reading.json(node)
    end, calls = rest.get("endLine"), rest.get("call", 0)
    call, *via = calls if isinstance(calls, list) else [calls]
    return Span(
        reading.integer(node, "tl:startLine"),
        reading.integer(node, "tl:startColumn"),
        reading.integer(node, "tl:endLine") if end is None else int(str(end)),
        reading.optional(node, "tl:file") or "",
        int(str(call)),
        tuple(int(str(line)) for line in via),
    )
