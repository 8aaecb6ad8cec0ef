"""The winner of a search is remembered under a key that leaves out what the search depends on."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from extractors.host.device import OF_DEVICE
from extractors.host.events import CheckRecord, SearchRecord
from extractors.host.expr import ATOMS, make, negate
from extractors.host.facts import Material, functions_of
from extractors.host.origins import lines_of
from extractors.host.render import leaves
from extractors.host.tuning import axis_names, key_values
from extractors.host.values import Choice, Expr, Unknown, Value
from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import AUTOTUNED, AUTOTUNED_PRODUCT, SEARCHED
from extractors.syntax.nodes import each
from kb.analysis import symbolic
from kb.analysis.facts import Facts
from kb.analysis.parameters import tile_extents
from kb.analysis.symbolic import AtomKind
from kb.evidence import Finding, Lines, Severity
from kb.ir import ParameterKind

MAX_PARTS = 4000
"""Expressions of a key that are looked at."""

_LOOPS = "a loop of the kernel runs as long as"
"""A trip count; many leave it out on purpose, lest every length be searched anew: a note."""

_WALKED = vary(
    SEARCHED,
    ("    ct.store(out", "    for j in range(ct.cdiv(x.shape[1], T)):\n        ct.store(out"),
    ("(ct.bid(1), i)", "(i, j)"),
    ("(math.ceil(n / cfg.T), b, 1)", "(b, 1, 1)"),
    ("(math.ceil(n / best.T), b, 1)", "(b, 1, 1)"),
    ("n: int", "n: float"),
    ("out, n,", "out, 1.0,"),
)
_WHOLE_KEY = ("(b, n, x.dtype)", "(b, n, x.dtype, x.device)")
_TYPES = {"dtype", "element_size", "itemsize"}


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
        Case(vary(_WALKED, ("(b, n, x.dtype)", "(b, x.dtype)")), "loop"),
        Case(vary(SEARCHED, ("(b, n, x.dtype)", "(b, n, x.device)")), "the type"),
        Case(SEARCHED, "the device"),
    )
    near_misses = (
        NearMiss(
            vary(SEARCHED, _WHOLE_KEY), why="every size, the type and the device are in the key"
        ),
        NearMiss(vary(_WALKED, _WHOLE_KEY), why="the extent that the loop covers is in the key"),
        NearMiss(
            vary(SEARCHED, ("(b, n, x.dtype)", "(x.shape, x.dtype, x.device)")),
            why="the whole shape is",
        ),
        NearMiss(
            vary(
                SEARCHED,
                ("(b, n, x.dtype)", "(b, n, x.device)"),
                ("    b, n = x.shape", "    assert x.dtype == torch.float16\n    b, n = x.shape"),
            ),
            why="there is one type",
        ),
        NearMiss(AUTOTUNED_PRODUCT, why="every size that the work of a block depends on is"),
        NearMiss(
            vary(AUTOTUNED_PRODUCT, ('"W", ', "")), why="the extent follows from a size in the key"
        ),
        NearMiss(AUTOTUNED, why="the only size is"),
    )

    seen = (
        Seen("flag-gems", "flag_gems/ops/count_nonzero.py", "count_nonzero_kernel", 28),
        Seen("tilegym", "tilegym/ops/cutile/attention.py", "_fmha_kernel", 786),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        for search in material.searches if material is not None else ():
            key = key_values(search)
            if material is None or key is None or any(map(opaque, key)):
                continue
            if search.kind == "exhaustive_search":
                if len(key) == 1 and isinstance(key[0], Expr) and key[0].op == "sym":
                    continue  # a key that the caller made
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
        whole = {part.args[0] for part in parts(key) if part.op == "shape"}
        known = {names.text(part) for part in (*key, *parts(key))}
        grid = search.grid if isinstance(search.grid, tuple) else (search.grid,)
        missing: dict[str, str] = {}
        work = _work(subject.facts)
        given = [(name, value) for name, value in zip(params, row, strict=False) if name in work]
        for name, value in (*given, *(("", part) for part in grid)):
            for atom in _needed(value, key, scalars=not name):
                if names.text(atom) not in known and atom.args[0] not in whole:
                    missing.setdefault(names.text(atom), name)
        for atom in _walked(subject.facts, material, dict(zip(params, row, strict=False))):
            if uncovered(atom, key) and atom.args[0] not in whole:
                missing.setdefault(names.text(atom), _LOOPS)
        places = (search.lines, *_key_lines(material, search))
        for text, name in missing.items():
            if name == _LOOPS:
                what = f"a loop of the kernel runs as long as {text}"
                yield self._told(subject, places, what, text)
                continue
            where = f"the argument `{name}`" if name else "the grid"
            yield self._told(subject, places, f"{where} of the search depends on {text}", text)
        if _told_whole(search, key):
            yield from self._unnamed(subject, material, key, places)

    def _unnamed(
        self, subject: Subject, material: Material, key: tuple[Value, ...], places: Sequence[Lines]
    ) -> Iterator[Finding]:
        """A key of sizes and flags alone."""
        asked = {str(part.args[1]) for part in parts(key) if part.op == "attr"}
        named = {str(part.args[0]) for part in parts(key) if part.op == "sym"}
        missing = []
        if not asked & _TYPES and not _types_checked(material):
            missing.append("the type of the elements")
        if not asked & {"device", "index"} and not any(one.startswith(OF_DEVICE) for one in named):
            missing.append("the device")
        if missing:
            yield self.finding(
                subject,
                f"the cache key leaves out {' and '.join(missing)}: the winner of the first is "
                "used for others",
                f"add {' and '.join(missing)} to the cache key",
                places,
                Severity.NOTE,
            )

    def _attached(
        self, subject: Subject, material: Material, search: SearchRecord, key: tuple[Value, ...]
    ) -> Iterator[Finding]:
        """A search that a decorator attaches: its key is names of parameters."""
        kept = {str(part) for part in key} | set(axis_names(search))
        kept |= {name for name, _ in getattr(search.kernel, "heuristics", ())}
        if len([point for case in search.cases for point in case.points]) < 2:
            return
        for name, why in _work(subject.facts).items():
            if name not in kept and not derived(material, name, kept):
                yield self._told(subject, [search.lines], f"{why} `{name}`", f"`{name}`")

    def _told(self, subject: Subject, places: Sequence[Lines], what: str, missing: str) -> Finding:
        return self.finding(
            subject,
            f"{what}, which the cache key leaves out: a winner found for one value is used for "
            "others",
            f"add {missing} to the cache key",
            places,
            Severity.NOTE if what.startswith(_LOOPS) else Severity.WARNING,
        )


def _key_lines(material: Material, search: SearchRecord) -> Iterator[Lines]:
    """Where the key is made under which the function that searches keeps the winner."""
    functions = functions_of(material.tree)
    around = [one for one in functions if one.lineno <= search.lines[0] <= lines_of(one)[1]]
    if material.origins is None or not around:
        return
    here = max(around, key=lambda one: one.lineno)
    kept = list(each(here, ast.Assign))
    for node in kept:
        target = node.targets[0]
        if node.lineno < search.lines[0] or not isinstance(target, ast.Subscript):
            continue
        if not isinstance(target.slice, ast.Name):
            continue
        names: dict[str, ast.FunctionDef] = {}
        names |= {one.name: one for one in functions if one.name in search.stack}
        values: list[ast.expr] = [target.slice]
        values += [
            value
            for one in names.values()
            for call in each(one, ast.Call)
            if getattr(call.func, "id", "") == here.name
            for parameter, value in zip(here.args.args, call.args, strict=False)
            if parameter.arg == target.slice.id
        ]
        made = [at for v in values for at in map(lines_of, material.origins.statements(v))]
        yield from [line for line in made if line != lines_of(node)][:1]
        return


def _told_whole(search: SearchRecord, key: tuple[Value, ...]) -> bool:
    """Whether every part of a key is known for what it is: a number, a word, an expression over
    arrays, or an argument that the search hands to the kernel or shapes the grid with."""
    given = {part for value in (search.args, search.grid) for part in parts(value)}
    return all(
        part in given or str(part.args[0]).startswith(OF_DEVICE)
        for part in parts(key)
        if part.op == "sym" and not _array(part, key)
    ) and not any(part.op == "call" for part in parts(key))


def _array(symbol: Expr, key: tuple[Value, ...]) -> bool:
    """Whether a key asks a symbol for its extents, type or device: an array."""
    asking = ("dim", "shape", "stride", "attr", "rank")
    return any(part.op in asking and symbol in part.args for part in parts(key))


def _types_checked(material: Material) -> bool:
    """Whether the host asks for the type of elements anywhere: there may be only one."""
    checks = (e for row in material.events.values() for e in row if isinstance(e, CheckRecord))
    return any(
        part.op == "attr" and part.args[1] == "dtype" for c in checks for part in parts(c.cond)
    )


def parts(value: Value) -> Iterator[Expr]:
    """Every expression inside a value, bounded."""
    pending = [value]
    for _ in range(MAX_PARTS):
        if not pending:
            return
        item = pending.pop()
        if isinstance(item, tuple):
            pending.extend(item)
        elif isinstance(item, Choice):
            pending.extend((item.cond, item.then, item.other))
        elif isinstance(item, Expr):
            yield item
            pending.extend(item.args)


def opaque(part: Value) -> bool:
    """A part of a key whose contents are not known: nothing, or a call that makes the key."""
    return isinstance(part, Unknown) or (isinstance(part, Expr) and part.op in ("call", "index"))


def _work(facts: Facts) -> dict[str, str]:
    """Parameters that the work of one block depends on: extents of its tiles, trip counts."""
    kinds = {p.name: p.kind for p in facts.kernel.entry.parameters}
    found = {
        p.name: "the extent of a tile is"
        for p in facts.kernel.entry.parameters
        if p.name in tile_extents(facts)
    }
    bounds = [bound for loop in facts.loops for bound in (loop.low, loop.high) if bound is not None]
    for bound in bounds:
        for atom in _trip_counts(facts, facts.values.expr(bound)):
            if kinds.get(atom.text, ParameterKind.ARRAY) is not ParameterKind.ARRAY:
                found.setdefault(atom.text, _LOOPS)
    return found


def _walked(facts: Facts, material: Material, given: dict[str, Value]) -> Iterator[Expr]:
    """Extents of arrays that loops of the kernel run as long as, as the host knows them."""
    bounds = [bound for loop in facts.loops for bound in (loop.low, loop.high) if bound is not None]
    for bound in bounds:
        for atom in _trip_counts(facts, facts.values.expr(bound)):
            array = given.get(atom.value)
            if atom.kind is not AtomKind.EXTENT or not isinstance(array, Expr):
                continue
            axis = int(atom.text.rsplit("[", 1)[1].rstrip("]"))
            fact = material.machine.tensors.get(array)
            if fact is not None and fact.dims is not None and axis < len(fact.dims):
                extent = fact.dims[axis]
            elif array.op == "sym":
                extent = make("dim", array, axis)
            else:
                continue
            yield from (part for part in parts(extent) if part.op == "dim")


def _trip_counts(facts: Facts, bound: symbolic.Expr) -> Iterator[symbolic.Atom]:
    """Parameters and extents of arrays that a bound grows with: not those that a block index is
    taken apart with, nor those that a minimum keeps below a compile-time number."""
    for atom in bound.top():
        if atom.kind is AtomKind.PARAMETER or (atom.kind is AtomKind.EXTENT and "[" in atom.text):
            yield atom
        elif atom.kind in (AtomKind.CEIL_DIV, AtomKind.FLOOR_DIV):
            if not atom.args[0].has(AtomKind.BLOCK):
                yield from _trip_counts(facts, atom.args[0])
        elif atom.kind in (AtomKind.MAXIMUM, AtomKind.CHOICE):
            for arg in atom.args:
                yield from _trip_counts(facts, arg)
        elif atom.kind is AtomKind.MINIMUM:
            if not any(facts.values.compile_time(arg) for arg in atom.args):
                for arg in atom.args:
                    yield from _trip_counts(facts, arg)


def derived(material: Material, name: str, kept: set[str]) -> bool:
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
        known = [item for key, item in row.items() if key in kept]
        held = {*known, *(leaf for item in known for leaf in leaves(item))}
        for leaf in leaves(value):
            if isinstance(leaf, Unknown) or (leaf not in held and uncovered(leaf, tuple(held))):
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
        for atom in uncovered(value, key)
        if atom.op in kinds and not str(atom.args[0]).startswith(OF_DEVICE)
    ]


def _fractional(value: Value) -> bool:
    """A real number (a scale, an epsilon): it changes results, not speed."""
    if isinstance(value, Choice):
        return _fractional(value.then) or _fractional(value.other)
    if isinstance(value, Expr):
        return value.op in ("/", "**") or any(_fractional(arg) for arg in value.args)
    return isinstance(value, float)


def uncovered(value: Value, key: tuple[Value, ...]) -> list[Expr]:
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
        elif _of_type(item):
            continue
        elif isinstance(item, Expr) and item.op in ATOMS:
            found.append(item)
        elif isinstance(item, Expr):
            pending.extend(reversed(item.args))
    return found


def _of_type(value: Value) -> bool:
    """A fact of the element type of a tensor, which every search tells apart by itself."""
    asked = value.args[0] if isinstance(value, Expr) and value.op == "call" else value
    return (
        isinstance(asked, Expr)
        and asked.op == "attr"
        and asked.args[1] in ("element_size", "dtype")
    )
