"""What the host asks of the runtime again before every launch, although the answer stays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from extractors.cuda import nodes as n
from extractors.cuda.block_size import place
from extractors.cuda.launchers import launches
from extractors.cuda.library import Library
from extractors.host.file_facts import Habit

MAX_CALLED = 2
"""Functions, one calling the other, that are followed to a question."""

_ASKED = frozenset(
    {
        "cudaFuncSetAttribute", "cudaFuncGetAttributes", "cudaGetDeviceProperties",
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor", "cudaOccupancyMaxPotentialBlockSize",
        "cudaOccupancyMaxActiveClusters", "cudaOccupancyMaxPotentialClusterSize",
    }
)  # fmt: skip
"""Calls about a kernel or a device that lasts, which take microseconds or more. Source: CUDA
Runtime API 13.0, execution control, occupancy, device management."""

MAX_STEPS = 40
"""Names that a call is followed through to the kernels that it is about."""


@dataclass(frozen=True, slots=True)
class Question:
    """One such call: its line, and `kernels`, those that it names (none: not known, or all)."""

    line: int
    habit: Habit
    kernels: frozenset[str]


def at_each_launch(function: n.Definition, library: Library) -> Iterator[Question]:
    """Those calls of a function that launches a kernel: by itself, or in a function that it calls
    and that launches nothing."""
    for call in _unkept(function):
        if _name(call) in _ASKED or _asks(call, library, 0):
            habit = Habit(_name(call), place(call.at))
            yield Question(call.at.line, habit, _kernels(call, function, library))


def _kernels(call: n.Call, function: n.Definition, library: Library) -> frozenset[str]:
    """The kernels that the arguments of a call name, by variables of the function, too."""
    made: dict[str, list[object]] = {}
    for one in n.inside(function.body):
        if isinstance(one, n.Variable):
            made.setdefault(one.name, []).append(one.value)
        elif isinstance(one, n.Assign) and isinstance(one.target, n.Name):
            made.setdefault(one.target.text, []).append(one.value)
    pending: list[object] = list(call.arguments)
    seen: set[str] = set()
    found: set[str] = set()
    for part in pending:
        for one in n.inside(part) if part is not None else ():
            if isinstance(one, n.Name) and one.text not in seen and len(seen) < MAX_STEPS:
                seen.add(one.text)
                pending += made.get(one.text, ())
                defined = library.functions(one.text)
                if defined and "__global__" in defined[0].words:
                    found.add(defined[0].name)
    return frozenset(found)


def _asks(call: n.Call, library: Library, depth: int) -> bool:
    """Whether the function that is called asks, and keeps nothing of the answer."""
    known = library.functions(_name(call)) if isinstance(call.function, n.Name) else []
    if len(known) != 1 or depth >= MAX_CALLED or {"__global__", "__device__"} & set(known[0].words):
        return False
    if any(isinstance(one, n.Call) and launches(one) for one in n.inside(known[0].body)):
        return False
    return any(_name(one) in _ASKED or _asks(one, library, depth + 1) for one in _unkept(known[0]))


def _unkept(function: n.Definition) -> Iterator[n.Call]:
    """Calls of a function that run each time: not for a variable that lasts, nor on a condition
    that is not one of a launch, too, nor in what another function is handed to call. None of
    a function that changes a variable that lasts."""
    kept: set[int] = set()
    for one in n.inside(function.body):
        match one:
            case n.Variable(storage=storage, type=made) if "static" in storage:
                if not (made.const or "constexpr" in storage):
                    return
                kept |= {id(part) for part in n.inside((one.value, one.arguments))}
            case n.Lambda(body=body) if not any(
                isinstance(x, n.Call) and launches(x) for x in n.inside(body)
            ):
                kept |= {id(part) for part in n.inside(body)}
            case n.If(static=False):
                for side in (one.then, one.other):
                    if not any(isinstance(x, n.Call) and launches(x) for x in n.inside(side)):
                        kept |= {id(part) for part in n.inside(side)}
    for one in n.inside(function.body):
        if isinstance(one, n.Call) and not one.launch and id(one) not in kept:
            yield one


def _name(call: n.Call) -> str:
    function = call.function
    return function.text.rpartition("::")[2] if isinstance(function, n.Name) else ""
