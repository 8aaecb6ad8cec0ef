"""What a grid takes for granted of lengths that the kernel loads: it is made for a longest one that
the caller names."""

from __future__ import annotations

from collections.abc import Iterator

from extractors.host.facts import HostFacts
from extractors.host.launch_contracts import written
from extractors.host.render import leaves
from extractors.host.values import Expr, Value
from kb.analysis import symbolic
from kb.analysis.facts import Facts
from kb.analysis.idioms import sides
from kb.analysis.symbolic import AtomKind
from kb.ops import OpKind
from kb.space import Constraint, implied

_COMPARED = (OpKind.LT, OpKind.LE, OpKind.GT, OpKind.GE)


def longest(facts: Facts, host: HostFacts) -> Iterator[Constraint]:
    """Numbers of the caller that an axis of the grid is made of, where the kernel holds its blocks
    of that axis below numbers that it loads."""
    material = host.material
    if material is None or not material.launches:
        return
    ends = dict(_ends(facts))
    told: set[str] = set()
    for launch in material.sites() if ends else ():
        grid = launch.grid if isinstance(launch.grid, tuple) else (launch.grid,)
        names = material.names(launch)
        for axis, part in enumerate(grid):
            most = _number(part) if axis in ends else None
            text = names.text(most) if most is not None else ""
            if text and text not in told:
                told.add(text)
                yield implied(
                    f"{text} >= {ends[axis]}",
                    f"the grid has blocks for {text}, and the kernel ends at a length that it "
                    "loads: what lies beyond is never computed",
                    "compute the longest length where it is not given, or check the given one",
                    written(material, launch),
                )


def _number(part: Value) -> Expr | None:
    """The number of the caller that an extent of a grid counts tiles of, on some way."""
    for leaf in leaves(part):
        cut = isinstance(leaf, Expr) and leaf.op in ("cdiv", "//")
        size = leaf.args[0] if cut and isinstance(leaf, Expr) else leaf
        if isinstance(size, Expr) and size.op == "sym":
            return size
    return None


def _ends(facts: Facts) -> Iterator[tuple[int, str]]:
    """Axes of the grid whose tiles are held below a loaded length, with that length in words."""
    sources = {load.value: load.array for load in facts.loads if load.array is not None}
    for node in facts.graph.of(*_COMPARED):
        for place, end in (pair := sides(facts, node), pair[::-1]):
            axes = {
                atom.axis
                for factors, number in place.terms
                for atom in factors
                if atom.kind is AtomKind.BLOCK and (len(factors) > 1 or number != 1)
            }
            length = _length(end, sources)
            if len(axes) == 1 and length and not end.has(AtomKind.BLOCK, AtomKind.LANE):
                yield axes.pop(), length


def _length(end: symbolic.Expr, sources: dict[str, str]) -> str:
    """A loaded number, or the difference of two neighbours, in words."""
    loaded = [a for a in end.top() if a.kind is AtomKind.LOADED and a.value in sources]
    arrays = {sources[a.value] for a in loaded}
    if len(arrays) != 1 or len(loaded) != len(end.terms) or len(loaded) > 2:
        return ""
    (array,) = arrays
    return f"{array}.values" if len(loaded) == 1 else f"{array}.values[i + 1] - {array}.values[i]"
