"""What the host code of a file says of its kernels: launches, with the cases of their dispatch.

Host code is read, never run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from extractors.cuda import nodes as n
from extractors.cuda.asserted import Assertions
from extractors.cuda.block_limit import block_sizes
from extractors.cuda.block_origin import BlockOrigins
from extractors.cuda.block_size import (
    one_block,
    place,
    warps_of_blocks,
    whole_blocks,
    with_constants,
)
from extractors.cuda.capability import Compiled, Settings, by_capability, by_compilation
from extractors.cuda.checks import stated
from extractors.cuda.choosers import choosers, with_headers
from extractors.cuda.chosen import by_the_host
from extractors.cuda.compiled_in import compiled_in
from extractors.cuda.contracts import (
    block_limits,
    divisors,
    rows_of_warps,
    shared_fits,
    threads_fit,
    whole_shares,
    whole_warps,
)
from extractors.cuda.defined import with_definitions, with_dispatchers
from extractors.cuda.element_types import element_types
from extractors.cuda.empty_grid import empty_grids
from extractors.cuda.followed_tests import chosen_by
from extractors.cuda.grid_counts import as_many, counted
from extractors.cuda.handed_null import handed_null
from extractors.cuda.handed_on import Handings, handed_on
from extractors.cuda.hollow import hollow, newer, stopped
from extractors.cuda.host_habits import HostHabits
from extractors.cuda.instruction_sets import needs
from extractors.cuda.large_block import large_blocks
from extractors.cuda.launch_errors import LaunchErrors
from extractors.cuda.launch_extents import extents
from extractors.cuda.launch_site import LaunchSite, constant, launch_of, written_for
from extractors.cuda.left_out import left_out
from extractors.cuda.library import Library
from extractors.cuda.overlap import Overlap
from extractors.cuda.own_checks import (
    compiled_for,
    of_the_kernel,
    of_traits,
    words_inside,
)
from extractors.cuda.packs import is_pack
from extractors.cuda.preprocess import uncommented
from extractors.cuda.promises import promises
from extractors.cuda.read import ReadCuda
from extractors.cuda.resident import (
    alone,
    asking,
    raised,
    resident,
)
from extractors.cuda.routes import Routes
from extractors.cuda.shares import shares
from extractors.cuda.sizes import tiles_by_size
from extractors.cuda.split_count import parts_by_count
from extractors.cuda.struct_tiles import tiles_by_struct
from extractors.cuda.taken import values_taken
from extractors.cuda.tensors import handed_twice, layouts
from extractors.cuda.unfolded import unfolded
from extractors.cuda.unread import Texts
from extractors.cuda.vector_choice import vector_choice
from extractors.cuda.walker import Walker
from extractors.cuda.whole_extents import whole_extents
from extractors.cuda.whole_flags import whole_flags
from extractors.host.facts import HostFacts
from kb.evidence import Lines
from kb.ir import Kernel, ParameterKind, Place
from kb.space import Constraint, GuardedPoints, Launch, Point, Scalar, Tuning

_BLOCK = frozenset(f"block_{axis}" for axis in "xyz")


def host_facts(found: ReadCuda, only: Collection[str] | None = None) -> Mapping[str, HostFacts]:
    """Launches and dispatched template arguments of every kernel, or of some, by its name."""
    unit = found.library.unit
    names = frozenset(one.name for one in found.definitions)
    walker = Walker(found.library, names, asking(unit.functions),
                    asking(unit.functions, raises=True))  # fmt: skip
    for function in (one for many in unit.functions.values() for one in many):
        walker.function(function)
    for record in (one for many in unit.records.values() for one in many):
        for method in record.methods:
            walker.function(method, record)
    walker.finish()
    pairs = list(zip(found.kernels, found.definitions, strict=True))
    facts: dict[str, HostFacts] = {}
    launched = frozenset(one.kernel.text.rpartition("::")[2] for one in walker.found)
    path = found.definitions[0].at.path if found.definitions else ""
    callable_ = _functions(unit)
    routes = Routes(callable_, launched, path)
    forks = routes.forks() if launched else ()
    origins = BlockOrigins(callable_, path)
    overlap = Overlap(origins)
    assertions = Assertions(origins)
    handings = Handings(found.library, callable_, walker.found, path)
    methods = frozenset(
        id(m) for many in unit.records.values() for one in many for m in one.methods
    )
    errors = LaunchErrors(origins, found.library, methods)
    habits = HostHabits(origins, found.library, found.text, path)
    texts = Texts(found.text, unit.functions, found.macros)
    rows = (texts.rows(), *(uncommented(one).split("\n") for one in found.others))
    targets, settings = Compiled.of(found, texts.rows()), Settings(found.library)
    for kernel, definition in pairs:
        if only is not None and kernel.name not in only:
            continue
        every, whole = [d for _, d in pairs], unfolded(definition, found.library)
        mine = [one for one in walker.found if _is(one, definition, every, unit.functions)]
        launches = tuple(launch_of(one, definition, kernel.entry.parameter_names) for one in mine)
        tuning = _tuning(mine, definition)
        settled = _settled(launches, kernel)
        if tuning.mechanism == "none" and launches:
            tuning = replace(tuning, mechanism=_rule(launches, settled))
        tuning = replace(tuning, launched_with=settled)
        scopes = [with_constants(one.names, unit.constants, one.at.path) for one in mine]
        wider = [with_headers(names, one.shape, found.library)
                 for one, names in zip(mine, scopes, strict=True)]  # fmt: skip
        warps = warps_of_blocks(
            [(one.shape[1], names, one.at) for one, names in zip(mine, wider, strict=True)]
        )
        own = warps_of_blocks(
            [(one.shape[1], names, one.at) for one, names in zip(mine, scopes, strict=True)]
        )
        made = origins.lines(mine) | choosers(mine, wider, origins) if warps else set()
        warps = tuple(replace(w, lines=tuple(sorted({*w.lines, *made}))) for w in warps)
        grids = one_block(
            [(one.shape[0], names, one.at) for one, names in zip(mine, scopes, strict=True)]
        )
        counters = frozenset(walker.counters)
        blocks = resident(mine, walker.queries, definition.name, found.library, counters)
        blocks += alone(mine)
        bounds = {"max_threads", "max_threads_elsewhere"} & dict(kernel.entry.options).keys()
        if not blocks and not bounds:
            blocks += tuple(raised(walker.queries, definition.name))
        parts = parts_by_count(mine, found.library, counters)
        led: set[Lines] = set()
        for fork in forks if mine else ():
            if lines := fork.lines(definition.name):
                led |= {*lines, *routes.behind(fork.test)}
        others = by_the_host(mine, walker.found, routes.behind, led)
        hosts = [f for one in mine if (f := origins.holder(one))]
        tops = [f for one in mine for f in callable_.get(one.root, ()) if f.at.path == path]
        chosen = by_capability(mine, settings, origins, (*hosts, *tops))
        compiled = by_compilation(kernel, targets, mine, (*hosts, *tops))
        empty = empty_grids(mine, origins, found.library)
        kept = [
            *block_limits(whole, kernel),
            *threads_fit(launches, mine),
            *whole_warps(kernel, launches),
            *rows_of_warps(kernel, launches),
            *shared_fits(launches, mine),
            *(c for one in mine for c in divisors(one.names)),
            *extents(kernel, launches, empty),
            *newer(hollows := hollow(definition, texts.rows())),
            *stopped(definition, texts.rows(), unit.functions),
            *needs(kernel, found.targets),
        ]
        kept += [*_stated(mine, definition, found.library), *values_taken(mine, definition)]
        kept += element_types(mine, definition)
        kept += whole_shares(mine, definition)
        vectors = (v for one in mine for v in vector_choice(definition, one.kernel, one.cases,
                                                            one.names))  # fmt: skip
        tiles = (
            *tiles_by_size(definition, mine),
            *tiles_by_struct(definition, found.library, path),
            *shares(mine, origins, found.library, counters),
        )
        if not any(one.axis == "tile_selection" for one in (*warps, *tiles)):
            pairs_ = zip(warps, own, strict=False)  # numbers of headers are no choice made here
            tiles = whole_blocks([replace(w, value=o.value) for w, o in pairs_])
        given = (*layouts(mine, path), *handed_twice(definition, mine, found.library),
                 *whole_extents(whole, mine, (*hosts, *tops), found.library),
                 *whole_flags(definition, mine))  # fmt: skip
        facts[kernel.name] = HostFacts(
            tuning=tuning, launches=launches,
            grid_lines=(*sorted(origins.grids(mine)), *_counting(mine, origins, found.library)),
            block_sizes=block_sizes(mine, found.library), unasked=errors.unasked(mine),
            unread=texts.unread(definition, hosts),
            empty_grids=empty, large_blocks=large_blocks(mine, origins, found.library),
            hollow=hollows, left_out=left_out(mine, walker.found, callable_, path),
            asserted=assertions.before(mine), counted=counted(mine, definition),
            as_many=as_many(mine, definition),
            habits=habits.of(mine, hosts, tops, definition),
            decisions=tuple(dict.fromkeys(
                (*with_definitions((*warps, *tiles), rows, found.macros),
                 *grids, *chosen, *compiled,
                 *blocks, *parts, *others, *vectors,
                 *given, *with_dispatchers(compiled_in(definition, mine, unit), texts.rows(),
                                           found.macros), *promises(whole, found.library),
                 *overlap.of(mine, kernel), *handed_on(mine, walker.found, handings),
                 *handed_null(definition, mine, found.library))
            )),
            constraints=tuple({c.expression: c for c in reversed(kept)}.values()),
        )  # fmt: skip
    return facts


def _counting(
    sites: Sequence[LaunchSite], origins: BlockOrigins, library: Library
) -> Iterator[Place]:
    """Functions of headers that work out how many blocks are launched."""
    headers = {one.path for one in library.headers}
    for name, at in origins.counting(sites).items():
        for one in library.functions(name)[:1]:
            if one.at.path in headers:
                yield Place(at, (one.at.path, place(one.at)))


def _functions(unit: n.Unit) -> dict[str, list[n.Definition]]:
    """The functions of a file and the methods of its classes, by their names."""
    found = {name: list(many) for name, many in unit.functions.items()}
    for record in (one for many in unit.records.values() for one in many):
        for method in record.methods:
            found.setdefault(method.name, []).append(method)
    return found


def _stated(
    found: Sequence[LaunchSite], definition: n.Definition, library: Library
) -> list[Constraint]:
    """What the kernel asserts, and what every launch of it checks before."""
    chosen = chosen_by(found, definition)
    each = [
        {c.expression: c for c in stated(one.checks, one.words(definition) | chosen)}
        for one in found
    ]
    common = [c for text, c in each[0].items() if all(text in o for o in each)] if each else []
    inside = words_inside(definition)
    asserted = list(of_the_kernel(definition, library))
    own = stated(asserted, compiled_for(asserted, definition, library) | inside)
    traits = stated(of_traits(found, definition, library), inside)
    return [*own, *traits, *common]


def _settled(launches: Sequence[Launch], kernel: Kernel) -> Point:
    """Numbers that every launch gives: template arguments, extents of the block, and the fewest
    blocks that the kernel promises to share a multiprocessor."""
    templates = {p.name for p in kernel.entry.parameters if p.kind is ParameterKind.CONSTEXPR}
    given = [
        {b.parameter: b.expression for b in one.bindings if b.parameter in templates}
        | {name: str(value) for name, value in one.hints}
        for one in launches
    ]
    found: list[tuple[str, Scalar]] = [
        (name, int(value))
        for name, value in (given[0].items() if given else ())
        if value.isdigit() and all(other.get(name) == value for other in given)
    ]
    least = dict(kernel.entry.options).get("min_blocks")
    return (*found, ("occupancy", least)) if isinstance(least, int) else tuple(found)


def _rule(launches: Sequence[Launch], settled: Point) -> str:
    """`host rule` when the host computes an extent of a block; `fixed` when all is constant."""
    extents = [value for one in launches for name, value in one.hints if name in _BLOCK]
    if any(isinstance(value, str) and value != "?" for value in extents):
        return "host rule"
    return "fixed" if settled else "none"


def _is(
    found: LaunchSite, definition: n.Definition, all_of: Sequence[n.Definition],
    functions: Mapping[str, Sequence[n.Definition]],
) -> bool:  # fmt: skip
    """Whether a launch is of a definition; overloads are told apart by their parameters, and a
    template of the host that leaves the type open launches all that are left."""
    if found.kernel.text.rpartition("::")[2] != definition.name:
        return False
    same = [d for d in all_of if d.name == definition.name]
    given = definition.parameters
    if len(found.arguments) > len(given) and not any(map(is_pack, given)):
        return False  # another kernel of that name
    if len(same) == 1:
        return True
    fitting = [
        d for d in same
        if len(d.parameters) == len(found.arguments)
        and max(len(d.template), len(d.given)) >= len(found.kernel.arguments)
    ]  # fmt: skip
    fitting = written_for(fitting, found)
    if len(fitting) < 2:
        return fitting == [definition]
    named = functions.get(found.function, ())
    holder = next((f for f in named if len(named) == 1 or _holds(f, found)), None)
    if holder is None:
        return False
    fitting = [one for one in fitting if _takes(one, found, holder)]
    open_ = bool(holder.template) and not holder.specialised
    # Those that a condition on the types takes out are not told apart here.
    open_ = open_ or any("enable_if" in one.result.name for one in fitting)
    return definition in fitting if open_ else fitting == [definition]


def _holds(function: n.Definition, found: LaunchSite) -> bool:
    return function.at.line <= found.at.line <= max(function.at.end_line, function.at.line)


def _takes(definition: n.Definition, found: LaunchSite, holder: n.Definition) -> bool:
    """Whether no parameter of the host that is handed on has another type than the kernel wants."""
    own = {one.name: one.type for one in holder.parameters}
    named = {one.name for one in (*holder.template, *definition.template)}
    for parameter, given in zip(definition.parameters, found.arguments, strict=False):
        theirs = own.get(given.text) if isinstance(given, n.Name) else None
        if theirs is None or {theirs.name, parameter.type.name} & named:
            continue
        if theirs.pointers and parameter.type.pointers and theirs.name != parameter.type.name:
            return False
    return True


def _tuning(found: Sequence[LaunchSite], definition: n.Definition) -> Tuning:
    """Template arguments that the launches enumerate; none when there is no choice."""
    numbers = [
        (place, one.name) for place, one in enumerate(definition.template)
        if one.dtype not in ("typename", "template") and one.name
    ]  # fmt: skip
    points: list[tuple[str, Point, LaunchSite]] = []
    open_: set[str] = set()
    for one in found:
        given = one.kernel.arguments
        point: list[tuple[str, Scalar]] = []
        for at, name in numbers:
            value = constant(given[at], one.names) if at < len(given) else None
            if value is None:
                open_.add(name)
            else:
                point.append((name, value))
        points.append((" and ".join(one.guards) or "always", tuple(point), one))
    varied = [
        name for _, name in numbers
        if name not in open_ and len({dict(p).get(name) for _, p, _ in points}) > 1
    ]  # fmt: skip
    if not varied:
        return Tuning()
    reason = f"{', '.join(sorted(open_))}: not known where it is launched" if open_ else None
    spaces = tuple(
        GuardedPoints(
            when=when, points=(tuple((k, v) for k, v in point if k in varied),),
            complete=not open_, reason=reason, lines=(one.at.line, one.at.end_line),
        )
        for when, point, one in points
    )  # fmt: skip
    lines = (min(o.at.line for o in found), max(o.at.end_line for o in found))
    return Tuning(mechanism="dispatch", spaces=spaces, effective_axes=tuple(varied), lines=lines)
