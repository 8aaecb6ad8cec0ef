"""One function of a tile program as Python text: structured SSA back to variables, loops and
branches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from generators.source.calls import CallWriter
from generators.source.names import NameClash, Names, Renames
from generators.source.spelling import Spelling, Text
from kb.errors import CannotEmit
from kb.ir import Function, Kernel, Op, Region, walk
from kb.ops import EFFECT, PROMISES, TERMINATORS, Effect, OpKind

INDENT = "    "
MAX_RENAMES = 400
_IMMEDIATE = frozenset({OpKind.CONST, OpKind.DTYPE, OpKind.ENUM, OpKind.FUNCTION})
_STATEMENTS = frozenset({OpKind.FOR, OpKind.WHILE, OpKind.IF, OpKind.UNPACK, OpKind.COPY})
_ORDERED = frozenset({Effect.WRITE, Effect.ATOMIC, Effect.CONTROL, Effect.UNKNOWN})


def function_body(kernel: Kernel, function: Function, spelling: Spelling) -> list[str]:
    """Lines of the body, indented once.

    Raises CannotEmit at the span of an operation that the dialect cannot write.
    """
    renames = Renames()
    for _ in range(MAX_RENAMES):
        writer = BodyWriter(kernel, function, spelling, renames)
        try:
            return writer.lines()
        except NameClash as clash:
            writer.names.rename(clash.value)
    raise CannotEmit(f"{function.name} needs more than {MAX_RENAMES} renamed values.")


class BodyWriter:
    """Writes one function under one assignment of names."""

    def __init__(
        self, kernel: Kernel, function: Function, spelling: Spelling, renames: Renames
    ) -> None:
        self.function = function
        self.producer: dict[str, Op] = {}
        self.uses: Counter[str] = Counter()
        self.inline: set[str] = set()
        self.loops: list[list[str]] = []
        parameters = frozenset(function.parameter_names)
        others = frozenset(f.name for f in kernel.functions)
        self.names = Names(others | _modules(spelling), parameters, renames)
        self.names.holds.update({name: name for name in parameters})
        self.calls = CallWriter(kernel, spelling, self)
        for op in walk(function.body):
            self.uses.update(op.inputs)
            self.producer.update({value.name: op for value in op.results})
        self._choose_inline(function.body)

    def lines(self) -> list[str]:
        """The whole body."""
        written = list(self._region(self.function.body, INDENT, last=True))
        return written or [f"{INDENT}pass"]

    # -- which values are written where they are used

    def _choose_inline(self, region: Region) -> None:
        waiting: dict[str, int] = {}
        barrier = 0
        for op in region.ops:
            for value in op.inputs:
                at = waiting.pop(value, None)
                if at is not None and (at == barrier or self._movable(value)):
                    self.inline.add(value)
            if EFFECT.get(op.kind) in _ORDERED:
                barrier += 1
            for inner in op.regions:
                self._choose_inline(inner)
            if op.kind in _IMMEDIATE and not op.results[0].hint:
                self.inline.add(op.results[0].name)
            elif self._foldable(op):
                waiting[op.results[0].name] = barrier

    def _foldable(self, op: Op) -> bool:
        if op.kind in _STATEMENTS or op.kind in TERMINATORS or len(op.results) != 1:
            return False
        value = op.results[0]
        return not value.hint and self.uses[value.name] == 1

    def _movable(self, value: str) -> bool:
        """A pure step may be written later than where it stood."""
        return EFFECT.get(self.producer[value].kind) is None

    # -- expressions

    def expression(self, value: str) -> Text:
        """Text of a value: its variable, or the expression that makes it."""
        if value in self.inline:
            return self.calls.text(self.producer[value])
        return Text(self.names.read(value))

    # -- statements

    def _region(self, region: Region, indent: str, *, last: bool = False) -> Iterator[str]:
        for op in region.ops:
            if op.results and op.results[0].name in self.inline:
                continue
            if last and op is region.terminator and op.kind == OpKind.RETURN and not op.operands:
                continue
            yield from self._statement(op, indent)

    def _statement(self, op: Op, indent: str) -> Iterator[str]:
        match op.kind:
            case OpKind.FOR:
                yield from self._for(op, indent)
            case OpKind.WHILE:
                yield from self._while(op, indent)
            case OpKind.IF:
                yield from self._if(op, indent)
            case OpKind.RETURN:
                value = self.expression(op.inputs[0]).text if op.inputs else ""
                yield f"{indent}return {value}".rstrip()
            case OpKind.YIELD | OpKind.BREAK | OpKind.CONTINUE:
                raise CannotEmit(f"a stray `{op.kind}`.", where=str(op.span))
            case OpKind.UNPACK:
                source = self.expression(op.inputs[0]).text
                targets = ", ".join(self.names.store(value.name) for value in op.results)
                comma = "," if len(op.results) == 1 else ""
                yield f"{indent}{targets}{comma} = {source}"
            case OpKind.UNDEF:
                return
            case _:
                yield from self._simple(op, indent)

    def _simple(self, op: Op, indent: str) -> Iterator[str]:
        text = self.calls.text(op).text
        named = [v for v in op.results if v.hint or self.uses[v.name]]
        if named:
            (value,) = op.results
            mark = ": tl.constexpr" if op.attribute("binding") == "constexpr" else ""
            yield f"{indent}{self.names.store(value.name)}{mark} = {text}"
        elif EFFECT.get(op.kind) is not None or op.kind in PROMISES:
            yield f"{indent}{text}"

    def _copies(self, pairs: list[tuple[str, str]], indent: str) -> Iterator[str]:
        """Assign values to the variables of a loop or a branch, all at once when order would
        matter."""
        moves: list[tuple[str, str, str]] = []
        for target, value in pairs:
            made = self.producer.get(value)
            if made is not None and made.kind == OpKind.UNDEF:
                continue
            if self.names.holds.get(target) != value or value in self.inline:
                moves.append((target, value, self.expression(value).text))
        targets = [target for target, _, _ in moves]
        clash = any(text in targets[:i] for i, (_, _, text) in enumerate(moves))
        if clash:
            yield f"{indent}{', '.join(targets)} = {', '.join(text for _, _, text in moves)}"
        for target, value, text in moves:
            if not clash:
                yield f"{indent}{target} = {text}"
            self.names.hold(target, value)

    def _for(self, op: Op, indent: str) -> Iterator[str]:
        (body,) = op.regions
        induction, *carried = body.arguments
        for argument, result in zip(carried, op.results, strict=True):
            self.names.share(result.name, argument.name)
        iterable = self.expression(op.inputs[0]).text
        variables = [self.names.of(argument.name) for argument in carried]
        yield from self._copies(list(zip(variables, op.inputs[1:], strict=True)), indent)
        first, ops = body.ops[0] if body.ops else None, body.ops
        unpacked = first is not None and first.kind == OpKind.UNPACK
        if first is not None and unpacked and first.inputs == (induction.name,):
            target = ", ".join(self.names.of(value.name) for value in first.results)
            held = [value.name for value in first.results]
            ops = ops[1:]
        else:
            target, held = self.names.of(induction.name), [induction.name]
        yield f"{indent}for {target} in {iterable}:"
        held += [argument.name for argument in carried]
        yield from self._loop(Region(body.arguments, ops), held, variables, indent)
        self._after(op, variables)

    def _while(self, op: Op, indent: str) -> Iterator[str]:
        test, body = op.regions
        for early, argument, result in zip(test.arguments, body.arguments, op.results, strict=True):
            self.names.share(result.name, argument.name)
            self.names.share(early.name, argument.name)
        variables = [self.names.of(argument.name) for argument in body.arguments]
        yield from self._copies(list(zip(variables, op.inputs, strict=True)), indent)
        for argument in test.arguments:
            self.names.hold(self.names.of(argument.name), argument.name)
        *steps, end = test.ops
        if any(step.results[0].name not in self.inline for step in steps):
            raise CannotEmit("a loop condition of several statements.", where=str(op.span))
        yield f"{indent}while {self.expression(end.inputs[0]).text}:"
        held = [argument.name for argument in body.arguments]
        yield from self._loop(body, held, variables, indent)
        self._after(op, variables)

    def _loop(
        self, body: Region, held: list[str], variables: list[str], indent: str
    ) -> Iterator[str]:
        """The body of a loop; a value from outside whose variable the body overwrites is
        renamed."""
        for value in held:
            self.names.store(value)
        inside = set(_defined(body))
        self.names.stores.append(set(variables))
        self.names.outer_reads.append([])
        self.loops.append(variables)
        lines = list(self._branch(body, variables, indent + INDENT))
        self.loops.pop()
        written = self.names.stores.pop()
        reads = self.names.outer_reads.pop()
        for name, value in reads:
            if name in written and value not in inside and value not in held:
                raise NameClash(value)
        for name in written:
            self.names.holds[name] = None
        yield from lines or [f"{indent}{INDENT}pass"]

    def _branch(self, region: Region, variables: list[str], indent: str) -> Iterator[str]:
        """A region that ends in a terminator, or in a branch both of whose sides leave it; hands
        its values over to `variables`.
        """
        *steps, end = region.ops
        yield from self._region(Region(region.arguments, tuple(steps)), indent)
        if end.kind in (OpKind.RETURN, OpKind.IF):
            yield from self._statement(end, indent)
            return
        targets = variables if end.kind == OpKind.YIELD else self.loops[-1]
        yield from self._copies(list(zip(targets, end.inputs, strict=True)), indent)
        if end.kind in (OpKind.BREAK, OpKind.CONTINUE):
            yield f"{indent}{end.kind}"

    def _after(self, op: Op, variables: list[str]) -> None:
        for name, result in zip(variables, op.results, strict=True):
            self.names.hold(name, result.name)

    def _if(self, op: Op, indent: str) -> Iterator[str]:
        variables = [self.names.of(value.name) for value in op.results]
        test = self.expression(op.inputs[0]).text
        yield from self._copies(self._kept(op.regions[1], variables), indent)
        yield f"{indent}if {test}:"
        before = dict(self.names.holds)
        self.names.stores.append(set())
        texts: list[list[str]] = []
        for region in op.regions:
            self.names.holds = dict(before)
            texts.append(list(self._branch(region, variables, indent + INDENT)))
        written = self.names.stores.pop()
        self.names.holds = {n: (None if n in written else v) for n, v in before.items()}
        self._after(op, variables)
        then, other = texts
        yield from then or [f"{indent}{INDENT}pass"]
        if other and other[0].startswith(f"{indent}{INDENT}if ") and _single(other, indent):
            yield f"{indent}el{other[0].strip()}"
            yield from (line[len(INDENT) :] for line in other[1:])
        elif other:
            yield f"{indent}else:"
            yield from other

    def _kept(self, other: Region, variables: list[str]) -> list[tuple[str, str]]:
        """Variables that are new with a branch and keep, where it is not taken, what another one
        holds, in the order of its results. Triton takes what both branches bind by name, what was
        bound before in the order of binding: those out of the order of names were bound before.
        """
        *steps, end = other.ops
        if steps or end.kind != OpKind.YIELD:
            return []
        pairs = [
            (name, value)
            for name, value in zip(variables, end.inputs, strict=True)
            if name not in self.names.holds and value not in self.inline
        ]
        return pairs if pairs != sorted(pairs) else []


def _defined(body: Region) -> Iterator[str]:
    """Every value that a region makes, the arguments of inner regions included."""
    for op in walk(body):
        yield from (value.name for value in op.results)
        for region in op.regions:
            yield from (value.name for value in region.arguments)


def _single(lines: list[str], indent: str) -> bool:
    """True when the lines are one `if` statement with its branches."""
    outer = len(indent) + len(INDENT)
    heads = [line for line in lines[1:] if len(line) - len(line.lstrip()) == outer]
    return all(head.strip().startswith(("else:", "elif ")) for head in heads)


def _modules(spelling: Spelling) -> frozenset[str]:
    return frozenset({spelling.dialect.alias, "math", "triton", "torch", "libdevice"})
