"""The kind of an axis that code states beside a decision is what the ontology says of the axis."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]


def _kinds() -> dict[str, str]:
    """What the ontology says, by the name of the axis."""
    found: dict[str, str] = {}
    for block in (ROOT / "ontology" / "axes.ttl").read_text(encoding="utf-8").split("\naxis:"):
        kind = re.search(r'tl:axisKind "(\w+)"', block)
        if kind is not None:
            found[re.split(r"\W", block, maxsplit=1)[0]] = kind[1]
    return found


def _stated(path: Path) -> Iterator[tuple[str, str, int]]:
    """Axis, kind and line of every decision of a file that states both as they are."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            given = {one.arg: one.value for one in node.keywords}
            axis, kind = given.get("axis"), given.get("kind")
            if isinstance(axis, ast.Constant) and isinstance(kind, ast.Attribute):
                yield str(axis.value), kind.attr.lower(), node.lineno


def test_every_stated_kind_is_that_of_the_axis() -> None:
    kinds, stated, wrong = _kinds(), 0, []
    for path in sorted((ROOT / "extractors").rglob("*.py")):
        for axis, kind, line in _stated(path):
            stated += 1
            if kinds.get(axis) != kind:
                wrong.append(f"{path.relative_to(ROOT)}:{line} {axis}: {kind}")
    assert stated > 40
    assert not wrong
