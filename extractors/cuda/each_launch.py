"""What the host asks of the runtime again before every launch, although the answer stays."""

from __future__ import annotations

from collections.abc import Iterator

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

_COMPARED = ("<", "<=", ">", ">=")


def at_each_launch(function: n.Definition, library: Library) -> Iterator[tuple[int, Habit]]:
    """Those calls of a function that launches a kernel, with their lines: by itself, or in a
    function that it calls and that launches nothing."""
    for call in _unkept(function):
        if _name(call) in _ASKED or _asks(call, library, 0):
            yield call.at.line, Habit(_name(call), place(call.at))


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
    that may ask whether it was done before, nor in what another function is handed to call. None of
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
            case n.If(static=False, condition=condition) if not _of_sizes(condition):
                kept |= {id(part) for part in n.inside((condition, one.then, one.other))}
    for one in n.inside(function.body):
        if isinstance(one, n.Call) and not one.launch and id(one) not in kept:
            yield one


def _of_sizes(condition: n.Expr) -> bool:
    """Whether a size is compared with a number, which says nothing of calls before."""
    return isinstance(condition, n.Binary) and condition.operator in _COMPARED


def _name(call: n.Call) -> str:
    function = call.function
    return function.text.rpartition("::")[2] if isinstance(function, n.Name) else ""
