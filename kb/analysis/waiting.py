"""What a kernel takes for granted of blocks and kernels that it waits for."""

from __future__ import annotations

from collections.abc import Iterator

from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.pointed import array_of
from kb.analysis.spinning import waits
from kb.ops import ATOMICS, OpKind
from kb.space import Constraint, implied


def waiting(facts: Facts) -> Iterator[Constraint]:
    """Constraints of blocks that wait for others, and of what is touched before the kernel waits
    for the one before it."""
    yield from _all_resident(facts)
    yield from _finished(facts)


def _all_resident(facts: Facts) -> Iterator[Constraint]:
    """Blocks that wait for what others write are all there at once."""
    home = facts.kernel.entry.span.path
    found = waits(facts)
    own = [one.loop.head for one in found if one.loop.op.span.path == home]
    if found:
        yield implied(
            "grid[0] * grid[1] * grid[2] <= resident_blocks",
            "threads wait in a loop for what others write, and blocks that wait keep the place of "
            "those that are waited for",
            "launch no more blocks than fit the device at once, or launch cooperatively",
            own[0] if own else None,
        )


def _finished(facts: Facts) -> Iterator[Constraint]:
    """The kernel before writes nothing that is read before it is waited for."""
    read = [(node, name) for node, name in before_the_wait(facts) if node.op.kind == OpKind.LOAD]
    names = list(dict.fromkeys(name for _, name in read))
    if names:
        yield implied(
            " and ".join(f"{name}.written_before_wait == 0" for name in names),
            "it is read before the kernel waits for the one before it",
            "wait first, or launch without overlap where that kernel writes it",
            read[0][0].lines,
        )


def before_the_wait(facts: Facts) -> list[tuple[Node, str]]:
    """Loads and stores of arrays before the first wait for the kernel before, with the array."""
    graph = facts.threads
    ends = graph.of(OpKind.GRID_WAIT) if facts.of_threads else []
    if not ends or any(one.loop is not None for one in ends):
        return []
    found = []
    for node in graph.nodes:
        if node.index > ends[0].index:
            break
        if node.op.kind in (OpKind.LOAD, OpKind.STORE) or node.op.kind in ATOMICS:
            name = array_of(graph, node)
            if name and node.op.attribute("space") != "shared":
                found.append((node, name))
    return found
