"""What the host keeps to when it launches a kernel: how arguments are computed, which axes share a
stride, how many blocks there are, and the conditions that every launch is under."""

from __future__ import annotations

from collections.abc import Iterator

from extractors.host.callers import made_of_zeros
from extractors.host.conditions import parts, together
from extractors.host.derived import grid_lines
from extractors.host.events import LaunchRecord, SearchRecord
from extractors.host.expr import atoms, is_sms
from extractors.host.facts import Material
from extractors.host.origins import lines_of
from extractors.host.outside import launched_in_forward
from extractors.host.render import UNKNOWN, Names, mentions_memo
from extractors.host.values import Choice, Expr, Unknown, Value
from kb.evidence import Lines
from kb.space import Constraint, Origin

MAX_TEXT = 320
"""Characters of an expression that a person still reads."""

_SIZED = frozenset({"npow2", "cdiv", "//", "max", "*", "+", "-"})
"""What makes a size of sizes."""

MAX_PARTS = 200
"""Parts of a size that are looked at."""

_ROUNDED = frozenset({"npow2", "cdiv", "//"})
_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">=", "in"})
_SIZES = frozenset({"dim", "stride", "rank", "shape", "strides"})


def host_contracts(material: Material) -> Iterator[Constraint]:
    """Constraints by the launches of one kernel; what several launches do differently is none."""
    sites = material.sites()
    if not sites:
        return
    first = sites[0]
    names = names_of(material, first)
    yield from _computed(material, sites, names)
    yield from _fixed(material, sites)
    yield from _zeroed(material, sites)
    yield from _blocks(material, sites)
    yield from _conditions(material, names)


def stated(expression: str, because: str, hint: str, lines: Lines) -> Constraint:
    """A constraint that the host keeps to."""
    return Constraint(
        expression=expression, origin=Origin.STATED, because=because, hint=hint, lines=lines,
        checked_by_host=True,
    )  # fmt: skip


def names_of(material: Material, launch: LaunchRecord) -> Names:
    """Names of the kernel: extents that are passed are called by their parameter."""
    names = material.names(launch)
    for name, value in launch.args:
        product = isinstance(value, Expr) and value.op == "call" and value.args[0] == "prod"
        if isinstance(value, Expr) and (product or value.op in ("dim", "index", "sym")):
            if value not in names.tensors and value not in names.machine.tensors:
                names.extents[value] = name
    return names


def readable(text: str) -> bool:
    """Whether an expression is known to its last part, and short enough."""
    return len(text) <= MAX_TEXT and UNKNOWN not in text


def _computed(material: Material, sites: list[LaunchRecord], names: Names) -> Iterator[Constraint]:
    """Sizes that the host rounds, divides, or counts the parts of: the kernel counts on the
    relation."""
    first = sites[0]
    for name, value in first.args:
        value = _settled(value, first, name)
        if not isinstance(value, Expr) or not (_rounds(value) or _packed(value)):
            continue
        if any(_settled(dict(s.args).get(name), s, name) != value for s in sites[1:]):
            continue
        text = names.text(value)
        if readable(text) and " if " not in text and text != name:
            made = material.made(first, name)
            yield stated(
                f"{name} == {text}",
                "the host computes the argument so",
                "keep to it where the kernel is launched from elsewhere",
                made[0] if made else first.lines,
            )


def _fixed(material: Material, sites: list[LaunchRecord]) -> Iterator[Constraint]:
    """Numbers of the kernel that every launch sets to zero: an offset that is never used. Nothing
    is told where another module calls a function on the way to a launch."""
    compiled = {name for name, constexpr in material.signature.params if constexpr}
    inner = {name for site in sites for name in site.stack[1:]}
    if material.loader is not None and any(map(material.loader.imported, inner)):
        return
    for name, value in sites[0].args:
        if name in compiled or isinstance(value, bool) or value != 0:
            continue
        if all(dict(site.args).get(name) == 0 for site in sites):
            yield stated(
                f"{name} == 0",
                "every launch passes zero",
                "read what the kernel does with it before another number is passed",
                dict(sites[0].arg_lines).get(name, sites[0].lines),
            )


