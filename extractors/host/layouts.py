"""One launch for tensors laid out in several ways: a branch chooses which stride counts what."""

from __future__ import annotations

from collections.abc import Iterator

from extractors.host.facts import Material
from extractors.host.render import leaves
from extractors.host.values import Expr, Value
from kb.evidence import AxisKind, Decision, Lines


def by_strides(material: Material) -> Iterator[Decision]:
    """Parameters that get the stride of one axis of a tensor or of another one."""
    given: dict[tuple[Lines, str], dict[Value, set[Value]]] = {}
    for launch in material.launches:
        for name, value in launch.args:
            for leaf in leaves(value):
                if isinstance(leaf, Expr) and leaf.op == "stride":
                    tensors = given.setdefault((launch.lines, name), {})
                    tensors.setdefault(leaf.args[0], set()).add(leaf.args[1])
    several = {key for key, tensors in given.items() if any(len(t) > 1 for t in tensors.values())}
    lines = {
        line
        for launch in material.sites()
        for name, _ in launch.args
        if (launch.lines, name) in several
        for line in material.bound(launch, name)
    }
    if lines:
        yield Decision(
            axis="layout_contract",
            value="strides as arguments",
            pattern="layouts-told-apart-by-strides",
            lines=tuple(sorted(lines)),
            kind=AxisKind.HOST,
        )
