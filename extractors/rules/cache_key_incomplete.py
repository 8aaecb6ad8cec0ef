"""The winner of a search is remembered under a key that leaves out what the search depends on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.host.events import SearchRecord
from extractors.host.expr import ATOMS, negate
from extractors.host.facts import Material
from extractors.host.render import leaves
from extractors.host.tuning import axis_names, key_values
from extractors.host.values import Choice, Expr, Unknown, Value
from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Subject
from extractors.rules.cases import AUTOTUNED, AUTOTUNED_PRODUCT, SEARCHED
from kb.analysis.facts import Facts
from kb.analysis.parameters import tile_extents
from kb.analysis.symbolic import AtomKind
from kb.evidence import Finding
from kb.ir import ParameterKind

_DEVICE = ("capability", "target.", "condition@", "exception@")


class CacheKeyIncomplete(Rule):
    """What shapes the search (the grid, extents of tiles, trip counts of loops) and is missing from
    the key: a winner found for one value is used for others."""

    name = "cache-key-incomplete"
    matches = (
        Case(vary(SEARCHED, ("(b, n, x.dtype)", "(b, x.dtype)")), "x.shape[1]"),
        Case(vary(AUTOTUNED_PRODUCT, ('"M", "N", "K"', '"M", "N"')), "`K`"),
        Case(
            vary(
                AUTOTUNED_PRODUCT,
                ('"W", ', ""),
                ("def run(a, b)", "def run(a, b, W)"),
                ("    W = triton.next_power_of_2(N)\n", ""),
            ),
            "`W`",
        ),
    )
    near_misses = (
        NearMiss(SEARCHED, why="every size is in the key"),
        NearMiss(
            vary(SEARCHED, ("(b, n, x.dtype)", "(x.shape, x.dtype)")), why="the whole shape is"
        ),
        NearMiss(AUTOTUNED_PRODUCT, why="every size that the work of a block depends on is"),
        NearMiss(
            vary(AUTOTUNED_PRODUCT, ('"W", ', "")), why="the extent follows from a size in the key"
        ),
        NearMiss(AUTOTUNED, why="the only size is"),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        for search in material.searches if material is not None else ():
            key = key_values(search)
            if material is None or key is None or any(isinstance(part, Unknown) for part in key):
                continue
            if search.kind == "exhaustive_search":
                yield from self._called(subject, material, search, key)
            else:
                yield from self._attached(subject, material, search, key)

    def _called(
        self, subject: Subject, material: Material, search: SearchRecord, key: tuple[Value, ...]
    ) -> Iterator[Finding]:
        """A search that host code calls: its arguments and grid against the key of its table."""
        names = material.search_names(search)
        params = [name for name, _ in material.signature.params]
        row = search.args if isinstance(search.args, tuple) else ()
        whole = {part.args[0] for part in key if isinstance(part, Expr) and part.op == "shape"}
        known = {names.text(part) for part in key}
        grid = search.grid if isinstance(search.grid, tuple) else (search.grid,)
        missing: dict[str, str] = {}
        for name, value in (*zip(params, row, strict=False), *(("", part) for part in grid)):
            for atom in _needed(value, key, scalars=not name):
                if names.text(atom) not in known and atom.args[0] not in whole:
                    missing.setdefault(names.text(atom), name)
        for text, name in missing.items():
            where = f"the argument `{name}`" if name else "the grid"
            yield self._told(subject, search, f"{where} of the search depends on {text}", text)

    def _attached(
        self, subject: Subject, material: Material, search: SearchRecord, key: tuple[Value, ...]
    ) -> Iterator[Finding]:
        """A search that a decorator attaches: its key is names of parameters."""
        kept = {str(part) for part in key} | set(axis_names(search))
        kept |= {name for name, _ in getattr(search.kernel, "heuristics", ())}
        if len([point for case in search.cases for point in case.points]) < 2:
            return
        for name, why in _work(subject.facts).items():
            if name not in kept and not _derived(material, name, kept):
                yield self._told(subject, search, f"{why} `{name}`", f"`{name}`")

    def _told(self, subject: Subject, search: SearchRecord, what: str, missing: str) -> Finding:
        return self.finding(
            subject,
            f"{what}, which the cache key leaves out: a winner found for one value is used for "
            "others",
            f"add {missing} to the cache key",
            [search.lines],
        )


def _work(facts: Facts) -> dict[str, str]:
    """Parameters that the work of one block depends on: extents of its tiles, trip counts."""
    kinds = {p.name: p.kind for p in facts.kernel.entry.parameters}
    found = {
        p.name: "the extent of a tile is"
        for p in facts.kernel.entry.parameters
        if p.name in tile_extents(facts)
    }
    for loop in facts.loops:
        for bound in (loop.low, loop.high):
            for atom in facts.values.expr(bound).atoms() if bound is not None else ():
                named = atom.kind is AtomKind.PARAMETER and atom.value in kinds
                if named and kinds[atom.value] is not ParameterKind.ARRAY:
                    found.setdefault(atom.value, "a loop of the kernel runs as long as")
    return found


def _derived(material: Material, name: str, kept: set[str]) -> bool:
    """Whether every launch passes a constant, or what follows from values that the key holds."""
    bound = [
        (dict(launch.args), value)
        for launch in material.launches
        for other, value in launch.args
        if other == name
    ]
    if not bound:
        return True
    for row, value in bound:
        held = {leaf for key, item in row.items() if key in kept for leaf in leaves(item)}
        for leaf in leaves(value):
            if isinstance(leaf, Unknown) or (leaf not in held and _uncovered(leaf, tuple(held))):
                return isinstance(leaf, Unknown)
    return True


def _needed(value: Value, key: tuple[Value, ...], *, scalars: bool) -> list[Expr]:
    """Extents in an integer argument, and host scalars where they shape the grid."""
    tensors = any(isinstance(leaf, Expr) and leaf.op in ("sym", "tensor") for leaf in leaves(value))
    if not scalars and (tensors or _fractional(value)):
        return []
    kinds = ("dim", "sym") if scalars else ("dim",)
    return [
        atom
        for atom in _uncovered(value, key)
        if atom.op in kinds and not str(atom.args[0]).startswith(_DEVICE)
    ]


def _fractional(value: Value) -> bool:
    """A real number (a scale, an epsilon): it changes results, not speed."""
    if isinstance(value, Choice):
        return _fractional(value.then) or _fractional(value.other)
    if isinstance(value, Expr):
        return value.op in ("/", "**") or any(_fractional(arg) for arg in value.args)
    return isinstance(value, float)


def _uncovered(value: Value, key: tuple[Value, ...]) -> list[Expr]:
    """Atoms of a value outside of the sub-expressions that the key holds."""
    found: list[Expr] = []
    pending = [value]
    while pending:
        item = pending.pop()
        if item in key or (isinstance(item, Expr) and negate(item) in key):
            continue
        if isinstance(item, tuple):
            pending.extend(reversed(item))
        elif isinstance(item, Choice):
            pending.extend((item.other, item.then, item.cond))
        elif isinstance(item, Expr) and item.op in ATOMS:
            found.append(item)
        elif isinstance(item, Expr):
            pending.extend(reversed(item.args))
    return found
