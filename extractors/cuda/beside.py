"""A file with those that include it, or declare its kernels, and launch these, read as one: their
lines stand beyond those of the file, so that places of several files are told apart."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from extractors.by_file import BEYOND
from extractors.cuda import nodes as n
from extractors.cuda.library import Header, Library, Load, gather
from extractors.cuda.macros import Macro
from extractors.cuda.parse import parse
from extractors.cuda.preprocess import uncommented
from extractors.cuda.read import ReadCuda


def mentions(text: str, kernel: str) -> bool:
    """Whether the code of a text names a kernel."""
    named = kernel in text
    return named and re.search(rf"\b{re.escape(kernel)}\b", uncommented(text)) is not None


def handed_out(kernel: str, unit: n.Unit) -> list[str]:
    """Host functions of a file that give a kernel back: who calls them may launch it."""
    functions = (one for many in unit.functions.values() for one in many)
    given = (f for f in functions if f.name != kernel and "__global__" not in f.words)
    return list(dict.fromkeys(f.name for f in given if _gives(f, kernel)))


def _gives(function: n.Definition, kernel: str) -> bool:
    backs = (one for one in n.inside(function.body) if isinstance(one, n.Leave))
    named = (x for one in backs for x in n.inside(one) if isinstance(x, n.Name))
    return any(x.text.rpartition("::")[2] == kernel for x in named)


def declares(text: str, kernel: str) -> bool:
    """Whether a text says of a kernel, which another file defines, that it is there."""
    if kernel not in text:
        return False
    head = rf"__global__[^;{{}}]*\b{re.escape(kernel)}\s*\([^;{{}}]*\)\s*;"
    return re.search(head, uncommented(text)) is not None


def beside(found: ReadCuda, others: Sequence[tuple[str, str]], path: str, load: Load) -> ReadCuda:
    """What a file holds together with the functions of others, given by path and text. A file that
    defines a kernel under the name of one of the first file's launches its own."""
    own = found.library.unit
    whole = n.Unit(own.path)
    _add(whole, own)
    named = {one.name for one in found.definitions}
    headers: dict[str, Header] = {one.path: one for one in found.library.headers}
    macros: dict[str, Macro] = {}
    for place, (other, text) in enumerate(others, start=1):
        prepared, included = gather(text, other, load)
        prepared.beyond = place * BEYOND
        macros |= {name: one for name, one in prepared.macros.items() if one.path}
        unit = parse(prepared, own.path)
        functions = (f for name in named for f in unit.functions.get(name, ()))
        if any("__global__" in one.words for one in functions):
            continue
        _add(whole, unit)
        headers |= {one.path: one for one in included if one.path not in headers}
    inside = {path, *(other for other, _ in others)}
    rest = [one for at, one in headers.items() if at not in inside]
    library = Library(whole, rest, tensors=found.library.tensors)
    texts = tuple(text for _, text in others)
    return replace(found, library=library, macros=macros | dict(found.macros), others=texts)


def _add(whole: n.Unit, unit: n.Unit) -> None:
    """What a file defines beside what is there; names of a kind that one thing has stay."""
    for functions in unit.functions.items():
        whole.functions.setdefault(functions[0], []).extend(functions[1])
    for records in unit.records.items():
        whole.records.setdefault(records[0], []).extend(records[1])
    for name, declared in unit.declared.items():
        whole.declared.setdefault(name, []).extend(declared)
    for name, places in unit.instantiated.items():
        whole.instantiated.setdefault(name, []).extend(places)
    whole.aliases.update({k: v for k, v in unit.aliases.items() if k not in whole.aliases})
    whole.constants.update({k: v for k, v in unit.constants.items() if k not in whole.constants})
    whole.broken.extend(unit.broken)
