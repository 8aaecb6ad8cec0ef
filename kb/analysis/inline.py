"""inline(kernel) -> kernel whose helper calls are replaced by the bodies of the helpers, spans
kept; what a helper of another file does stands where the kernel's own file calls it, what one
without loops does stands at its call, too.

Branches whose condition is a literal after binding (a helper called with a stage number) are
taken, what a helper returns side by side is what the names at the call stand for, and a
compile-time loop over the parts of a group, or of what is asserted to have as many, is written
out. A helper that leaves from inside a loop keeps its call.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kb.analysis.fold import fold
from kb.ir import Function, Kernel, Literal, Op, Origin, Region, Span, Value, walk
from kb.ops import OpKind

MAX_DEPTH = 24
"""Longest chain of calls that is followed."""

MAX_OPS = 30_000
"""Operations of an inlined program; calls past that stay."""

MAX_EXITS = 40
"""Early returns of one helper that are joined; a call of a helper with more stays."""

MAX_PARTS = 16
"""Parts of a group that a compile-time loop is written out for."""

LOOPS = frozenset({OpKind.FOR, OpKind.WHILE})
Names = dict[str, str]


def inline(kernel: Kernel) -> Kernel:
    """The same program with every call that can be replaced replaced."""
    helpers = {helper.name: helper for helper in kernel.helpers}
    inliner = _Inliner(helpers, home=kernel.entry.span.path)
    names: Names = {name: name for name in kernel.entry.parameter_names}
    body = inliner.region(kernel.entry.body, names, 0)
    kept = tuple(h for h in kernel.helpers if h.name in inliner.kept)
    return Kernel(replace(kernel.entry, body=body), kept, kernel.dialect)


@dataclass(slots=True)
class _Inliner:
    helpers: dict[str, Function]
    constants: dict[str, Literal] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    lengths: dict[str, int] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    measured: dict[str, str] = field(default_factory=dict)
    sized: dict[str, int] = field(default_factory=dict)
    alike: dict[str, tuple[str, ...]] = field(default_factory=dict)
    home: str = ""
    site: Span | None = None
    called: int = 0
    via: tuple[int, ...] = ()
    through: tuple[Origin, ...] = ()
    _copies: int = 0
    _ops: int = 0

    def region(self, region: Region, names: Names, depth: int, suffix: str = "") -> Region:
        """A copy of a region; `names` maps the names of the source to those of the copy."""
        arguments = tuple(self._fresh(value, names, suffix) for value in region.arguments)
        return Region(arguments, tuple(self._ops_of(region.ops, names, depth, suffix)))

    def _ops_of(self, ops: Iterable[Op], names: Names, depth: int, suffix: str) -> list[Op]:
        found: list[Op] = []
        for op in ops:
            if op.kind == OpKind.CALL:
                found += self._call(op, names, depth, suffix)
            elif op.kind == OpKind.IF and (taken := self._taken(op, names)) is not None:
                found += self._splice(op, taken, names, depth, suffix)
            elif self._named(op, names) or self._item(op, names):
                continue
            elif op.kind == OpKind.FOR and (rounds := self._rounds(op, names)) is not None:
                found += self._unrolled(op, rounds, names, depth, suffix)
            else:
                found.append(self._copy(op, names, depth, suffix))
        return found

    def _fresh(self, value: Value, names: Names, suffix: str) -> Value:
        name = f"{value.name}{suffix}"
        names[value.name] = name
        return Value(name, value.type)

    def _copy(self, op: Op, names: Names, depth: int, suffix: str) -> Op:
        self._ops += 1
        operands = tuple((role, names.get(value, value)) for role, value in op.operands)
        regions = tuple(self.region(region, names, depth, suffix) for region in op.regions)
        results = tuple(self._fresh(value, names, suffix) for value in op.results)
        span = self._span(op)
        copied = Op(op.kind, operands, op.attributes, results, regions, span)
        known = fold(copied, self.constants)
        if known is not None:
            self.constants[copied.result] = known
        if op.kind == OpKind.TUPLE:
            self.groups[copied.result] = copied.inputs
            self.sized[copied.result] = len(copied.inputs)
        elif op.kind == OpKind.BUILTIN and op.attribute("spelling") == "len" and copied.inputs:
            self.measured[copied.result] = copied.inputs[0]
            if copied.inputs[0] in self.sized:
                self.lengths[copied.result] = self.sized[copied.inputs[0]]
        elif op.kind == OpKind.EQ and all(v in self.measured for v in copied.inputs):
            self.alike[copied.result] = tuple(self.measured[v] for v in copied.inputs)
        elif op.kind == OpKind.STATIC_ASSERT:
            self._asserted(copied.operand("condition") or "")
        elif op.kind == OpKind.STATIC_RANGE and len(copied.inputs) == 1:
            if copied.inputs[0] in self.lengths:
                self.counted[copied.result] = self.lengths[copied.inputs[0]]
        return copied

    def _asserted(self, condition: str) -> None:
        """What is asserted to have as many parts as a group has so many."""
        groups = self.alike.get(condition, ())
        for count in [self.sized[group] for group in groups if group in self.sized]:
            self.sized |= {group: self.sized.get(group, count) for group in groups}

    def _span(self, op: Op) -> Span:
        """Where an operation is told: at its line, or at the call into another file."""
        if self.site is None:
            return self._placed(op.span)
        if op.span.path in ("", self.home) or op.span.line < 1:
            return self.site
        return replace(self.site, origin=(op.span.path, op.span.lines), through=self.through)

    def _placed(self, span: Span) -> Span:
        """The span of an operation, with the line that calls the helper in which it stands."""
        if not self.called or span.call:
            return span
        return replace(span, call=self.called, via=self.via)

    def _item(self, op: Op, names: Names) -> bool:
        """A name for one part of a group that was put together in plain sight."""
        if op.kind != OpKind.SUBSCRIPT:
            return False
        parts = self.groups.get(names.get(op.inputs[0], op.inputs[0]), ())
        index = op.operand("index")
        place = self.constants.get(names.get(index, index)) if index is not None else None
        if not isinstance(place, int) or isinstance(place, bool) or not 0 <= place < len(parts):
            return False
        names[op.result] = parts[place]
        return True

    def _rounds(self, op: Op, names: Names) -> int | None:
        """How often a compile-time loop over the parts of a group goes round; None for any other
        loop."""
        count = self.counted.get(names.get(op.inputs[0], op.inputs[0]))
        last = op.regions[0].terminator
        plain = last is not None and last.kind == OpKind.YIELD
        return count if count is not None and count <= MAX_PARTS and plain else None

    def _unrolled(self, op: Op, rounds: int, names: Names, depth: int, suffix: str) -> list[Op]:
        """The body of a loop once for every part of a group, one after the other."""
        body = op.regions[0]
        carried = [names.get(v, v) for role, v in op.operands if role == "init"]
        found: list[Op] = []
        for place in range(rounds):
            self._copies += 1
            mark = f"{suffix}_{self._copies}"
            inner = dict(names)
            number = self._fresh(body.arguments[0], inner, mark)
            self.constants[number.name] = place
            known = (("value", place),)
            span = self._span(op) if self.site is not None else op.span
            found.append(Op(OpKind.CONST, attributes=known, results=(number,), span=span))
            inner.update(zip((a.name for a in body.arguments[1:]), carried, strict=False))
            found += self._ops_of(body.ops[:-1], inner, depth, mark)
            carried = [inner.get(v, v) for v in body.ops[-1].inputs]
        names.update(zip((r.name for r in op.results), carried, strict=False))
        return found

    def _named(self, op: Op, names: Names) -> bool:
        """Names for the parts of a group that was put together in plain sight; False otherwise."""
        if op.kind != OpKind.UNPACK:
            return False
        parts = self.groups.get(names.get(op.inputs[0], op.inputs[0]), ())
        if len(parts) != len(op.results):
            return False
        names.update(zip((value.name for value in op.results), parts, strict=True))
        return True

    def _taken(self, op: Op, names: Names) -> Region | None:
        """The region of a branch whose condition is a literal."""
        condition = names.get(op.inputs[0], op.inputs[0])
        if condition not in self.constants or len(op.regions) != 2:
            return None
        chosen = op.regions[0 if self.constants[condition] else 1]
        last = chosen.terminator
        return chosen if last is not None and last.kind == OpKind.YIELD else None

    def _splice(self, op: Op, region: Region, names: Names, depth: int, suffix: str) -> list[Op]:
        ops = self._ops_of(region.ops[:-1], names, depth, suffix)
        last = region.ops[-1]
        for result, value in zip(op.results, last.inputs, strict=False):
            names[result.name] = names.get(value, value)
        return ops

    def _call(self, op: Op, names: Names, depth: int, suffix: str) -> list[Op]:
        callee = str(op.attribute("callee"))
        helper = self.helpers.get(callee)
        body = single_exit(helper.body.ops) if helper is not None else None
        if helper is None or body is None or depth >= MAX_DEPTH or self._ops > MAX_OPS:
            self.kept.add(callee)
            return [self._copy(op, names, depth, suffix)]
        self._copies += 1
        mark = f"_{self._copies}"
        inner: Names = {}
        head = self._bind(helper, op, names, inner, mark)
        outer, called, via, through = self.site, self.called, self.via, self.through
        if outer is None and helper.span.path != self.home:
            self.site = op.span
        elif outer is not None and op.span.path not in ("", self.home):
            self.through = (*through, (op.span.path, op.span.lines))
        if not called and not any(one.kind in LOOPS for one in walk(helper.body)):
            self.called = op.span.line
        elif called and op.span.path == self.home:
            self.via = (*via, op.span.line)
        ops = self._ops_of(body[:-1], inner, depth + 1, mark)
        self.site, self.called, self.via, self.through = outer, called, via, through
        returned = body[-1].inputs
        for result in op.results:
            if returned:
                names[result.name] = inner.get(returned[0], returned[0])
            else:
                nothing = self._fresh(result, names, suffix)
                head.append(
                    Op(
                        OpKind.CONST,
                        attributes=(("value", None),),
                        results=(nothing,),
                        span=op.span,
                    )
                )
        return head + ops

    def _bind(self, helper: Function, op: Op, names: Names, inner: Names, mark: str) -> list[Op]:
        """Bind parameters to actual values; a default becomes a constant."""
        given = dict(op.operands)
        head: list[Op] = []
        for parameter in helper.parameters:
            if parameter.name in given:
                actual = given[parameter.name]
                inner[parameter.name] = names.get(actual, actual)
                continue
            name = f"{parameter.name}.0{mark}"
            inner[parameter.name] = name
            constant = Op(
                OpKind.CONST,
                attributes=(("value", parameter.default),),
                results=(Value(name),),
                span=op.span,
            )
            self.constants[name] = parameter.default
            head.append(constant)
        return head


def single_exit(ops: tuple[Op, ...], depth: int = 0) -> tuple[Op, ...] | None:
    """The same operations with one return, at the end; None when a loop is left by a return.

    `if c: return a` followed by the rest becomes a branch whose other side holds the rest.
    """
    for index, op in enumerate(ops):
        if op.kind == OpKind.RETURN:
            return ops[: index + 1]
        if not op.regions or not _returns(op):
            continue
        if op.kind != OpKind.IF or depth > MAX_EXITS:
            return None
        return _merge(ops[:index], op, ops[index + 1 :], depth + 1)
    return None


def _merge(
    before: tuple[Op, ...], op: Op, rest: tuple[Op, ...], depth: int
) -> tuple[Op, ...] | None:
    going = [r for r in op.regions if r.terminator is None or r.terminator.kind == OpKind.YIELD]
    if len(going) > 1:
        return None
    regions: list[Region] = []
    arity = 0
    for region in op.regions:
        ops = region.ops
        if region in going:
            renamed = {
                result.name: value
                for result, value in zip(op.results, region.ops[-1].inputs, strict=False)
            }
            ops = (*region.ops[:-1], *(rename(inner, renamed) for inner in rest))
        closed = single_exit(ops, depth)
        if closed is None:
            return None
        arity = max(arity, len(closed[-1].inputs))
        leave = replace(closed[-1], kind=OpKind.YIELD)
        regions.append(Region(region.arguments, (*closed[:-1], leave)))
    if any(len(region.ops[-1].inputs) != arity for region in regions):
        return None
    results = tuple(Value(f".{op.span.line}_{op.span.column}r") for _ in range(arity))
    merged = replace(op, regions=tuple(regions), results=results)
    leave = Op(OpKind.RETURN, tuple(("value", value.name) for value in results), span=op.span)
    return (*before, merged, leave)


def rename(op: Op, names: Names) -> Op:
    """The operation with its operands replaced, in its regions too."""
    if not names:
        return op
    operands = tuple((role, names.get(value, value)) for role, value in op.operands)
    regions = tuple(
        Region(region.arguments, tuple(rename(inner, names) for inner in region.ops))
        for region in op.regions
    )
    return replace(op, operands=operands, regions=regions)


def _returns(op: Op) -> bool:
    return any(
        inner.kind == OpKind.RETURN or (bool(inner.regions) and _returns(inner))
        for region in op.regions
        for inner in region.ops
    )
