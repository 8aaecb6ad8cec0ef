"""Blocks that get more threads than a block may have when a size is large."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extractors.cuda import nodes as n
from extractors.cuda.block_origin import BlockOrigins
from extractors.cuda.block_size import followed, place
from extractors.cuda.empty_grid import Extents
from extractors.cuda.launch_site import LaunchSite
from extractors.cuda.library import Library
from extractors.cuda.render import shown
from extractors.host.file_facts import LargeBlock

_COMPARED = frozenset({"==", "!=", "<", "<=", ">", ">="})


def large_blocks(
    sites: Sequence[LaunchSite], origins: BlockOrigins, library: Library
) -> tuple[LargeBlock, ...]:
    """Sizes that a block grows with and that no condition on the way to a launch speaks of."""
    found: dict[str, LargeBlock] = {}
    for site in sites:
        if len(site.shape) < 2 or site.shape[1] is None:
            continue
        way = origins.holders(site)
        for holder in way:
            block = Extents(site, holder, library, which=1)
            for size in block.sizes():
                text = shown(size)
                asked = block.excluded(size, origins) or _number_of_threads(site, size)
                asked = asked or any(block.named(size, _conditions(one)) for one in way)
                if text not in found and not asked:
                    lines = {place(site.at), *block.lines}
                    found[text] = LargeBlock(text, tuple(sorted(lines)))
    return tuple(found.values())


def _number_of_threads(site: LaunchSite, size: n.Expr) -> bool:
    """Whether a size is all that a block has: who calls says how many threads there are."""
    made, _ = followed(site.shape[1], site.names)
    given = made.arguments or () if isinstance(made, n.Variable) else (made,)
    if isinstance(made, n.Call) and shown(made.function) == "dim3":
        given = made.arguments
    return len(given) == 1 and given[0] is not None and shown(given[0]) == shown(size)


def _conditions(function: n.Definition) -> Iterator[n.Expr]:
    """Comparisons that a function makes to decide what it does."""
    for one in n.inside(function.body):
        test = one.condition if isinstance(one, n.If | n.While | n.Choice | n.For) else None
        for part in n.inside(test) if test is not None else ():
            if isinstance(part, n.Binary) and part.operator in _COMPARED:
                yield part
