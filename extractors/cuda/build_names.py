"""Numbers that a file is compiled with: names that nothing in it declares, in places where only
what is known at compile time may stand."""

from __future__ import annotations

from extractors.cuda import nodes as n
from extractors.cuda.library import Library


def build_names(definition: n.Definition, library: Library) -> dict[str, n.Place]:
    """Names in extents of a kernel's arrays that neither it nor a file that was read says anything
    of, with the place of the first: an extent is a constant, so the build must define them."""
    inside = [*n.inside(definition.body)]
    own = {one.name for one in definition.template} | {one.name for one in definition.parameters}
    own |= {one.name for one in inside if isinstance(one, n.Variable | n.Alias)}
    extents = [size for one in inside if isinstance(one, n.Variable) for size in one.type.extents]
    found: dict[str, n.Place] = {}
    for size in extents:
        for name in n.inside(size):
            if not isinstance(name, n.Name) or not name.text.isidentifier() or name.arguments:
                continue
            if name.text not in own and library.constant(name.text) is None:
                found.setdefault(name.text, name.at)
    return found
