"""Launches whose error the code of their file never asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from extractors.cuda import nodes as n
from extractors.cuda.block_origin import BlockOrigins
from extractors.cuda.block_size import place
from extractors.cuda.checks import CHECKS
from extractors.cuda.launch_site import LaunchSite
from extractors.cuda.launchers import LAUNCHERS
from extractors.cuda.library import Library
from kb.dialects.cuda import CUDA
from kb.evidence import Lines

MAX_CALLERS = 3
"""Functions of the file, one calling the other, that are looked at for the question."""

MAX_CALLED = 4
"""Functions of the file, one called by the other, that are followed for the question."""

_ASKING = frozenset(
    {
        "cudaGetLastError", "cudaPeekAtLastError", "cudaDeviceSynchronize", "cudaStreamSynchronize",
        "cudaEventSynchronize", "cudaStreamQuery", "cudaEventQuery", "cudaThreadSynchronize",
        "cuCtxSynchronize", "cuStreamSynchronize",
    }
)  # fmt: skip
"""What hands on the error of a launch. Source: CUDA Runtime API 13.0, error handling: a launch
returns no error, these do; CUDA Driver API, the same of a context."""

_RUNTIME = re.compile(
    r"(?:::)?(?:std::|cuda[A-Z]|cu[A-Z]|dim3$|printf$|static_cast$|(?:AT|THO)_DISPATCH_[A-Z0-9_]+$"
    r"|(?:\w+::)*get(?:Current|Default)CUDAStream$)"
)
"""Functions of the runtime and of the standard library, and what PyTorch chooses types and streams
by: none of the others hands on such an error. Source: PyTorch, ATen/Dispatch.h,
c10/cuda/CUDAStream.h."""

_METHODS = frozenset(
    {
        "data_ptr", "const_data_ptr", "mutable_data_ptr", "size", "sizes", "stride", "strides",
        "numel", "dim", "ndim", "shape", "dtype", "scalar_type", "device", "data", "get", "value",
        "has_value", "begin", "end", "c_str", "get_device", "get_device_index", "is_cuda",
        "is_contiguous", "element_size", "itemsize", "nbytes", "options", "defined",
        "storage_offset",
    }
)  # fmt: skip
"""Methods that only tell what a tensor, an option or a list holds. Source: PyTorch,
ATen/core/TensorBase.h; Apache TVM FFI, container/tensor.h; C++ standard library."""

_SUCCESS = "cudaSuccess"


@dataclass(slots=True)
class LaunchErrors:
    """Who asks for the errors of the launches of a file. Who calls one of the `methods`, by their
    identity, is not known: it may ask."""

    origins: BlockOrigins
    library: Library
    methods: frozenset[int]
    _alone: dict[int, dict[n.Place, str]] = field(default_factory=dict)
    _inside: dict[int, bool] = field(default_factory=dict)
    _names: dict[int, frozenset[str]] = field(default_factory=dict)

    def unasked(self, sites: Sequence[LaunchSite]) -> tuple[tuple[Lines, ...], ...]:
        """The launches after which neither their function nor a caller in the file asks whether
        they began, each with the success that the function returns all the same."""
        found: dict[tuple[Lines, ...], None] = {}
        for site in sites:
            holder = self.origins.holder(site)
            if holder is None or not self._dropped(site, holder):
                continue
            if not self._asked(holder, site.at.line, MAX_CALLERS):
                found.setdefault((place(site.at), *_returned(holder, site.at.line)))
        return tuple(found)

    def _asked(self, function: n.Definition, line: int, callers: int) -> bool:
        """Whether anything from a line of a function on may ask for an error, or anything around a
        call of the function."""
        if function.owner or function.instance or id(function) in self.methods:
            return True
        if any(self._asks(one, function, 0) for one in _after(function, line)):
            return True
        return callers > 0 and any(
            self._asked(caller, call.at.line, callers - 1)
            for caller, call in self.origins.callers(function.name)
            if caller is not function
        )

    def _asks(self, node: n.Expr | n.Stmt, around: n.Definition, depth: int) -> bool:
        """Whether a call asks for an error, itself or in what it calls. A function or macro that
        the file and its headers do not show may."""
        match node:
            case n.Skipped(what=what) | n.Unread(what=what):
                return not _ASKING.isdisjoint(re.findall(r"\w+", what))
            case n.Do(value=n.Name()):
                return True  # a macro that is not shown
            case n.Call(function=n.Name(text=text), launch=()) if text not in self._own(around):
                known = self.library.functions(text)
                if known:
                    return any(self._asks_inside(one, depth + 1) for one in known)
                last = text.rpartition("::")[2]
                made = self.library.records(text)
                if made:
                    own = (one for record in made for one in record.methods if one.name == last)
                    return any(self._asks_inside(one, depth + 1) for one in own)
                silent = _RUNTIME.match(text) or text in CUDA.by_path or last in CHECKS
                return last in _ASKING or not silent
            case n.Call(function=n.Field(name=name)) if name not in _METHODS:
                methods = self.library.methods(name)
                return not methods or any(self._asks_inside(one, depth + 1) for one in methods)
        return False

    def _asks_inside(self, function: n.Definition, depth: int) -> bool:
        if depth > MAX_CALLED or "__global__" in function.words:
            return depth > MAX_CALLED
        if id(function) not in self._inside:
            self._inside[id(function)] = False  # what calls itself asks no more than the rest of it
            nodes = n.inside(function.body)
            self._inside[id(function)] = any(self._asks(x, function, depth) for x in nodes)
        return self._inside[id(function)]

    def _own(self, function: n.Definition) -> frozenset[str]:
        """What a function is given or declares, and calls: closures, whose code stands in it or in
        who hands them over."""
        if id(function) not in self._names:
            declared = (x.name for x in n.inside(function.body) if isinstance(x, n.Variable))
            given = (one.name for one in function.parameters)
            self._names[id(function)] = frozenset((*declared, *given))
        return self._names[id(function)]

    def _dropped(self, site: LaunchSite, holder: n.Definition) -> bool:
        """Whether a launch is a statement of its own whose result, if it has one, nothing takes."""
        if id(holder) not in self._alone:
            self._alone[id(holder)] = _statements(holder)
        name = self._alone[id(holder)].get(site.at)
        return name is not None and (not name or name.removeprefix("::") in LAUNCHERS)


def _statements(holder: n.Definition) -> dict[n.Place, str]:
    """The calls that are statements of their own: where, and the name of what is called, empty for
    a launch in angle brackets."""
    found: dict[n.Place, str] = {}
    for one in n.inside(holder.body):
        call = one.value if isinstance(one, n.Do) else None
        if isinstance(call, n.Call):
            name = call.function.text if isinstance(call.function, n.Name) else "?"
            found.setdefault(call.at, "" if call.launch else name)
    return found


def _after(function: n.Definition, line: int) -> Iterator[n.Expr | n.Stmt]:
    """What a function does at a line and after it, and before it in a loop around it."""
    first = min(
        (one.at.line for one in n.inside(function.body)
         if isinstance(one, n.For | n.While) and one.at.line <= line <= one.at.end_line),
        default=line,
    )  # fmt: skip
    for one in n.inside(function.body):
        if max(one.at.line, one.at.end_line) >= first:
            yield one


def _returned(function: n.Definition, line: int) -> Iterator[Lines]:
    """Where a function says after a launch that all went well."""
    for one in n.inside(function.body):
        if isinstance(one, n.Leave) and one.at.line >= line and isinstance(one.value, n.Name):
            if one.value.text.rpartition("::")[2] == _SUCCESS:
                yield place(one.at)