def _zeroed(material: Material, sites: list[LaunchRecord]) -> Iterator[Constraint]:
    """Arrays that every launch is given full of zeros."""
    for name, _ in sites[0].args:
        made = [made_of_zeros(material, site, name) for site in sites]
        if made[0] is not None and None not in made:
            yield stated(
                f"{name}.initial == 0",
                "the host fills the array with zeros before the launch",
                "keep the zeros where the kernel adds to the array or leaves a part of it out",
                made[0],
            )


def _rounds(value: Value) -> bool:
    """A size that is computed from extents by rounding or division; one that is held below a number
    is chosen so, and a comparison is a flag."""
    if not isinstance(value, Expr) or value.op not in _SIZED:
        return False
    pending: list[Value] = [value]
    rounded = False
    for item in pending:
        if isinstance(item, (Choice, Unknown)) or len(pending) > MAX_PARTS:
            return False
        if isinstance(item, Expr) and item.op not in ("dim", "sym", "index", "call", "attr"):
            if item.op == "axis" or (item.op == "min" and value.op == "max"):
                return False
            rounded |= item.op in _ROUNDED
            pending.extend(item.args)
    return rounded and any(atom.op in ("dim", "sym") for atom in atoms(value))


def _packed(value: Expr) -> bool:
    """The extent of one array times a number that is passed: what an element of it holds."""
    sides = [arg for arg in value.args if isinstance(arg, Expr)] if value.op == "*" else []
    return sorted(one.op for one in sides) == ["dim", "sym"]


def _settled(value: Value, launch: LaunchRecord, name: str) -> Value:
    """The value with alternatives that another argument makes, too, taken as that argument."""
    cases = [
        (v, Expr("sym", (other,)))
        for other, v in launch.args
        if other != name and isinstance(v, Choice)
    ]
    return _folded(value, cases, 64) if cases else value


def _folded(value: Value, cases: list[tuple[Choice, Expr]], budget: int) -> Value:
    if budget <= 0:
        return value
    if isinstance(value, Choice):
        for choice, called in cases:
            if choice == value:
                return called
            if choice.cond == value.cond:
                then = replaced(value.then, choice.then, called)
                other = replaced(value.other, choice.other, called)
                if then == other:
                    return then
        return value
    if isinstance(value, Expr) and value.op not in ("dim", "sym", "stride"):
        args = tuple(_folded(arg, cases, budget - 1) for arg in value.args)
        return value if args == value.args else Expr(value.op, args, value.size, value.depth)
    return value


def replaced(value: Value, what: Value, called: Expr) -> Value:
    """A value with a part of it called otherwise."""
    if value == what:
        return called
    if isinstance(value, Expr):
        args = tuple(replaced(arg, what, called) for arg in value.args)
        return value if args == value.args else Expr(value.op, args, value.size, value.depth)
    return value


def _blocks(material: Material, sites: list[LaunchRecord]) -> Iterator[Constraint]:
    """What the number of blocks has to do with hints and with arrays of one row per block."""
    for launch in sites:
        grid = launch.grid if isinstance(launch.grid, tuple) else (launch.grid,)
        hints = dict(launch.kernel.hints)
        per_sm = [
            number
            for part in parts(launch.grid)
            if part.op == "*" and any(is_sms(arg) for arg in part.args)
            for number in part.args
            if isinstance(number, int) and number > 1
        ]
        if hints.get("occupancy") in per_sm:
            yield stated(
                f"occupancy == {hints['occupancy']}",
                f"the grid has {hints['occupancy']} blocks per multiprocessor, as many as the "
                "hint asks for",
                "change both together",
                next(iter(grid_lines(material)), launch.lines),
            )
        for name, value in launch.args:
            fact = material.machine.tensors.get(value)
            for place, extent in enumerate(fact.dims or () if fact is not None else ()):
                for axis, blocks in enumerate(grid):
                    if extent == blocks and isinstance(extent, (Expr, Choice)) and _made(extent):
                        yield stated(
                            f"{name}.shape[{place}] == grid[{axis}]",
                            "every block has a row of its own in the array",
                            "allocate the array for the grid that is launched",
                            max(material.made(launch, name), default=launch.lines),
                        )
    yield from _clusters(material)


