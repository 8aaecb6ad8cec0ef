"""What the host of a CUDA kernel keeps to: threads of a block, and numbers that divide a size
because they were made so."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from extractors.cuda import nodes as n
from extractors.cuda.block_size import followed
from extractors.cuda.checks import in_words
from extractors.cuda.grid_counts import grid_of
from extractors.cuda.launch_site import LaunchSite, fields
from extractors.cuda.render import shown
from kb.analysis.graph import Graph, Node
from kb.analysis.inline import inline
from kb.evidence import Lines
from kb.ir import Kernel
from kb.ops import OpKind
from kb.space import Constraint, Launch, Origin, implied

_BLOCK = ("block_x", "block_y", "block_z")
_COUNTS = (OpKind.BLOCK_THREADS, OpKind.MUL)
_WARP = 32
_ALL_LANES = (-1, 0xFFFFFFFF)
NEAR = 8
"""Lines that extents which are made together lie apart at most."""

MAX_BEHIND = 3
"""Names behind names that an argument is followed through."""

_PRODUCT = re.compile(r"\w+(?:\s*\*\s*\w+)*")
_BYTES = re.compile(r"\bsizeof\(([\w:]+)\)")
_CALLED = re.compile(r"(\w+)\s*\(")
_PLAIN = re.compile(r"[\w\s.()%*/+,-]+")
_CUB_BLOCK = ("cub::Block", "::cub::Block", "hipcub::Block")


def threads_fit(launches: tuple[Launch, ...], sites: Sequence[LaunchSite]) -> Iterator[Constraint]:
    """A block of a computed size has no more threads than a block may have: told where the extents
    are made, when they are made before the launch."""
    for launch, site in zip(launches, sites, strict=True):
        extents = [str(dict(launch.hints).get(axis, 1)) for axis in _BLOCK]
        computed = [one for one in extents if one != "1"]
        if all(one.isdigit() or one.isidentifier() for one in computed):
            if not all(one.isdigit() for one in computed):
                yield Constraint(
                    expression=f"{' * '.join(computed)} <= target.max_threads_per_block",
                    origin=Origin.IMPLIED,
                    because="the host computes the extents of the block",
                    hint="keep the threads of a block within the limit of the target",
                    lines=_extents_made(site) or launch.lines,
                )


def _extents_made(site: LaunchSite) -> Lines | None:
    """Where the extents of a block are made, as one range of lines; None where they stand in the
    launch, or far apart."""
    block = site.shape[1] if len(site.shape) > 1 else None
    made, lines = followed(block, site.names)
    for extent in (made.arguments or ()) if isinstance(made, n.Variable) else ():
        lines += followed(extent, site.names)[1]
    if not lines:
        return None
    first, last = min(a for a, _ in lines), max(b for _, b in lines)
    return (first, last) if last - first <= NEAR and last <= site.at.line else None


def block_limits(definition: n.Definition, kernel: Kernel) -> Iterator[Constraint]:
    """Threads of a block that the kernel is compiled for: at most those of its launch bounds, and
    as many as its block-wide primitives are made for."""
    most = dict(kernel.entry.options).get("max_threads")
    if most is not None and _PRODUCT.fullmatch(str(most)):
        yield implied(
            f"block_x * block_y * block_z <= {most}",
            "the kernel is compiled for at most so many threads of a block",
            "raise the launch bounds where more are launched",
            (definition.at.line, definition.at.line),
        )
    some = any(_of_valid(one) for one in n.inside(definition.body))
    for name, count, at in _primitives(definition):
        fewer = some and name.endswith("BlockReduce")
        yield implied(
            f"block_x {'<=' if fewer else '=='} {shown(count)}",
            f"{name} is made for so many threads of a block",
            "launch no more threads than the type says"
            if fewer
            else "launch as many threads as the type says",
            (at.line, max(at.line, at.end_line)),
        )


def _of_valid(node: object) -> bool:
    """Whether a block reduces what some of its threads have, whose number it is given. Source: CUB,
    BlockReduce: Reduce(input, op, num_valid) and Sum(input, num_valid)."""
    called = node.function if isinstance(node, n.Call) else None
    given = len(node.arguments) if isinstance(node, n.Call) else 0
    return isinstance(called, n.Field) and (called.name, given) in (("Reduce", 3), ("Sum", 2))


def _primitives(definition: n.Definition) -> Iterator[tuple[str, n.Expr | n.CType, n.Place]]:
    """Types of CUB's block-wide primitives, with the threads of the x axis. Source: CUB, block-wide
    primitives: the second template parameter is BLOCK_DIM_X."""
    for node in n.inside(definition.body):
        made = node.type if isinstance(node, n.Alias | n.Variable) else None
        if made is not None and made.name.startswith(_CUB_BLOCK) and len(made.arguments) > 1:
            yield made.name, made.arguments[1], node.at


def whole_warps(kernel: Kernel, launches: tuple[Launch, ...]) -> Iterator[Constraint]:
    """The threads of a block of a computed size are shared out to warps without a rest, or
    exchange values with all lanes of their warp."""
    if not launches:
        return
    shared = _shares(Graph(kernel.entry))
    exchanged = None if shared else _exchanged(Graph(inline(kernel).entry))
    if not shared and exchanged is None:
        return
    for launch in launches:
        extents = [str(dict(launch.hints).get(axis, 1)) for axis in _BLOCK]
        computed = [one for one in extents if one != "1"]
        if len(computed) == 1 and computed[0].isidentifier():
            yield Constraint(
                expression=f"{computed[0]} % {_WARP} == 0",
                origin=Origin.IMPLIED,
                because="the kernel divides the threads of the block by those of a warp"
                if shared
                else "the kernel exchanges values with all lanes of a warp",
                hint="launch whole warps",
                lines=launch.lines,
            )


def _exchanged(graph: Graph) -> Node | None:
    """Where values are exchanged between lanes of which a constant says that all take part."""
    for node in graph.of(OpKind.SHUFFLE, OpKind.VOTE):
        mask = graph.producer(graph.core(node.op.operand("mask") or ""))
        if mask is not None and mask.op.attribute("value") in _ALL_LANES:
            return node
    return None


def rows_of_warps(kernel: Kernel, launches: tuple[Launch, ...]) -> Iterator[Constraint]:
    """Blocks of several rows of threads, each of which is a warp that exchanges values."""
    extents = [dict(launch.hints) for launch in launches]
    if not extents or any(one.get("block_x") != _WARP or "block_y" not in one for one in extents):
        return
    graph = Graph(inline(kernel).entry)
    lanes = [node for node in graph.of(OpKind.THREAD_ID) if _axis(graph, node) == 0]
    if lanes and graph.of(OpKind.SHUFFLE, OpKind.VOTE):
        path = kernel.entry.span.path
        lines = [node.lines for node in lanes if node.op.span.path == path]
        yield Constraint(
            expression=f"block_x == {_WARP}", origin=Origin.STATED, checked_by_host=True,
            because="every launch has rows of one warp, and the kernel exchanges values in it",
            hint="keep to it where the kernel is launched from elsewhere",
            lines=lines[0] if lines else launches[0].lines,
        )  # fmt: skip


def _axis(graph: Graph, node: Node) -> object:
    axis = graph.producer(node.op.operand("axis"))
    return axis.op.attribute("value") if axis is not None else None


def shared_fits(launches: tuple[Launch, ...], sites: Sequence[LaunchSite]) -> Iterator[Constraint]:
    """Shared memory that a launch asks for by a computed size is within the limit of the target."""
    for launch, site in zip(launches, sites, strict=True):
        size = dict(launch.hints).get("shared_bytes")
        if isinstance(size, str) and (text := _in_bytes(size) or _named(site)):
            yield Constraint(
                expression=f"{text} <= target.shared_bytes_per_block",
                origin=Origin.IMPLIED,
                because="the launch asks for shared memory of a computed size",
                hint="keep to the limit of the target, and ask for more than 48 KB by attribute",
                lines=launch.lines,
            )


def _in_bytes(size: str) -> str:
    """A size in the words of constraints; empty where something is called that they have not."""
    text = _BYTES.sub(r"bytes_of(\1)", size).replace("::", ".")
    plain = set(_CALLED.findall(text)) <= {"bytes_of", "min", "max"} and _PLAIN.fullmatch(text)
    return text if plain else ""


def _named(site: LaunchSite) -> str:
    """The variable that a launch takes its shared memory from."""
    given = site.shape[2] if len(site.shape) > 2 else None
    return given.text if isinstance(given, n.Name) and given.text.isidentifier() else ""


def _shares(graph: Graph) -> bool:
    """Whether the threads of a block, or of all blocks, are counted and divided by those of a
    warp."""
    for node in graph.of(OpKind.FLOOR_DIV):
        above, below = (graph.producer(value) for value in node.op.inputs[:2])
        warp = below is not None and below.op.attribute("value") == _WARP
        if warp and above is not None and above.op.kind == OpKind.ADD and _of_all(graph, above):
            return True
        counted = above is not None and above.op.kind in (OpKind.BLOCK_THREADS, OpKind.MUL)
        if warp and counted and above is not None:
            ends = (
                [graph.producer(v) for v in above.op.inputs] if above.op.kind == OpKind.MUL else []
            )
            if all(end is not None and end.op.kind in _COUNTS for end in ends):
                return True
    return False


def _of_all(graph: Graph, number: Node) -> bool:
    """Whether a sum is the number of a thread among those of all blocks."""
    parts = [graph.producer(value) for value in number.op.inputs]
    before = [
        {graph.kind_of(value) for value in part.op.inputs}
        for part in parts
        if part is not None and part.op.kind == OpKind.MUL
    ]
    thread = any(part is not None and part.op.kind == OpKind.THREAD_ID for part in parts)
    return thread and {OpKind.BLOCK_ID, OpKind.BLOCK_THREADS} in before


def whole_shares(found: Sequence[LaunchSite], definition: n.Definition) -> Iterator[Constraint]:
    """Sizes that the host divides for every launch and rounds down: for an extent of the grid, or
    for an argument as it stands, or a field of one."""
    rows = [_shared_out(one, definition) for one in found]
    common = set.intersection(*map(set, rows)) if rows else set()
    for text in sorted(common):
        yield implied(
            text,
            "the host divides the size for the launch, and the rest is left out",
            "check it before the launch, or round up and leave out what is past the end",
            rows[0][text],
        )


def _shared_out(site: LaunchSite, definition: n.Definition) -> dict[str, Lines]:
    """Quotients that a launch is given: `size % part == 0` in the words of the kernel."""
    words: dict[str, str] | None = None
    told: dict[str, Lines] = {}
    kept = [
        made for one in site.arguments if isinstance(one, n.Name)
        for _, made in fields(one, site.names)
    ]  # fmt: skip
    for given in (*grid_of(site), *site.arguments, *kept):
        made: object = given
        for _ in range(MAX_BEHIND):
            while isinstance(made, n.Cast):
                made = made.operand
            made = site.names.get(made.text) if isinstance(made, n.Name) else made
        match made:
            case n.Binary(operator="/", left=n.Name() | n.Field() as size, right=part) if (
                _counts(part) and made.at.path == definition.at.path
            ):
                words = words if words is not None else site.words(definition)
                of = f"({shown(part)})" if isinstance(part, n.Binary) else shown(part)
                text = in_words(f"{shown(size)} % {of} == 0", words)
                if text is not None:
                    told.setdefault(text, _lines(made))
    return told


def _counts(part: object) -> bool:
    """A number above one, a name, or a product of such."""
    match part:
        case n.Constant(value=value):
            return value != 1
        case n.Binary(operator="*", left=left, right=right):
            return _counts(left) and _counts(right)
    return isinstance(part, n.Name)


def divisors(names: Mapping[str, n.Expr | n.Variable]) -> Iterator[Constraint]:
    """Greatest common divisors divide what they were made of."""
    for name, value in names.items():
        if not isinstance(value, n.Call) or not isinstance(value.function, n.Name):
            continue
        if value.function.text.rpartition("::")[2] != "gcd":
            continue
        for given in value.arguments:
            if isinstance(given, n.Name):
                yield Constraint(
                    expression=f"{given.text} % {name} == 0",
                    origin=Origin.STATED,
                    because=f"{name} is a common divisor that the host computes",
                    hint="keep to it where the kernel is launched from elsewhere",
                    lines=_lines(value),
                    checked_by_host=True,
                )


def _lines(node: n.Expr) -> Lines:
    return (node.at.line, max(node.at.line, node.at.end_line))
