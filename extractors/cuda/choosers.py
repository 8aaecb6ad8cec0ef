"""Where the host chooses how many threads a block has: conditions that part launches of one kernel
with different blocks, and functions of the file that give the number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.block_origin import DEVICE, BlockOrigins
from extractors.cuda.block_size import Names, place, threads
from extractors.cuda.launch_site import ALIAS, LaunchSite
from extractors.cuda.library import Library
from extractors.cuda.render import shown
from extractors.cuda.struct_numbers import struct_number
from kb.evidence import Lines

MAX_NAMES = 24
"""Names that a block is made of."""

MAX_CHOSEN = 24
"""Conditions and functions that one block is followed through."""


def choosers(
    sites: Sequence[LaunchSite], names: Sequence[Names], origins: BlockOrigins
) -> set[Lines]:
    """Their lines; `names` are what the launches know."""
    pairs = [(one, known) for one, known in zip(sites, names, strict=True) if len(one.shape) > 1]
    blocks = [(one, threads(one.shape[1], known)) for one, known in pairs]
    several = len({block for _, block in blocks}) > 1
    found: dict[Lines, None] = {}
    for site, _ in blocks:
        asked = [one for one in site.tests if several and _parts_by(shown(one), blocks)]
        for value, label in site.cases if several else ():
            if _parts_by(f"{shown(value)} == {shown(label)}", blocks):
                asked += [value, label]
        found |= dict.fromkeys(place(one.at) for one in asked)
        made = (site.shape[1], *asked)
        found |= dict.fromkeys(at for one in made for at in _functions(site, one, origins))
    return {*list(found)[:MAX_CHOSEN]}


def _parts_by(text: str, blocks: Sequence[tuple[LaunchSite, tuple[int | None, ...]]]) -> bool:
    """Whether launches have other blocks where a condition holds than where it does not."""
    under = {block for site, block in blocks if text in site.guards}
    return under != {block for site, block in blocks if text not in site.guards}


def _functions(site: LaunchSite, made: object, origins: BlockOrigins) -> Iterator[Lines]:
    """Functions of the host and the file that something is made by, with what they return."""
    for node in site.behind(made):
        if isinstance(node, n.Call) and isinstance(node.function, n.Name):
            last = node.function.text.rpartition("::")[2]
            for one in origins.functions.get(last, ()):
                if one.at.path == origins.path and not one.words & DEVICE and _chooses(one):
                    yield (one.at.line, one.at.line)
                    yield from (place(x.at) for x in _answers(one))


def _chooses(function: n.Definition) -> bool:
    """Whether a function branches, or gives a number that is written there."""
    branches = any(isinstance(x, n.If | n.Switch | n.Choice) for x in n.inside(function.body))
    return branches or any(isinstance(x.value, n.Constant) for x in _answers(function))


def _answers(function: n.Definition) -> list[n.Leave]:
    inside = n.inside(function.body)
    return [x for x in inside if isinstance(x, n.Leave) and x.word == "return"]


def with_headers(
    names: Names, shape: Sequence[n.Expr | n.Variable | None], library: Library
) -> Names:
    """Names of a launch, with the numbers of headers and of structs that its block is made of, as
    if they stood where they are used."""
    pending: list[object] = list(shape[1:2])
    found: dict[str, n.Expr | n.Variable] = {}
    named = ((key.removeprefix(ALIAS), one) for key, one in names.items() if key.startswith(ALIAS))
    types = {key: one for key, one in named if isinstance(one, n.Name)}
    for made in pending:
        for one in n.inside(made) if made is not None else ():
            if not isinstance(one, n.Name) or one.text in found or len(found) > MAX_NAMES:
                continue
            held = names.get(one.text) or names.get(one.text.rpartition("::")[2])
            constant = library.constant(one.text) if held is None else None
            value = constant.value if constant is not None else None
            if "::" in one.text and one.text not in names:
                if (number := struct_number(one, types, library)) is not None:
                    found[one.text] = number
                    continue
            if isinstance(value, n.Constant):
                found[one.text] = replace(value, at=one.at)
            elif held is not None and held is not one:
                found[one.text] = held
                pending.append(held)
    return {**names, **found}
