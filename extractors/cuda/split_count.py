"""Into how many parts the host splits work, where it counts the multiprocessors of the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extractors.cuda import nodes as n
from extractors.cuda.block_size import place
from extractors.cuda.launch_site import LaunchSite
from extractors.cuda.library import Library
from extractors.cuda.resident import MAX_NAMES, counts
from kb.evidence import AxisKind, Decision, Lines


def parts_by_count(
    launches: Sequence[LaunchSite], library: Library, counters: frozenset[str]
) -> tuple[Decision, ...]:
    """The decision that a grid comes from a number of blocks for all multiprocessors divided by
    other blocks that the problem needs; a division by the threads of a block alone is none, nor
    one that shares work out to the multiprocessors."""
    lines = {line for site in launches for line in _shared_out(site, library, counters)}
    if not lines:
        return ()
    found = Decision(
        axis="split_count", value="NUM_SMS//(B*H) then pow2 length",
        pattern="sm-count-driven-split-count", lines=tuple(sorted(lines)), kind=AxisKind.TUNING,
    )  # fmt: skip
    return (found,)


def _shared_out(site: LaunchSite, library: Library, counters: frozenset[str]) -> Iterator[Lines]:
    if len(site.shape) < 2:
        return
    threads: set[str] | None = None
    for node in behind(site, site.shape[0]):
        if isinstance(node, n.Binary) and node.operator == "/":
            above, below = (
                any(counts(one, library, counters) for one in behind(site, side))
                for side in (node.left, node.right)
            )
            if above and not below:
                if threads is None:
                    threads = _names(site, site.shape[1])
                if _names(site, node.right, direct=True) - threads:
                    yield place(node.at)


def behind(site: LaunchSite, made: object) -> Iterator[n.Expr | n.Stmt]:
    """What an expression of the host is made of, through the names that it was given under."""
    pending, seen = [made], set[str]()
    for one in pending:
        for node in n.inside(one):
            yield node
            if isinstance(node, n.Name) and node.text not in seen and len(seen) < MAX_NAMES:
                seen.add(node.text)
                pending += [site.names.get(node.text), site.names.get(f"&{node.text}")]


def _names(site: LaunchSite, made: object, *, direct: bool = False) -> set[str]:
    nodes = n.inside(made) if direct else behind(site, made)
    return {node.text for node in nodes if isinstance(node, n.Name)}
