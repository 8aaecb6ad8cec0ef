"""Words that threads take apart by their bits and store as elements of another array."""

from __future__ import annotations

from collections.abc import Iterable

from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, Node
from kb.evidence import Lines
from kb.ir import ParameterKind, TypeKind
from kb.ops import COMPARISONS, READS, OpKind

_BITS = frozenset({
    OpKind.BIT_AND, OpKind.BIT_OR, OpKind.SHIFT_LEFT, OpKind.SHIFT_RIGHT,
})  # fmt: skip
_MIXED = ("lop3", "prmt")
"""Instructions that mix the bits of words. Source: NVIDIA, PTX ISA, lop3 and prmt."""
_FLOATS = frozenset({"f16", "bf16", "f32"})
_WHOLE = frozenset({"i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"})


def words_apart(facts: Facts) -> list[Node]:
    """The steps that take the bits of loaded whole numbers apart, where what is stored is made of
    them and goes into an array of no whole numbers."""
    held = _elements(facts)
    words = {name for name, kind in held.items() if kind in _WHOLE}
    found: dict[Node, None] = {}
    for store in facts.stores if facts.of_threads and words else ():
        kind = held.get(store.array or "", "")
        if store.is_atomic or not kind or kind in _WHOLE:
            continue
        above = facts.graph.upstream(store.value, lambda n: n.op.kind in COMPARISONS | READS)
        bits = [n for n in above if _takes_apart(n)]
        own = [n for n in bits if {a.array for v in n.op.inputs for a in facts.feeding(v)} & words]
        found.update(dict.fromkeys(own))
    return list(found)


def of_one_type(facts: Facts, loads: Iterable[Access], stores: Iterable[Access]) -> bool:
    """Whether something that is stored goes into an array with elements of the type of those that
    it is made of, as far as the program says what they are."""
    pairs = _moved(facts, loads, stores)
    return any("" in (taken, given) or taken == given for taken, given in pairs)


def lengthened(facts: Facts, loads: Iterable[Access], stores: Iterable[Access]) -> bool:
    """Whether whole numbers of 32 bits are stored into an array of longer ones."""
    pairs = _moved(facts, loads, stores)
    return any(given in _WORDS and taken in _LONG for taken, given in pairs)


def _moved(
    facts: Facts, loads: Iterable[Access], stores: Iterable[Access]
) -> list[tuple[str, str]]:
    """The types of the elements of arrays that are stored into, each with that of an array which
    what is stored is made of."""
    held, given = _elements(facts), list(loads)
    return [
        (held.get(store.array or "", ""), held.get(load.array or "", ""))
        for store in stores
        for load in given
        if facts.graph.rests_on(store.value, load.node)
    ]


def floats_kept(facts: Facts) -> list[Lines]:
    """Where arrays of 32-bit floats that threads store into are declared."""
    held = _elements(facts)
    names = {a.array for a in facts.stores if held.get(a.array or "") == "f32"}
    return facts.declared(*(n for n in names if n)) if facts.of_threads else []


def as_bits(facts: Facts, value: str) -> str:
    """What several floats were before a whole number was made of their bits."""
    for _ in range(_DEEP):
        made = facts.graph.producer(facts.graph.through(value, _PLAIN))
        if made is None or made.op.kind not in CASTS or not _joins(facts, made):
            break
        value = made.op.inputs[0]
    return value


_ANY = "void"
_WORDS, _LONG = ("i32", "u32"), ("i64", "u64")
_DEEP = 4
_PLAIN = frozenset({OpKind.COPY})


def _joins(facts: Facts, cast: Node) -> bool:
    """Whether a cast takes several floats in registers for a whole number."""
    made = facts.graph.producer(facts.graph.through(cast.op.inputs[0], _PLAIN))
    held = made.op.results[0].type if made is not None and made.op.results else None
    several = held is not None and held.kind is TypeKind.TILE and held.dtype in _FLOATS
    kind = cast.op.results[0].type
    return several and kind is not None and kind.kind is TypeKind.SCALAR and kind.dtype in _WHOLE


def _takes_apart(node: Node) -> bool:
    opcode = str(node.op.attribute("opcode") or "")
    return node.op.kind in _BITS or opcode.startswith(_MIXED)


def _elements(facts: Facts) -> dict[str, str]:
    """The type of the elements of every array that says it."""
    return {
        p.name: told[0]
        for p in facts.kernel.entry.parameters
        if p.kind is ParameterKind.ARRAY and (told := p.annotation.split()) and told[0] != _ANY
    }
