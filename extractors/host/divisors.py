"""Extents of arrays of the caller that host code divides by, although they may be zero."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from extractors.host.conditions import parts
from extractors.host.derived import grid_lines
from extractors.host.events import CheckRecord, LaunchRecord
from extractors.host.expr import distinct_atoms
from extractors.host.facts import Material
from extractors.host.render import UNKNOWN
from extractors.host.values import Expr, Value
from extractors.syntax.nodes import each
from kb.evidence import Lines

_SIZES = frozenset({"dim", "shape"})


def divisors(material: Material, launch: LaunchRecord) -> Iterator[tuple[Expr, str, set[Lines]]]:
    """Quotients in numbers of a launch that an extent makes a division by zero, each with the
    extent in words and where those numbers are made."""
    names = material.names(launch)
    asked = _asked(material, launch)
    rows: list[tuple[Value, str]] = [*((v, name) for name, v in launch.args), (launch.grid, "")]
    for value, name in rows:
        for part in parts(value):
            for by in _zero_with(part):
                text = names.text(by) if not _counted(by) & asked else UNKNOWN
                if UNKNOWN not in text and len(text) < 80:
                    made = material.made(launch, name) if name else grid_lines(material)
                    divides = [one for one in made if _divides(material, one)]
                    yield part, text, set(divides or made or (launch.lines,))


def _divides(material: Material, lines: Lines) -> bool:
    """Whether something is divided there, as it is written."""
    tree = material.origins.tree if material.origins is not None else None
    return any(
        isinstance(node.op, ast.FloorDiv | ast.Mod) and lines[0] <= node.lineno <= lines[1]
        for node in (each(tree, ast.BinOp) if tree is not None else ())
    )


def _zero_with(part: Expr) -> Iterator[Expr]:
    """Extents, or products of such, with which what a quotient is divided by is zero: the divisor,
    or what it is at most. What shares are rounded up by is a size of tiles otherwise."""
    by = part.args[1] if part.op in ("//", "%", "cdiv") else None
    held = isinstance(by, Expr) and by.op == "min"
    least = by.args if isinstance(by, Expr) and held else (by,) if part.op != "cdiv" else ()
    yield from (one for one in least if isinstance(one, Expr) and _of_sizes(one))


def _of_sizes(by: Expr) -> bool:
    """Whether a divisor is an extent as it stands, or a product of such."""
    if by.op == "*":
        return all(isinstance(one, Expr) and _of_sizes(one) for one in by.args)
    if by.op == "call" and by.args[0] == "prod":
        return all(atom.op in (*_SIZES, "sym") for atom in distinct_atoms(by))
    return by.op in _SIZES


def _counted(by: Expr) -> set[Value]:
    """The extents of a divisor, and the arrays that they are of."""
    atoms = [atom for atom in distinct_atoms(by) if atom.op in _SIZES]
    return {*atoms, *(atom.args[0] for atom in atoms)}


def _asked(material: Material, launch: LaunchRecord) -> set[Value]:
    """Extents that a condition on the way to a launch compares with zero, or with one by more or
    less, and arrays whose number of elements it does."""
    conds: list[Value] = [guard.cond for guard in launch.path.guards]
    conds += [e.cond for e in material.of_root(launch) if isinstance(e, CheckRecord)]
    found: set[Value] = set()
    for cond in conds:
        for part in parts(cond):
            none = (0,) if part.op in ("==", "!=") else (0, 1)
            if any(isinstance(arg, int) and arg in none for arg in part.args):
                late = {one for whole in parts(part) if _quotient(whole) for one in parts(whole)}
                found.update(one for one in parts(part) if one.op in _SIZES and one not in late)
                found.update(
                    one.args[0]
                    for one in parts(part)
                    if one.op == "attr" and one.args[1] in ("numel", "size", "shape")
                    and one not in late
                )  # fmt: skip
    return found


def _quotient(part: Expr) -> bool:
    """Whether an extent divides: who asks for the quotient has divided before."""
    return part.op in ("//", "%") and isinstance(part.args[1], Expr)
