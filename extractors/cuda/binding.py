"""Helpers that are called: which of several, and what stands for their parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from extractors.cuda import host_types
from extractors.cuda import nodes as n
from extractors.cuda.deduction import bind_names
from extractors.cuda.either import either
from extractors.cuda.overloads import (
    arguments_of,
    chosen,
    converted_to,
    converting,
    of_any_extent,
)
from extractors.cuda.pack_names import count_of
from extractors.cuda.packs import MAX_PACK, counted, expanded, is_pack
from extractors.cuda.same_work import never_used, only_converts, shown_by, standing_for
from extractors.cuda.sequences import length, pack_of
from extractors.cuda.template_fit import fitting, is_deduced
from extractors.cuda.type_traits import named_type
from extractors.cuda.values import UNKNOWN, Callee, Closure, Frame, Group, Kind, Named, Slot, Val
from extractors.cuda.vectors import VectorReader
from extractors.cuda.writing import MAX_AGAIN, MAX_IN_PLACE, SMALL
from kb.dialects.cuda import BITS

MAX_DEPTH = 16
"""Calls inside calls that are read in place."""

MAX_APART = 4
"""Calls inside calls in which several specialisations are read beside each other."""

_TYPES = ("typename", "template")
"""Template parameters that stand for types, or for templates of types."""


class BindingReader(VectorReader):
    """Binds the parameters of helpers."""

    def body_of(self, function: n.Definition, frame: Frame, at: n.Place) -> Val | None:
        """Read a helper in place; None when its control flow does not allow that."""
        raise NotImplementedError

    def kept(self, name: str, kind: Kind, read: Val, at: n.Place, frame: Frame) -> bool:
        """Bind a name to a struct taken apart."""
        raise NotImplementedError

    def helper(
        self, node: n.Call, candidates: Sequence[n.Definition],
        template: tuple[n.CType | n.Expr, ...], frame: Frame | None = None,
    ) -> Val | None:  # fmt: skip
        """A helper read in place; None when there is no single one, or it is too deep."""
        if not candidates or self.frame.depth >= MAX_DEPTH or self.writer.count > MAX_IN_PLACE:
            return None
        again = all(one.at in self.read_once for one in candidates)
        if again and self.writer.count > MAX_AGAIN:
            if max(self.read_once[one.at] for one in candidates) > SMALL:
                return None
        template = expanded(template, self.frame)
        candidates = fitting(candidates, template, node, (self.entry, *self.trail)[-1])
        candidates, closed = self._written_for(candidates, template)
        meant = [c for c in candidates if not never_used(c)]
        if closed or not _by_type(meant) or converted_to(candidates, template):
            meant = []  # Which one is meant is known, or need not be.
        given = arguments_of(self, node, candidates)
        function = chosen(candidates, given, 0 if closed else len(template))
        if function is None and len(node.arguments) == 1:
            number = converting(candidates) or converted_to(candidates, template)
            if number is not None:
                value = self.read(node.arguments[0])
                return self.cast(value, self.kind(number, self.frame), node.at)
        unsure = function is None or never_used(function)
        refused = [c for c in candidates if never_used(c)] if unsure else []
        converts = bool(refused) and only_converts(candidates, self.library)
        function = refused[0] if converts else function
        function = function or standing_for(candidates, given, self.library)
        function = function or shown_by(of_any_extent(candidates, given), self.library)
        if function is None or (meant and never_used(function) and not converts):
            function = shown_by(meant, self.library)
        if function is None and not closed and self.frame.depth < MAX_APART:
            function = either(candidates, len(template))
        if function is None or "__global__" in function.words:
            return None
        if function in self.trail and not self._goes_on(function, template, frame):
            return None
        inner = frame or Frame(function.name, depth=self.frame.depth + 1)
        if not self.bound(function, node, template, inner):
            return None
        if converts or (never_used(function) and only_converts(candidates, self.library)):
            kind = self.kind(function.result, inner)
            return self.cast(self.read(node.arguments[0]), kind, node.at)
        self.counting.append((function, _told(inner.scopes[0])))
        try:
            return self.body_of(function, inner, node.at)
        finally:
            self.counting.pop()

    def _goes_on(
        self, function: n.Definition, template: tuple[n.CType | n.Expr, ...], frame: Frame | None
    ) -> bool:
        """Whether a function that is being read calls itself with other numbers or types of its
        template, or of its struct's."""
        with self.writer.trial():
            given = self.arguments(template, self.frame, 0)
        own = {one.name: g for one, g in zip(function.template, given, strict=False)}
        told = _told(own) | _told(frame.scopes[0] if frame is not None else {})
        before = [earlier for one, earlier in self.counting if one == function]
        return bool(told) and not any(told.items() <= earlier.items() for earlier in before)

    def _written_for(
        self, candidates: Sequence[n.Definition], template: tuple[n.CType | n.Expr, ...]
    ) -> tuple[Sequence[n.Definition], bool]:
        """The specialisations that are written for the template arguments of a call, as the plain
        functions that they are then, and True; where there are none, what they do not rule out."""
        if not template or not any(one.given for one in candidates):
            return candidates, False
        template = (*template, *self._left_out(candidates, len(template)))
        with self.writer.trial():
            wanted = self.arguments(template, self.frame, 0)
            own = [(one, self.arguments(one.given, Frame("file"), 0)) for one in candidates]
        rest = [p for c in candidates if not c.given for p in c.template[len(wanted) :]]
        deduced = bool(rest) and all(p.default is None for p in rest)
        told = [(one, given, _meets(given, wanted, deduced)) for one, given in own]
        sure = [(one, given) for one, given, met in told if given and met]
        if sure:
            most = max(len(given) for _, given in sure)
            found = [one for one, given in sure if len(given) == most]
            # Such as differ in nothing but what they give are told apart by a type that is left.
            giving = [one for one in found if self.kind(one.result, Frame("file")) in wanted[most:]]
            return [replace(one, specialised=False) for one in giving or found], True
        instances = host_types.given(self.entry, self.library, self.of_file)
        left = [(one, given) for one, given, met in told if not given or met is None]
        return [o for o, given in left if host_types.meant(given, wanted, instances)], False

    def _left_out(
        self, candidates: Sequence[n.Definition], given: int
    ) -> Iterator[n.CType | n.Expr]:
        """What template arguments are that a call of specialisations leaves out."""
        if all(one.given for one in candidates):
            counts = {len(one.parameters) for one in candidates}
            declared = self.library.declared(candidates[0].name)
            fitting = [d for count, d in declared if len(d) > given and {count} == counts]
            rest = fitting[0][given:] if len(fitting) == 1 else ()
            yield from (one.default for one in rest if one.default is not None)

    def bound(
        self, function: n.Definition, node: n.Call, template: tuple[n.CType | n.Expr, ...],
        frame: Frame,
    ) -> bool:  # fmt: skip
        """Bind template arguments and parameters; False when an argument is missing."""
        self._templates(function, template, node.at, frame)
        for index, one in enumerate(function.parameters):
            if is_pack(one):
                rest = node.arguments[index:]
                frame.bind(counted(one), self.constant(len(rest), node.at))
                for number, inner in enumerate(rest):
                    part = replace(one, name=f"{counted(one)}{number}", type=n.CType("auto"))
                    self._parameter(part, inner, frame, function)
                break
            if index < len(node.arguments):
                self._parameter(one, node.arguments[index], frame, function)
            elif one.value is None:
                return False
            else:
                with self.inside(frame):
                    self._parameter(one, one.value, frame, function)
        return True

    def _templates(
        self, function: n.Definition, template: tuple[n.CType | n.Expr, ...], at: n.Place,
        frame: Frame,
    ) -> None:  # fmt: skip
        """Bind the template parameters of a function; a pack to each of its arguments and to how
        many they are."""
        for place, parameter in enumerate(function.template):
            if parameter.pack and (template or not is_deduced(parameter, function)):
                rest = template[place:]
                frame.bind(count_of(parameter.name), self.constant(len(rest), at))
                for number, argument in enumerate(rest):
                    part = replace(parameter, name=f"{count_of(parameter.name)}{number}")
                    self._template(part, argument, at, frame)
                break
            if place < len(template):
                self._template(parameter, template[place], at, frame)
        for parameter in function.template[len(template) :]:
            if parameter.default is not None and not parameter.pack:
                default = parameter.default
                if isinstance(default, n.CType):
                    frame.bind(parameter.name, Named(default, frame))
                else:
                    with self.inside(frame):
                        frame.bind(parameter.name, self.read(default))

    def _template(
        self, parameter: n.TemplateParameter, argument: n.CType | n.Expr, at: n.Place, frame: Frame
    ) -> None:
        """Bind one template parameter: to a function, a type or a value."""
        named = self._callee(argument)
        if named is not None:
            frame.bind(parameter.name, named)
        elif isinstance(argument, n.CType) and parameter.dtype not in _TYPES:
            frame.bind(parameter.name, self.read(named_type(argument, at)))
        elif isinstance(argument, n.CType):
            frame.bind(parameter.name, Named(argument, self.frame))
        elif parameter.dtype in _TYPES and isinstance(argument, n.Name):
            written = n.CType(argument.text, argument.arguments)
            frame.bind(parameter.name, Named(written, self.frame))
        else:
            frame.bind(parameter.name, self.read(argument))

    def _callee(self, argument: n.CType | n.Expr) -> Callee | None:
        """The functions that a template argument names; None when it is a type or a value."""
        if isinstance(argument, n.CType):
            name = "" if argument.pointers or argument.member else argument.name
        else:
            name = argument.text if isinstance(argument, n.Name) else ""
        bound = self.frame.find(name) if name else None
        if isinstance(bound, Callee) or not name or bound is not None:
            return bound if isinstance(bound, Callee) else None
        if self.library.alias(name) or self.library.records(name) or self.library.constant(name):
            return None
        found = tuple(f for f in self.library.functions(name) if not f.owner)
        return Callee(found) if found else None

    def _parameter(
        self, parameter: n.Variable, value: n.Expr, frame: Frame, function: n.Definition
    ) -> None:
        """Bind one parameter: a place for a reference, a variable in registers behind a pointer, a
        copy else."""
        written = parameter.type
        if (pack := pack_of(written)) and (count := length(value)) is not None:
            self._counted(pack, count, frame)
            return
        handed = self._handed_on(value)
        if handed is not None:
            frame.bind(parameter.name, handed)
            return
        if self._unchanged(parameter, value, frame, function):
            return
        if written.reference:
            where = self.place(value)
            if where is not None:
                self._deduce(function, parameter, where.kind, frame)
                frame.bind(parameter.name, where)
                return
        local = self.pointing(value) if written.pointers or written.extents else None
        if local is not None:
            inner = local.kind if written.extents else Kind(to=local.kind)
            self._deduce(function, parameter, inner, frame)
            frame.bind(parameter.name, local)
            return
        if isinstance(value, n.Braces) and value.type is None:
            read = self.braces(value, self.kind(written, frame), value.at, parameter.name)
        else:
            read = self.read(value, parameter.name)
        self._deduce(function, parameter, read.kind, frame)
        kind = self.kind(written, frame)
        if kind.to is not None and read.kind == UNKNOWN and read.name:
            open_ = kind.to.record in {t.name for t in function.template}
            kind = Kind(to=UNKNOWN) if open_ else kind
            read = replace(read, kind=kind)
        elif written.extents and not written.reference and read.kind.to is not None:
            kind = replace(read.kind, to=kind.element)
            read = self.pointer_cast(read, kind, value.at, parameter.name)
        elif kind.to == UNKNOWN and read.kind.to is not None and written.name == "auto":
            kind = read.kind
        elif kind.to is not None and read.kind.to is not None:
            kind = replace(kind, space=read.kind.space)
            read = self.pointer_cast(read, kind, value.at, parameter.name)
        elif kind != UNKNOWN:
            read = self.convert(read, kind, value.at, parameter.name)
        if self.kept(parameter.name, read.kind if kind == UNKNOWN else kind, read, value.at, frame):
            return
        key = self.key(parameter.name)
        self.kinds[key] = read.kind if kind == UNKNOWN else kind
        if kind.to is not None:
            self.kinds[key] = replace(kind, space=read.kind.space)
        self.names[key] = read
        frame.bind(parameter.name, Slot(key, self.kinds[key]))

    def _counted(self, pack: str, length: n.Expr, frame: Frame) -> None:
        """Bind a pack to the numbers from zero on, and to how many they are."""
        count = self.read(length)
        told = count.const if isinstance(count.const, int) else MAX_PACK + 1
        frame.bind(count_of(pack), count if told <= MAX_PACK else replace(count, const=None))
        for number in range(told if told <= MAX_PACK else 0):
            frame.bind(f"{count_of(pack)}{number}", self.constant(number, length.at))

    def _unchanged(
        self, parameter: n.Variable, value: n.Expr, frame: Frame, function: n.Definition
    ) -> bool:
        """Let a parameter be the struct that the kernel is given, where it gets that by its value
        and the helper writes nothing to it."""
        where = self.frame.find(value.text) if isinstance(value, n.Name) else None
        if not isinstance(where, Slot) or where.key not in self.given or parameter.type.pointers:
            return False
        struct = where.kind.dtype.startswith("dtypeof(") or bool(where.kind.record)
        if where.kind.to is not None or where.kind.shape or not struct:
            return False
        self._deduce(function, parameter, where.kind, frame)
        frame.bind(parameter.name, where)
        with self.inside(frame):
            return where.key not in self.assigned(function.body)

    def _handed_on(self, value: n.Expr) -> Closure | Group | Callee | None:
        """What is called later, or a group of threads, handed on by its name or forwarded; a struct
        that is called in the place of what it holds is a lambda itself."""
        match value:
            case n.Call(function=n.Name(text="std::forward" | "std::move"), arguments=(inner,)):
                return self._handed_on(inner)
            case n.Lambda():
                return Closure(value, self.frame)
            case n.Name():
                bound = self.frame.find(value.text) or self._callee(value)
                return bound if isinstance(bound, Closure | Group | Callee) else None
            case n.Braces(type=n.CType() as written, items=items) if items:
                return self._called_struct(self.kind(written, self.frame), items)
        return None

    def _called_struct(self, kind: Kind, items: Sequence[n.Expr]) -> Closure | None:
        """The call operator of a struct whose fields hold nothing but what is called later."""
        record = self.meant(kind) if kind.record else None
        held = [self._handed_on(item) for item in items] if record is not None else []
        if record is None or not all(held) or len(held) != len(record.fields):
            return None
        called = [one for one in record.methods if one.name == "operator()"]
        if len(called) != 1:
            return None
        frame = self.of_record(record, kind.arguments, self.frame.depth)
        for one, inner in zip(record.fields, held, strict=True):
            if inner is not None:
                frame.bind(one.name, inner)
        made = called[0]
        return Closure(n.Lambda(made.at, made.parameters, made.body, made.template), frame)

    def _deduce(
        self, function: n.Definition, parameter: n.Variable, kind: Kind, frame: Frame
    ) -> None:
        """A type parameter that stands for the type of an argument."""
        for _ in range(parameter.type.pointers):
            kind = kind.to or UNKNOWN
        names = {t.name for t in function.template}
        for size, extent in zip(parameter.type.extents, kind.shape, strict=False):
            counted = isinstance(size, n.Name) and size.text in names and extent != "?"
            if isinstance(size, n.Name) and counted and frame.find(size.text) is None:
                frame.bind(size.text, self.extent_value(extent, parameter.at))
        bind_names(parameter.type, kind, names, frame)


