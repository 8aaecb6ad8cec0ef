"""Launches, and branches of the preprocessor, that the compute capability of the device chooses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from extractors.cuda import nodes as n
from extractors.cuda.block_origin import BlockOrigins
from extractors.cuda.block_size import followed, place
from extractors.cuda.checks import checked
from extractors.cuda.launch_site import LaunchSite
from extractors.cuda.library import Library
from extractors.cuda.read import ReadCuda
from extractors.cuda.resident import ALL_SHARED
from kb.evidence import AxisKind, Decision, Lines
from kb.ir import Kernel, kernel_ops

_ATTRIBUTES = frozenset({"cudaDevAttrComputeCapabilityMajor", "cudaDevAttrComputeCapabilityMinor"})
_SHARED = frozenset({ALL_SHARED, "cudaDevAttrMaxSharedMemoryPerMultiprocessor"})
_MAJOR, _MINOR = "major", "minor"
_PROPERTIES = frozenset({"cudaDeviceProp", "cudaGetDeviceProperties", "getCurrentDeviceProperties",
                         "getDeviceProperties"})  # fmt: skip
"""How the device says its compute capability, and the structs that keep it. Source: CUDA Runtime
API, device attributes and properties; PyTorch, ATen/cuda/CUDAContext.h."""

_ATTRIBUTE = re.compile(r"\.(?:numAttrs$|val\.\w)")
"""Names that the attributes of a launch are given by. Source: CUDA Runtime API 13.0,
cudaLaunchConfig_t, cudaLaunchAttribute."""

_COMPARED = frozenset({"<", "<=", ">", ">=", "==", "!="})

LONG = 40
"""Lines of a branch of the preprocessor that is told by its two ends alone."""

MAX_SITES = 12
"""Launches of one kernel whose extents and arguments are looked through."""


def by_capability(
    launches: Sequence[LaunchSite],
    settings: Settings,
    origins: BlockOrigins,
    hosts: Sequence[n.Definition] = (),
) -> Iterator[Decision]:
    """Conditions around launches or checked before them, and comparisons that launches are made of,
    that rest on the compute capability of the device: a function that asks for it, or its
    properties; or that rest on what another such condition has set. Of `hosts`, which lead to the
    launches, also the functions of the file that check it for them. And conditions that rest on
    how much shared memory the device has."""
    yield from _by_shared_memory(launches)
    lines: set[Lines] = set()
    for site in launches[:MAX_SITES]:
        lines |= _made_by(site, settings.library) | _demanded(site, settings.library)
    for site in launches:
        for test in site.tests:
            asked = {place(one.at) for one in site.behind(test)
                     if isinstance(one, n.Expr) and _asks(one, site, settings.library)}  # fmt: skip
            if asked:
                _, places = followed(test, site.names)
                lines |= {place(test.at), *places, *asked}
        lines |= settings.behind(site, origins.holder(site))
    for host in hosts:
        lines |= settings.checked_apart(host, _last(host, launches))
    if lines:
        yield Decision(
            axis="arch_dispatch", value="if capability", pattern="kernel-chosen-by-the-target",
            lines=tuple(sorted(lines)), kind=AxisKind.HOST,
        )  # fmt: skip


def _by_shared_memory(launches: Sequence[LaunchSite]) -> Iterator[Decision]:
    """Conditions around launches that rest on how much shared memory the device has."""
    lines: set[Lines] = set()
    for site in launches:
        for test in site.tests:
            names = (one.text for one in site.behind(test) if isinstance(one, n.Name))
            asked = (site.names.get(f"&{name}") for name in names)
            told = {
                place(one.at)
                for made in asked
                for one in n.inside(made)
                if isinstance(one, n.Name) and one.text in _SHARED
            }
            lines |= {place(test.at), *told} if told else set()
    if lines:
        yield Decision(
            axis="arch_dispatch", value="if shared memory", pattern="kernel-chosen-by-the-target",
            lines=tuple(sorted(lines)), kind=AxisKind.HOST,
        )  # fmt: skip


def _made_by(site: LaunchSite, library: Library) -> set[Lines]:
    """Comparisons of the capability that say how many blocks or threads there are, what the kernel
    is given, or which attributes the launch has."""
    attributes = [made for name, made in site.names.items() if _ATTRIBUTE.search(name)]
    lines: set[Lines] = set()
    for one in site.behind((site.shape, site.arguments, site.kernel, tuple(attributes))):
        if isinstance(one, n.Binary) and one.operator in _COMPARED and place(one.at) not in lines:
            asked = {place(x.at) for side in (one.left, one.right) for x in site.behind(side)
                     if isinstance(x, n.Expr) and _asks(x, site, library)}  # fmt: skip
            lines |= {place(one.at), *asked} if asked else set()
    return lines


def _demanded(site: LaunchSite, library: Library) -> set[Lines]:
    """Checks before a launch that ask for the capability, with where they have it from."""
    lines: set[Lines] = set()
    for check in site.checks:
        if check.at.path == site.at.path and place(check.at) not in lines:
            asked = {place(x.at) for x in site.behind(check.condition)
                     if isinstance(x, n.Expr) and _asks(x, site, library)}  # fmt: skip
            lines |= {place(check.at), *asked} if asked else set()
    return lines


def _refusals(function: n.Definition) -> set[Lines]:
    """Where a function stops by a capability that it has asked the device for."""
    inside = [*n.inside(function.body)]
    answers: dict[str, Lines] = {}
    for one in inside:
        given = one.arguments if isinstance(one, n.Call) else ()
        if any(isinstance(x, n.Name) and x.text in _ATTRIBUTES for x in given):
            words = (x.text for x in n.inside(given) if isinstance(x, n.Name))
            answers |= {word: place(one.at) for word in words if word not in _ATTRIBUTES}
    lines: set[Lines] = set()
    for one in inside if answers else ():
        if isinstance(one, n.Expr | n.Stmt):
            for check in checked(one):
                names = {x.text for x in n.inside(check.condition) if isinstance(x, n.Name)}
                compared = any(isinstance(x, n.Binary) and x.operator in _COMPARED
                               for x in n.inside(check.condition))  # fmt: skip
                told = names & answers.keys()
                if told and compared and not _ATTRIBUTES & names:
                    lines |= {place(check.at), *(answers[name] for name in told)}
    return lines


@dataclass(slots=True)
class Settings:
    """What host functions set under a condition on the compute capability of the device: names,
    with the lines of the condition and of what sets them; each function is looked through once."""

    library: Library
    _known: dict[int, Mapping[str, set[Lines]]] = field(default_factory=dict)
    _refused: dict[int, set[Lines]] = field(default_factory=dict)

    def behind(self, site: LaunchSite, holder: n.Definition | None) -> set[Lines]:
        """The lines of those that the conditions of a launch, or a dispatch around it, ask for."""
        if holder is None:
            return set()
        if id(holder) not in self._known:
            self._known[id(holder)] = self._of(holder, site)
        known = self._known[id(holder)]
        asked = (*site.tests, *(value for value, _ in site.cases)) if known else ()
        names = {one.text for test in asked for one in n.inside(test) if isinstance(one, n.Name)}
        return {at for name in names for at in known.get(name, ())}

    def checked_apart(self, host: n.Definition, last: int, depth: int = 2) -> set[Lines]:
        """Calls ahead of a line of functions of the file that stop by the capability, themselves or
        by one that they call, with where these do."""
        lines: set[Lines] = set()
        for call in n.inside(host.body) if depth else ():
            if isinstance(call, n.Call) and isinstance(call.function, n.Name):
                called = self.library.functions(call.function.text)
                same = len(called) == 1 and called[0].at.path == host.at.path
                if same and called[0] is not host and call.at.line <= last:
                    end = called[0].at.end_line
                    asked = self._refusals(called[0]) | self.checked_apart(
                        called[0], end, depth - 1
                    )
                    lines |= {place(call.at), *asked} if asked else set()
        return lines

    def _refusals(self, function: n.Definition) -> set[Lines]:
        if id(function) not in self._refused:
            self._refused[id(function)] = _refusals(function)
        return self._refused[id(function)]

    def _of(self, holder: n.Definition, site: LaunchSite) -> Mapping[str, set[Lines]]:
        branches: list[n.If] = []
        made: dict[str, n.Variable] = {}
        for one in n.inside(holder.body):
            if isinstance(one, n.Variable):
                made.setdefault(one.name, one)
            elif isinstance(one, n.If) and not one.static:
                branches.append(one)
        found: dict[str, set[Lines]] = {}
        for branch in branches:
            inside = [*n.inside(branch.condition)]
            named = [made[x.text] for x in inside if isinstance(x, n.Name) and x.text in made]
            inside += [x for one in named for x in n.inside(one.value)]
            if any(isinstance(x, n.Expr) and _asks(x, site, self.library) for x in inside):
                for one in n.inside((branch.then, branch.other)):
                    if isinstance(one, n.Assign) and isinstance(one.target, n.Name):
                        lines = {place(branch.condition.at), place(one.at)}
                        found.setdefault(one.target.text, set()).update(lines)
        return found


@dataclass(frozen=True, slots=True)
class Compiled:
    """First and last line of the branches of the preprocessor on the target, of those on whose
    devices the code is for, and the lines of the file that use a macro of the target."""

    targets: Sequence[Lines]
    platforms: Sequence[Lines]
    uses: Sequence[int]

    @classmethod
    def of(cls, found: ReadCuda, rows: Sequence[str]) -> Compiled:
        """Those of a file; `rows` are its lines without comments."""
        names = [name for name, one in found.macros.items() if one.of_target]
        word = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b") if names else None
        uses = [
            at for at, row in enumerate(rows, 1)
            if word is not None and word.search(row) and not row.lstrip().startswith("#")
            and not any(first < at < last for first, last in found.targets)
        ]  # fmt: skip
        return cls(found.targets, found.platforms, uses)


def by_compilation(
    kernel: Kernel, found: Compiled, launches: Sequence[LaunchSite], hosts: Sequence[n.Definition]
) -> Iterator[Decision]:
    """Code of a kernel, of its helpers in the same file or of the functions that launch it which
    stands in a branch of the preprocessor on the target, up to the last launch, or holds the kernel
    or a launch."""
    home = kernel.entry.span
    spans = [home.lines, *((f.at.line, _last(f, launches)) for f in hosts)]
    named = [x.at.line for one in launches for x in (one, one.kernel) if x.at.path == home.path]
    own: set[Lines] = {
        (at, at) for at in found.uses if any(first <= at <= last for first, last in spans)
    }
    for first, last in (*found.targets, *found.platforms):
        inside = any(start <= first <= end for start, end in spans)
        around = (first, last) in found.targets and first < home.line <= last
        held = around or any(first < at < last for at in named)
        if inside or held or _between(kernel, first, last):
            whole = not around and last - first < LONG
            own |= {(first, last)} if whole else {(first, first), (last, last)}
    if own:
        yield Decision(
            axis="arch_dispatch", value="when compiled", pattern="code-compiled-for-the-target",
            lines=tuple(sorted(own)), kind=AxisKind.HOST,
        )  # fmt: skip


def _last(host: n.Definition, launches: Sequence[LaunchSite]) -> int:
    """The line where a function has launched the kernel, or led to it, for the last time."""
    there = [x for one in launches for x in (one.at, one.reached) if x.path == host.at.path]
    ends = [x.end_line for x in there if host.at.line <= x.line <= host.at.end_line]
    return max(ends, default=host.at.end_line)


def _between(kernel: Kernel, first: int, last: int) -> bool:
    """Whether a helper of the file, read in place, has operations between two lines, or calls what
    has some from there; not when the kernel itself stands there."""
    home = kernel.entry.span
    if first <= home.line <= last:
        return False
    return any(
        op.span.call and op.span.path == home.path
        and any(first < at < last for at in (op.span.line, *op.span.via))
        for op in kernel_ops(kernel)
    )  # fmt: skip


def _asks(node: n.Expr, site: LaunchSite, library: Library) -> bool:
    """Whether an expression of the host is the compute capability, or a call that asks for it."""
    if isinstance(node, n.Name):
        answer = site.names.get(f"&{node.text}")
        return answer is not None and _tells(answer)
    if isinstance(node, n.Field) and node.name in (_MAJOR, _MINOR):
        return any(_keeps(one) or _gives(one, library) for one in site.behind(node.operand))
    if not isinstance(node, n.Call) or not isinstance(node.function, n.Name):
        return False
    return any(_tells(one.body) for one in library.functions(node.function.text))


def _tells(made: object) -> bool:
    """Whether code asks for the compute capability."""
    inside = list(n.inside(made))
    if any(isinstance(one, n.Name) and one.text in _ATTRIBUTES for one in inside):
        return True
    fields = any(isinstance(one, n.Field) and one.name in (_MAJOR, _MINOR) for one in inside)
    return fields and any(map(_keeps, inside))


def _gives(node: object, library: Library) -> bool:
    """Whether a function is called that gives the properties of a device."""
    if not isinstance(node, n.Call) or not isinstance(node.function, n.Name):
        return False
    found = library.functions(node.function.text)
    return any(one.result.name.rpartition("::")[2] in _PROPERTIES for one in found)


def _keeps(node: object) -> bool:
    """Whether the properties of a device are asked for, or a struct of them stands here."""
    name = node.type.name if isinstance(node, n.Variable) else ""
    if isinstance(node, n.Call) and isinstance(node.function, n.Name):
        name = node.function.text
    return name.rpartition("::")[2] in _PROPERTIES
