"""Blocks that share a multiprocessor, as the host reckons with them: it asks how many of a kernel
fit, or counts the grid in multiprocessors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from extractors.cuda import nodes as n
from extractors.cuda.block_size import place
from extractors.cuda.launch_site import LaunchSite
from extractors.cuda.library import Library
from kb.evidence import AxisKind, Decision, Lines

QUERIES = {
    "cudaOccupancyMaxActiveBlocksPerMultiprocessor": 1,
    "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags": 1,
    "cudaOccupancyMaxPotentialBlockSize": 2, "cudaOccupancyMaxPotentialBlockSizeWithFlags": 2,
    "cudaOccupancyMaxPotentialBlockSizeVariableSMem": 2,
}  # fmt: skip
"""Functions that tell how many blocks of a kernel fit on a multiprocessor, or which size of a block
fills it best, with the place of the kernel among the arguments. Source: CUDA Runtime API,
occupancy."""

_SETS = "cudaFuncSetAttribute"
_LARGE = "cudaFuncAttributeMaxDynamicSharedMemorySize"
"""What lets the blocks of a kernel ask for more shared memory than 48 KiB. Source: CUDA C++
Programming Guide, shared memory of compute capability 7.x and later."""

ASKED = "cudaDeviceGetAttribute"
_COUNT = "cudaDevAttrMultiProcessorCount"
_FIELD = "multiProcessorCount"
"""How the device says how many multiprocessors it has. Source: CUDA Runtime API, devices."""

ALL_SHARED = "cudaDevAttrMaxSharedMemoryPerBlockOptin"
_SHARED_FIELD = "sharedMemPerBlockOptin"
"""How the device says how much shared memory one block may ask for. Source: CUDA Runtime API,
devices."""

ALONE = "one block per multiprocessor"
"""What a block is that asks for all the shared memory there is for one: what is left of it on a
multiprocessor, at most 1 KiB, takes no second one. Source: CUDA C++ Programming Guide, technical
specifications per compute capability."""

RAISED = "more shared memory than 48 KiB opted in to"
"""What is told of such a kernel."""

MAX_NAMES = 100
"""Names that a grid is followed through."""

MAX_STEPS = 4
"""Names behind names that the bytes of a launch are followed through."""

MAX_ROUNDS = 3
"""Functions of the host, one calling the other, that hand a kernel to the question."""


@dataclass(frozen=True, slots=True)
class Query:
    """A question how many blocks of a kernel fit, with the lines where it is asked; or where its
    blocks are let have more shared memory, then `raises`."""

    kernel: str
    lines: tuple[Lines, ...]
    raises: bool = False


def asking(
    functions: Mapping[str, Sequence[n.Definition]], *, raises: bool = False
) -> dict[str, dict[int, Lines]]:
    """Functions of the host that ask about a kernel which they are given, or let its blocks have
    more shared memory: for every place of such a parameter the lines where they do."""
    found: dict[str, dict[int, Lines]] = {}
    hosts = [f for many in functions.values() for f in many if "__global__" not in f.words]
    bodies = [(f, [c for c in n.inside(f.body) if isinstance(c, n.Call)]) for f in hosts]
    for _ in range(MAX_ROUNDS):
        before = sum(map(len, found.values()))
        for function, calls in bodies:
            places = {one.name: at for at, one in enumerate(function.parameters)}
            for call in calls:
                for given, _ in _asked_about(call, found, raises=raises):
                    below = _below(given)
                    if isinstance(below, n.Name) and below.text in places:
                        known = found.setdefault(function.name, {})
                        known.setdefault(places[below.text], place(call.at))
        if sum(map(len, found.values())) == before:
            break
    return found


def asks_about(
    call: n.Call, found: Mapping[str, Mapping[int, Lines]], *, raises: bool = False
) -> Iterator[tuple[n.Expr, tuple[Lines, ...]]]:
    """Arguments of a call that are asked about as kernels, with the lines of the question."""
    for given, lines in _asked_about(call, found, raises=raises):
        yield given, (place(call.at), *lines)


def _asked_about(
    call: n.Call, found: Mapping[str, Mapping[int, Lines]], *, raises: bool
) -> Iterator[tuple[n.Expr, tuple[Lines, ...]]]:
    name = call.function.text.rpartition("::")[2] if isinstance(call.function, n.Name) else ""
    if name in QUERIES and len(call.arguments) > QUERIES[name] and not raises:
        yield call.arguments[QUERIES[name]], ()
    if raises and name == _SETS and len(call.arguments) > 1:
        what = call.arguments[1]
        if isinstance(what, n.Name) and what.text.rpartition("::")[2] == _LARGE:
            yield call.arguments[0], ()
    for at, lines in found.get(name, {}).items():
        if at < len(call.arguments):
            yield call.arguments[at], (lines,)


def _below(node: object) -> object:
    while isinstance(node, n.Cast | n.Unary):
        node = node.operand
    return node


def resident(
    launches: Sequence[LaunchSite],
    queries: Sequence[Query],
    name: str,
    library: Library,
    counters: frozenset[str] = frozenset(),
) -> tuple[Decision, ...]:
    """Whether the host asks how many blocks of the kernel fit on a multiprocessor, or counts them
    by multiprocessors; `counters` are names that functions of the host give that number."""
    asked = (one for one in queries if one.kernel == name and not one.raises)
    lines = {line for one in asked for line in one.lines}
    for site in launches:
        lines |= set(_counted(site, library, counters))
    if not lines:
        return ()
    found = Decision(
        axis="occupancy", value="grid-coupled", pattern="blocks-per-multiprocessor-by-the-grid",
        lines=tuple(sorted(lines)), kind=AxisKind.TUNING,
    )  # fmt: skip
    return (found,)


def raised(queries: Sequence[Query], name: str) -> Iterator[Decision]:
    """Whether the host lets the blocks of the kernel have more shared memory than any may: what
    says how many share a multiprocessor, where nothing else does."""
    lines = {at for one in queries if one.kernel == name and one.raises for at in one.lines}
    if lines:
        yield Decision(
            axis="occupancy", value=RAISED, pattern="shared-memory-beyond-the-common-limit",
            lines=tuple(sorted(lines)), kind=AxisKind.TUNING,
        )  # fmt: skip


def alone(launches: Sequence[LaunchSite]) -> tuple[Decision, ...]:
    """Whether every launch asks for all the shared memory that one block may have."""
    lines: set[Lines] = set()
    for site in launches:
        asked = _whole(site)
        if asked is None:
            return ()
        lines |= {place(asked), place(site.at)}
    if not lines:
        return ()
    found = Decision(
        axis="occupancy", value=ALONE, pattern="all-shared-memory-for-one-block",
        lines=tuple(sorted(lines)), kind=AxisKind.TUNING,
    )  # fmt: skip
    return (found,)


def _whole(site: LaunchSite) -> n.Place | None:
    """Where the device is asked for the most shared memory of a block, which a launch is given."""
    given: object = site.shape[2] if len(site.shape) > 2 else None
    for _ in range(MAX_STEPS):
        given = _below(given)
        if isinstance(given, n.Field) and given.name == _SHARED_FIELD:
            return given.at
        if not isinstance(given, n.Name):
            return None
        asked = site.names.get(f"&{given.text}")
        if isinstance(asked, n.Call) and len(asked.arguments) > 1:
            named = asked.arguments[1]
            return asked.at if isinstance(named, n.Name) and named.text == ALL_SHARED else None
        given = site.names.get(given.text)
    return None


def _counted(site: LaunchSite, library: Library, counters: frozenset[str]) -> Iterator[Lines]:
    """Lines where the number of multiprocessors comes into the grid."""
    pending: list[object] = [site.shape[0] if site.shape else None]
    seen: set[str] = set()
    for made in pending:
        for node in n.inside(made):
            if counts(node, library, counters):
                yield place(node.at)
            elif isinstance(node, n.Name) and node.text not in seen and len(seen) < MAX_NAMES:
                seen.add(node.text)
                pending += [site.names.get(node.text), site.names.get(f"&{node.text}")]


def counts(node: object, library: Library, counters: frozenset[str]) -> bool:
    """Whether a node is the number of multiprocessors of the device."""
    if isinstance(node, n.Name):
        return node.text in counters or any(map(names_count, library.given(node.text)))
    if isinstance(node, n.Field):
        return node.name == _FIELD
    return isinstance(node, n.Call) and _tells(node, library)


def _tells(call: n.Call, library: Library) -> bool:
    """Whether a call tells how many multiprocessors the device has."""
    if not isinstance(call.function, n.Name):
        return False
    if call.function.text == ASKED:
        return names_count(call)
    return any(names_count(function.body) for function in library.functions(call.function.text))


def names_count(node: object) -> bool:
    return any(
        (isinstance(one, n.Name) and one.text == _COUNT)
        or (isinstance(one, n.Field) and one.name == _FIELD)
        for one in n.inside(node)
    )
