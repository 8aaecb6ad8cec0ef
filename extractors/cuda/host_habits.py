"""What the functions of the host do that launch a kernel, beside launching it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from extractors.cuda import nodes as n
from extractors.cuda.block_origin import BlockOrigins
from extractors.cuda.block_size import place
from extractors.cuda.each_launch import Question, at_each_launch
from extractors.cuda.launch_site import LaunchSite, owner
from extractors.cuda.launchers import launches
from extractors.cuda.library import Library
from extractors.cuda.tensors import address
from extractors.host.file_facts import Habit, Habits
from kb.evidence import Lines

MAX_CALLERS = 2
"""Functions of the file, one calling the other, that may ask for an error afterwards."""

MAX_CALLED = 3
"""Functions, one calling the other, that are followed to a question to the device."""

_RESULTS = frozenset(
    {
        "cudaFuncSetAttribute", "cudaDeviceGetAttribute", "cudaGetDeviceProperties",
        "cudaFuncGetAttributes", "cudaOccupancyMaxActiveBlocksPerMultiprocessor",
        "cudaOccupancyMaxPotentialBlockSize", "cudaMemsetAsync", "cudaMemset", "cudaMemcpyAsync",
        "cudaMemcpy", "cudaMalloc", "cudaMallocAsync", "cudaMemcpyToSymbol",
        "cudaMemcpyToSymbolAsync",
    }
)  # fmt: skip
"""Functions that say by their result whether they did what they were asked. Source: CUDA Runtime
API 13.0."""

_ASKING = re.compile(
    r"(?i)last_?error|launch_?check|check_?last|synchronize|cuda_?check|check_?cuda|check_?error|gpu_?assert"
)
"""Names of what asks for an error of the runtime, be it a macro that is not shown."""

_QUERIES = frozenset(
    {
        "cudaDeviceGetAttribute", "cudaGetDeviceProperties", "getCurrentDeviceProperties",
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor", "cudaOccupancyMaxPotentialBlockSize",
        "getDeviceProperties",
    }
)  # fmt: skip
"""Questions whose answer hangs on the device. Source: CUDA Runtime API 13.0, device management and
occupancy; PyTorch, ATen/cuda/CUDAContext.h."""

_TENSORS = frozenset({"Tensor", "at::Tensor", "torch::Tensor", "torch::stable::Tensor"})
_OF_TORCH = re.compile(r'#\s*include\s*[<"](?:torch|ATen|c10)/')
_BOUND = re.compile(r"\b(?:PYBIND11_MODULE|TORCH_LIBRARY\w*|STABLE_TORCH_LIBRARY\w*)\b")
"""What makes functions of a file known to Python: they are called from there. Source: pybind11;
PyTorch, torch/library.h."""

_OF_LAYOUT = frozenset(
    {"contiguous", "is_contiguous", "stride", "strides", "is_non_overlapping_and_dense",
     "packed_accessor32", "packed_accessor64", "sym_stride"}
)  # fmt: skip
"""Methods that ask how a tensor's elements lie, give one whose elements follow each other, or hand
its strides over. Source: PyTorch, ATen/core/TensorBase.h."""


_Arms = tuple[tuple[int, int], tuple[int, int]]
"""First and last line of either side of a branch."""


@dataclass(frozen=True, slots=True)
class _Ways:
    """What one function does: calls whose results it drops, by line, variables that keep an answer,
    by the lines that name them (none: whoever launches), and what it asks of the runtime again each
    time, whichever launch it is for."""

    arms: tuple[_Arms, ...]
    calls: tuple[tuple[int, Habit], ...]
    variables: tuple[tuple[tuple[int, ...], Habit], ...]
    again: tuple[Question, ...]

    def repeated(self, sites: Sequence[LaunchSite], kernel: str) -> Iterator[Habit]:
        """Questions to the runtime before each of the launches of a kernel: about it, or about the
        device."""
        last = max((one.at.line for one in sites), default=0)
        for one in self.again:
            about = not one.kernels or kernel in one.kernels
            if about and one.line <= last and not _excluded(self.arms, one.line, sites):
                yield one.habit

    def dropped(self, sites: Sequence[LaunchSite]) -> Iterator[Habit]:
        """Those calls that do not stand on another side of a branch than every launch."""
        for line, habit in self.calls:
            if not _excluded(self.arms, line, sites):
                yield habit

    def kept(self, sites: Sequence[LaunchSite]) -> Iterator[Habit]:
        """Those variables that are not named on the other side of a branch than every launch only:
        then they are for another one."""
        for lines, habit in self.variables:
            if not lines or not all(_excluded(self.arms, line, sites) for line in lines):
                yield habit


@dataclass(slots=True)
class HostHabits:
    """The habits of the functions of one file; `text` is what it says before it is prepared."""

    origins: BlockOrigins
    library: Library
    text: str
    path: str
    _asking: dict[int, bool] = field(default_factory=dict)
    _questions: dict[int, int] = field(default_factory=dict)
    _known: dict[int, _Ways] = field(default_factory=dict)
    _of_torch: bool = field(init=False)
    _bound: bool = field(init=False)

    def __post_init__(self) -> None:
        self._of_torch = bool(_OF_TORCH.search(self.text))
        self._bound = bool(_BOUND.search(self.text))

    def of(
        self, sites: Sequence[LaunchSite], holders: Sequence[n.Definition],
        tops: Sequence[n.Definition], definition: n.Definition,
    ) -> Habits:  # fmt: skip
        """What the functions of the launches do, and what those that lead there do with tensors."""
        own = list({id(one): one for one in holders}.values())
        hosts = list({id(one): one for one in (*holders, *tops)}.values())
        ways = [self._ways(one) for one in own]
        return Habits(
            dropped=tuple(dict.fromkeys(x for one in ways for x in one.dropped(sites))),
            kept=tuple(dict.fromkeys(x for one in ways for x in one.kept(sites))),
            repeated=tuple(
                dict.fromkeys(x for one in ways for x in one.repeated(sites, definition.name))
            ),
            streamless=tuple(dict.fromkeys(self._streamless(hosts, definition))),
            loose=tuple(self._loose(sites, hosts, definition)),
        )

    def _ways(self, function: n.Definition) -> _Ways:
        """What a function does that launches a kernel, whichever of its launches is asked about."""
        if id(function) not in self._known:
            arms = tuple(_arms(function.body))
            self._known[id(function)] = _Ways(
                arms, tuple(self._dropped(function)), tuple(self._kept(function)),
                tuple(at_each_launch(function, self.library)),
            )  # fmt: skip
        return self._known[id(function)]

    def _dropped(self, function: n.Definition) -> Iterator[tuple[int, Habit]]:
        """Calls of the runtime that are statements of their own, after which neither the function
        nor who calls it in the file asks for an error by a name that says so; with their lines."""
        for one in n.inside(function.body):
            call = one.value if isinstance(one, n.Do) else None
            if isinstance(call, n.Call) and isinstance(call.function, n.Name) and not call.launch:
                name = call.function.text.removeprefix("::")
                if name in _RESULTS and not self._asked(function, call.at.line, MAX_CALLERS):
                    yield call.at.line, Habit(name, place(call.at))

    def _asked(self, function: n.Definition, line: int, callers: int) -> bool:
        """Whether a function from a line on, or a caller in the file after the call, asks."""
        if id(function) not in self._questions:
            self._questions[id(function)] = _last_question(function)
        return self._questions[id(function)] >= line or any(
            self._asked(caller, call.at.line, callers - 1)
            for caller, call in (self.origins.callers(function.name) if callers else ())
            if caller is not function
        )

    def _kept(self, function: n.Definition) -> Iterator[tuple[tuple[int, ...], Habit]]:
        """Variables that live on after the function and hold what one device answered, with the
        lines of the function that name them; none for those of a function that it calls."""
        for holder in (function, *self._called(function)):
            static = {
                one.name: one
                for one in n.inside(holder.body)
                if isinstance(one, n.Variable) and "static" in one.storage
                and not one.type.extents and not one.type.arguments
            }  # fmt: skip
            for kept in static.values():
                if kept.value is not None and self._asks(kept.value, 0):
                    lines = _naming(kept.name, function) if holder is function else ()
                    if lines or holder is not function:
                        yield lines, Habit(kept.name, place(kept.at))
            for one in n.inside(holder.body) if static else ():
                if isinstance(one, n.Call) and _name(one) in _QUERIES and one.arguments:
                    given = one.arguments[0]
                    out = given.operand if isinstance(given, n.Unary) else None
                    if isinstance(out, n.Name) and out.text in static:
                        yield (), Habit(out.text, place(static[out.text].at))

    def _called(self, function: n.Definition) -> Iterator[n.Definition]:
        """Functions of the same file that a function calls and that launch nothing themselves."""
        for one in n.inside(function.body):
            if isinstance(one, n.Call) and not one.launch:
                for inner in self.library.unit.functions.get(_name(one), ()):
                    if inner.at.path == self.path and "__global__" not in inner.words:
                        if not any(isinstance(x, n.Call) and launches(x)
                                   for x in n.inside(inner.body)):  # fmt: skip
                            yield inner

    def _asks(self, node: object, depth: int) -> bool:
        """Whether an expression asks the device, itself or in what it calls."""
        for one in n.inside(node):
            name = _name(one) if isinstance(one, n.Call) else ""
            if name in _QUERIES:
                return True
            for inner in self.library.functions(name) if name and depth < MAX_CALLED else ():
                if id(inner) not in self._asking:
                    self._asking[id(inner)] = False
                    self._asking[id(inner)] = self._asks(inner.body, depth + 1)
                if self._asking[id(inner)]:
                    return True
        return False

    def _streamless(
        self, hosts: Sequence[n.Definition], definition: n.Definition
    ) -> Iterator[Lines]:
        """Launches that name no stream, in a file of tensors that have a current one."""
        if not self._of_torch:
            return
        for one in (x for host in hosts for x in n.inside(host.body)):
            if isinstance(one, n.Call) and one.launch and _name(one) == definition.name:
                stream = one.launch[3] if len(one.launch) > 3 else n.Constant(one.at, 0, "i32")
                if isinstance(stream, n.Constant) and not stream.value:
                    yield place(one.at)

    def _loose(
        self, sites: Sequence[LaunchSite], hosts: Sequence[n.Definition], definition: n.Definition
    ) -> Iterator[Habit]:
        """Parameters that get the address of a tensor that the outermost function is given, about
        whose layout nothing on the way asks."""
        rows = [dict(self._handed(one, hosts, definition)) for one in sites]
        for name, lines in rows[0].items() if rows else ():
            if all(name in row for row in rows):
                yield Habit(name, lines)

    def _handed(
        self, site: LaunchSite, hosts: Sequence[n.Definition], definition: n.Definition
    ) -> Iterator[tuple[str, Lines]]:
        tops = [one for one in hosts if one.name == site.top]
        if len(tops) != 1 or site.levels:
            return
        tensors = {one.name for one in tops[0].parameters if one.type.name in _TENSORS}
        if not self._bound and not _asks_some(tensors, site):
            return  # who calls the function may ask
        asked = _asked_of(tops[0], site)
        for parameter, given in zip(definition.parameters, site.arguments, strict=False):
            if parameter.type.pointers:
                for tensor in owner(address(site, given), site.names):
                    if tensor in tensors and tensor not in asked:
                        yield parameter.name, place(tops[0].at)


def _naming(name: str, function: n.Definition) -> tuple[int, ...]:
    """Lines of a function that name a variable."""
    named = (one for one in n.inside(function.body) if isinstance(one, n.Name))
    return tuple(dict.fromkeys(one.at.line for one in named if one.text == name))


def _arms(body: n.Block) -> Iterator[_Arms]:
    """The branches of a function that have two sides on lines of their own."""
    for one in n.inside(body):
        if isinstance(one, n.If) and one.then.body and one.other.body:
            then, other = _span(one.then), _span(one.other)
            if then[1] < other[0]:
                yield then, other


def _span(block: n.Block) -> tuple[int, int]:
    rows = [one.at for one in block.body]
    return rows[0].line, max(max(at.line, at.end_line) for at in rows)


def _excluded(arms: Sequence[_Arms], line: int, sites: Sequence[LaunchSite]) -> bool:
    """Whether a line stands on the other side of a branch than every launch."""
    apart = [
        b if a[0] <= line <= a[1] else a for a, b in arms
        if a[0] <= line <= a[1] or b[0] <= line <= b[1]
    ]  # fmt: skip
    return (
        bool(apart)
        and bool(sites)
        and all(any(first <= one.at.line <= last for first, last in apart) for one in sites)
    )


def _last_question(function: n.Definition) -> int:
    """The last line on which a function names something that asks for the last error; 0: none."""
    last = 0
    for one in n.inside(function.body):
        line = max(one.at.line, one.at.end_line)
        if line > last and isinstance(one, (n.Name, n.Skipped, n.Unread)):
            if _ASKING.search(one.text if isinstance(one, n.Name) else one.what):
                last = line
    return last


def _asks_some(tensors: set[str], site: LaunchSite) -> bool:
    """Whether the checks before a launch ask some tensor of the function for its layout."""
    for check in site.checks:
        names = dict(check.given or ())
        for one in n.inside(check.condition):
            called = one.function if isinstance(one, n.Call) else None
            if isinstance(called, n.Field) and called.name in _OF_LAYOUT:
                of = called.operand.text if isinstance(called.operand, n.Name) else ""
                if names.get(of, of) in tensors:
                    return True
    return False


def _asked_of(function: n.Definition, site: LaunchSite) -> set[str]:
    """Names that the checks before a launch speak of, whose layout is asked for, that are given
    another value, or that something is handed which may ask."""
    found: set[str] = set()
    for check in site.checks:
        words = [name for _, name in check.given or ()]
        found |= {one.text for one in n.inside(check.condition) if isinstance(one, n.Name)}
        found |= set(words)
    for one in n.inside(function.body):
        match one:
            case n.Call(function=n.Field(operand=operand, name=name)) if name in _OF_LAYOUT:
                found |= {x.text for x in n.inside(operand) if isinstance(x, n.Name)}
            case n.Assign(target=n.Name(text=text)):
                found.add(text)
            case n.Do(value=n.Call(function=n.Name(), arguments=arguments)):
                found |= {x.text for x in arguments if isinstance(x, n.Name)}
            case n.Skipped(what=what) | n.Unread(what=what):
                found |= set(re.findall(r"\w+", what))
    return found


def _name(call: n.Call) -> str:
    function = call.function
    if isinstance(function, n.Name):
        return function.text.rpartition("::")[2]
    return function.name if isinstance(function, n.Field) else ""