def _told(names: Mapping[str, object]) -> dict[str, int | Kind]:
    """The whole numbers and the types that names stand for."""
    told = {name: one.const if isinstance(one, Val) else one for name, one in names.items()}
    return {name: one for name, one in told.items() if isinstance(one, int | Kind)}


def _by_type(functions: Sequence[n.Definition]) -> bool:
    """Whether functions are specialisations that types alone tell apart."""
    columns = [*zip(*(one.given for one in functions), strict=False)]
    numbers = [[g.value for g in c if isinstance(g, n.Constant)] for c in columns]
    types = [all(isinstance(g, n.CType) for g in c) for c in columns]
    same = [len(c) == len(v) and len({*v}) == 1 for c, v in zip(columns, numbers, strict=True)]
    told = all(a or b for a, b in zip(types, same, strict=True))
    return told and all(one.given for one in functions)


def _meets(
    given: tuple[Kind | Val, ...], wanted: tuple[Kind | Val, ...], deduced: bool
) -> bool | None:
    """Whether a specialisation is written for template arguments; None when only the instantiation
    tells. Arguments that the call leaves out are those of the general function, or deduced."""
    if len(given) > len(wanted) and not deduced:
        return False
    told: list[bool | None] = [None] * max(0, len(given) - len(wanted))
    for one, other in zip(given, wanted, strict=False):
        if isinstance(one, Val) and isinstance(other, Val):
            known = one.const is not None and other.const is not None
            told.append(one.const == other.const if known else None)
        elif isinstance(one, Kind) and isinstance(other, Kind):
            known = one.dtype in BITS and other.dtype in BITS
            told.append(one == other if known else None)
        else:
            told.append(None)
    return False if False in told else None if None in told else True
