"""The extent of a tile is searched, and the size that is cut into such tiles is in no key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.host.events import LaunchRecord, SearchRecord
from extractors.host.facts import Material
from extractors.host.tuning import axis_names, key_values
from extractors.host.values import Expr
from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cache_key_incomplete import opaque, parts
from extractors.rules.cases import AUTOTUNED
from kb.evidence import Finding, Severity

_ROWS = vary(
    AUTOTUNED,
    ('key=["n"]', 'key=["w"]'),
    ("x, out, n, T", "x, out, n, w, T"),
    ("at < n)\n\ndef", "at < n)\n    tl.store(out, w)\n\ndef"),
    ("(x, out, n)", "(x, out, n, x.shape[1])"),
)


class TilesNotInKey(Rule):
    """The grid has a block for each tile of a size, the extent of the tile is searched, and the key
    under which the winner is kept has neither the size nor anything made of it: how large a tile
    should be follows from how many of them there are."""

    name = "tiles-not-in-key"
    dialects = ("triton",)
    matches = (Case(_ROWS, "`n`"),)
    near_misses = (
        NearMiss(AUTOTUNED, why="the size is in the key"),
        NearMiss(
            vary(
                _ROWS,
                ("(x, out, n, x.shape[1])", "(x, out, n, triton.next_power_of_2(n))"),
            ),
            why="the key has what the size is rounded up to",
        ),
        NearMiss(vary(_ROWS, ("for t in (64, 128)", "for t in (64,)")), why="one extent"),
        NearMiss(
            vary(_ROWS, ('(triton.cdiv(n, meta["T"]),)', "(n,)")),
            why="a block for each row, whatever the tile",
        ),
    )
    seen = (Seen("unsloth", "unsloth/kernels/large_head_attention.py", "_lh_bwd_dkdv", 256),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        for search in material.searches if material is not None else ():
            key = key_values(search)
            if material is None or key is None or any(map(opaque, key)):
                continue
            if search.kind == "exhaustive_search":
                continue
            named = {str(part) for part in key}
            if not named or not named <= {name for name, _ in material.signature.params}:
                continue  # a key that is computed from arguments, or none that is known
            for launch in material.launches[:1]:
                for text, axis in _left_out(material, search, launch, named):
                    yield self.finding(
                        subject,
                        f"the grid counts the tiles of `{axis}` elements in {text}, which the key "
                        f"leaves out: the `{axis}` of the first size is kept for all others",
                        f"add {text} to the key, rounded so that it takes few values",
                        [search.lines],
                        Severity.NOTE,
                    )


def _left_out(
    material: Material, search: SearchRecord, launch: LaunchRecord, named: set[str]
) -> Iterator[tuple[str, str]]:
    """Sizes that the grid cuts into tiles of a searched extent, with the name of the extent, where
    no argument of the key is made of any of them."""
    kept = {part for name, value in launch.args if name in named for part in parts(value)}
    searched = {axis for axis in axis_names(search) if _varies(search, axis)}
    told: set[str] = set()
    for part in parts(launch.grid):
        if part.op != "cdiv" or not isinstance(part.args[1], Expr) or part.args[1].op != "axis":
            continue
        size, axis = part.args[0], str(part.args[1].args[1])
        atoms = {one for one in parts(size) if _asks(one)}
        if axis not in searched or not atoms or atoms & kept:
            continue
        name = next((n for n, value in launch.args if value == size), "")
        text = f"`{name}`" if name else material.names(launch).text(size)
        if name not in named and text not in told and len(text) < 80:
            told.add(text)
            yield text, axis


def _varies(search: SearchRecord, axis: str) -> bool:
    values = {dict(point).get(axis) for case in search.cases for point in case.points}
    return len(values) > 1


def _asks(part: Expr) -> bool:
    """Whether a part of a size asks an array for an extent or for its number of elements."""
    return part.op in ("dim", "shape") or (part.op == "attr" and part.args[1] == "numel")