def _made(blocks: Value) -> bool:
    """Whether a number of blocks is computed, or asked of the device, and no extent as it
    stands."""
    return (
        isinstance(blocks, Choice)
        or is_sms(blocks)
        or (isinstance(blocks, Expr) and blocks.op in ("min", "cdiv", "*", "max"))
    )


def _clusters(material: Material) -> Iterator[Constraint]:
    """Configurations that ask for clusters of several blocks."""
    for search in material.searches:
        for case in search.cases:
            for point in case.points:
                blocks = dict(point).get("num_ctas")
                if isinstance(blocks, int) and blocks > 1:
                    yield stated(
                        "num_ctas <= target.max_cluster_size",
                        "some configurations ask for clusters of several blocks",
                        "keep them for targets with clusters (compute capability 9 and above)",
                        case_lines(search),
                    )
                    return


def case_lines(search: SearchRecord) -> Lines:
    """Where the configurations of a search are made, else where it is called."""
    return search.generator[1] if search.generator else search.lines


def _conditions(material: Material, names: Names) -> Iterator[Constraint]:
    """Conditions on sizes and strides that every launch of the kernel is under, one by one, perhaps
    together with others that differ; and those of its forward pass."""
    first = material.launches[0]
    yield from _shared(material, names, material.launches, "the host launches the kernel")
    ahead = launched_in_forward(material, first)
    if ahead:
        yield from _shared(material, names, ahead, "the host runs the forward pass")


def _shared(
    material: Material, names: Names, launches: list[LaunchRecord], what: str
) -> Iterator[Constraint]:
    """Conditions on sizes and strides that some launches are all under."""
    first, *more = launches
    others = [
        {(guard.cond, guard.holds) for guard in one.path.guards}
        | {(part, True) for g in one.path.guards for part in together(g.cond, g.holds)}
        for one in more
    ]
    for guard in first.path.guards:
        if mentions_memo(guard.cond) or not guard.shown:
            continue
        leaves_out = (guard.cond.op, guard.holds) in (("!=", True), ("==", False), ("none", False))
        if leaves_out and not _of_nothing(guard.cond):
            continue  # leaves one case out
        whole = all((guard.cond, guard.holds) in held for held in others)
        for cond in _filled(guard.cond) if leaves_out else together(guard.cond, guard.holds):
            if not whole and (leaves_out or any((cond, True) not in held for held in others)):
                continue
            told = _of_problem(cond) or _of_arrays(cond, names)
            text = names.text(cond) if told else UNKNOWN
            if readable(text):
                yield stated(
                    text,
                    f"{what} under this condition only",
                    "launch another kernel where it does not hold",
                    _asked(material, guard.cond) or first.lines,
                )


def _of_nothing(cond: Expr) -> bool:
    """A comparison of a size with zero; a rest that is left out is no size."""
    size, other = (*cond.args, None, None)[:2]
    rest = isinstance(size, Expr) and size.op == "%"
    return cond.op in ("==", "!=") and other == 0 and not rest


def _filled(cond: Expr) -> tuple[Expr, ...]:
    """That there is something, where a comparison with zero leaves the rest out."""
    return (Expr(">", cond.args),)


def _asked(material: Material, cond: Expr) -> Lines | None:
    """Where the host asks for a condition, when that is one place."""
    places = material.machine.asked.get(cond, ())
    return lines_of(places[0]) if len(places) == 1 else None


def _of_arrays(cond: Value, names: Names) -> bool:
    """A comparison that asks arrays of the launch for their type, device or number of elements."""
    return (
        isinstance(cond, Expr)
        and cond.op in _COMPARISONS
        and any(isinstance(arg, Expr) and arg.op in ("attr", "call") for arg in cond.args)
        and all(atom in names.tensors for atom in atoms(cond))
    )


def _of_problem(cond: Value) -> bool:
    """A condition on sizes and strides; none on a target, a flag or a call that is not read."""
    found = list(atoms(cond))
    sizes = [atom for atom in found if atom.op in _SIZES]
    return (
        bool(sizes)
        and all(atom.op in _SIZES or atom.op in ("attr", "sym", "axis") for atom in found)
        and not any(
            str(atom.args[0]).startswith("target.") or atom.op == "axis"
            for atom in found
            if atom.op not in _SIZES
        )
    )
