"""Calls: functions read in place, classes, kernels, and what a search or a launch records."""

from __future__ import annotations

import ast
from collections.abc import Collection
from itertools import pairwise
from types import NoneType

from extractors.host.core import lines_of
from extractors.host.definitions import Definitions, is_generator
from extractors.host.device import asks_inside
from extractors.host.events import MadeConfig
from extractors.host.expr import is_none, make
from extractors.host.limits import OutOfBounds
from extractors.host.machine import merge, present
from extractors.host.recognise import recognise
from extractors.host.registries import OPTIONS, Row, registered
from extractors.host.render import leaves
from extractors.host.trials import drawn
from extractors.host.values import (
    ABSENT,
    NEVER,
    Bound,
    BoundLaunch,
    Builtin,
    Choice,
    ClassValue,
    Decorating,
    Expr,
    External,
    Frame,
    Func,
    Partial,
    Ref,
    Unknown,
    Value,
)

MAX_NESTED = 3
"""Times that a function is entered within itself while every time a condition decides that is not
known: each time would look like the one before, until calls are nested too deeply."""


class Calls(Definitions):
    """What happens when something is called."""

    def _eval_Call(self, node: ast.Call, frame: Frame) -> Value:
        target = self.eval(node.func, frame)
        if isinstance(target, Builtin) and target.name == "super":
            return Unknown("super() is not followed")
        kwargs = self._keywords(node, frame)
        spread = any(isinstance(one, ast.Starred) for one in node.args)
        args = self._row(node.args, frame, self.places(target, kwargs) if spread else None)
        if isinstance(kwargs, Unknown):
            self.note(f"a call with unknown keyword arguments: {kwargs.reason}", node)
            if not isinstance(target, BoundLaunch):
                return kwargs
            kwargs = {k.arg: self.eval(k.value, frame) for k in node.keywords if k.arg}
        if not isinstance(args, tuple):
            owner = target.owner if isinstance(target, Bound) else None
            if isinstance(owner, Expr):
                return self.view_of(owner)
            self.note("a call with arguments spread from an unknown value", node)
            if isinstance(target, BoundLaunch):
                return self.launch_bound(target, (), kwargs, node)
            return args if isinstance(args, Unknown) else Unknown("arguments of unknown number")
        if frame.module in self.analysed:
            self.machine.site = lines_of(node)
        result = self.machine.lift(lambda one: self.call(one, args, kwargs, node), target)
        unread = isinstance(result, Unknown) or (isinstance(result, Expr) and result.op == "call")
        if unread and args and isinstance(args[0], str) and frame.module in self.analysed:
            return self.registry(args[0], node) or result
        return result

    def _keywords(self, node: ast.Call, frame: Frame) -> dict[str, Value] | Unknown:
        table: dict[str, Value] = {}
        for item in node.keywords:
            value = self.eval(item.value, frame)
            if item.arg is not None:
                table[item.arg] = value
                continue
            value = self.resolve(value)
            if isinstance(value, Choice):
                value = self._same_dict(value)
            if isinstance(value, Ref) and value.oid in self.machine.options:
                continue
            if isinstance(value, Ref) and value.kind == "dict" and not value.open:
                table.update(
                    {str(key): entry for key, entry in self.machine.mapping(value.oid).items()}
                )
            elif not isinstance(value, Expr):
                unknown = Unknown("keywords spread from an unknown value")
                return value if isinstance(value, Unknown) else unknown
        return table

    def _same_dict(self, value: Value) -> Value:
        """A choice of dictionaries as one dictionary with choices for entries."""
        if not isinstance(value, Choice):
            return value
        then, other = self._same_dict(value.then), self._same_dict(value.other)
        if not (
            isinstance(then, Ref) and isinstance(other, Ref) and then.kind == other.kind == "dict"
        ):
            return then if isinstance(other, Unknown) else other
        left, right = self.machine.mapping(then.oid), self.machine.mapping(other.oid)
        table: dict[Value, Value] = {
            key: merge(value.cond, left.get(key, ABSENT), right.get(key, ABSENT))
            for key in {**left, **right}
        }
        return self.machine.alloc("dict", table)

    def call(
        self, target: Value, args: tuple[Value, ...], kwargs: dict[str, Value], node: ast.AST
    ) -> Value:
        """The value of a call on one known alternative of the callee."""
        if isinstance(target, (Func, ClassValue)) and "configs" in kwargs and "key" in kwargs:
            return Decorating("autotune", tuple(kwargs.items()), self.where(node))
        if isinstance(target, Func):
            return self.call_function(target, args, kwargs, node)
        if isinstance(target, Bound):
            return self.method(target, args, kwargs, node)
        if isinstance(target, (External, Builtin)):
            return self.library(target, args, kwargs, node)
        if isinstance(target, Decorating):
            return self.decorate(target, args, node)
        if isinstance(target, Partial):
            return self.call(
                target.target, (*target.args, *args), {**dict(target.kwargs), **kwargs}, node
            )
        if isinstance(target, BoundLaunch):
            return self.launch_bound(target, args, kwargs, node)
        if isinstance(target, ClassValue):
            return self.instantiate(target, args, kwargs, node)
        if isinstance(target, Choice):
            return self.machine.lift(lambda one: self.call(one, args, kwargs, node), target)
        if isinstance(target, Ref) and target.kind == "record":
            method = self.attribute(target, "__call__", node)
            if isinstance(method, (Func, Partial)):
                return self.call(method, args, kwargs, node)
        if isinstance(target, Expr):
            return self.opaque_call(target, args, kwargs)
        return (
            target
            if isinstance(target, Unknown)
            else Unknown("a call of something that is not a function")
        )

    def opaque_call(self, target: Expr, args: tuple[Value, ...], kwargs: dict[str, Value]) -> Value:
        """A call of something outside: an expression of its arguments."""
        shown = tuple(
            value
            for value in (*args, *kwargs.values())
            if isinstance(value, (Expr, int, float, str))
        )
        return make("call", target, *shown)

    def call_function(
        self, func: Func, args: tuple[Value, ...], kwargs: dict[str, Value], node: ast.AST
    ) -> Value:
        """Read a function in place."""
        machine = self.machine
        self.called.add(id(func.node))
        foreign = func.frame.module not in self.analysed
        given = (*args, *kwargs.values()) if self.trial and not foreign else ()
        if random := any(drawn(machine, value) for value in given):
            self.tried.setdefault(id(func.node), func)
        if len(self.calls) >= machine.limits.calls:
            return Unknown(f"calls nested deeper than {machine.limits.calls}")
        symbolic = [value for value in args if isinstance(value, (Expr, Choice))]
        if symbolic and len(args) == 1 and not kwargs:
            known = recognise(self, func)
            if known is not None:
                return machine.lift(lambda one: self.rounded(known, one, node), args[0])
        before = self.nested.get(id(func.node), ())
        nested = (*before, len(machine.path.guards))
        if len(nested) > MAX_NESTED and all(one < two for one, two in pairwise(nested)):
            return Unknown(f"`{func.name}` calls itself, on a condition that is not known")
        frame = machine.new_frame(func.frame, func.frame.module, func.name)
        failure = self.bind_parameters(func, args, kwargs, frame)
        if failure is not None:
            return failure
        muted = id(func.node) in self.roots
        names = tuple(arg.arg for arg in _all_args(func.node.args))
        self.calls.append(("" if foreign else func.name, lines_of(func.node), names))
        self.sites.append(self.where(node))
        if muted and not random:
            machine.emit_call(id(func.node), frame.oid)
        machine.muted += muted
        self.nested[id(func.node)] = nested
        outside, machine.foreign = machine.foreign, machine.foreign + 1 if foreign else 0
        stack, machine.stack = machine.stack, (*machine.stack, func.name)
        questions = machine.device_questions
        try:
            result = self._run_function(func, frame)
        except OutOfBounds as stop:
            if machine.steps > machine.limits.steps or not is_generator(func.node):
                raise
            result = Unknown(stop.reason)
        finally:
            machine.stack, machine.foreign = stack, outside
            machine.muted -= muted
            self.nested[id(func.node)] = before
            del self.calls[-1], self.sites[-1]
        machine.device_questions += machine.device_questions == questions and asks_inside(func.node)
        if machine.device_questions > questions:
            machine.device_functions.add(func.name)
        return self._summarised(func, result, args, kwargs)

    def _run_function(self, func: Func, frame: Frame) -> Value:
        if isinstance(func.node, ast.Lambda):
            return self.eval(func.node.body, frame)
        if not is_generator(func.node):
            return self.run_body(func.node.body, frame)
        target = self.machine.alloc("list", ())
        self.machine.put(frame.oid, "yield target", target)
        self.run_body(func.node.body, frame)
        return target

    def _summarised(
        self, func: Func, result: Value, args: tuple[Value, ...], kwargs: dict[str, Value]
    ) -> Value:
        """A flag that a sibling module reads from the environment keeps the name of its function;
        what it decorates or holds is told as it is."""
        plain = (Expr, Unknown, bool, int, float, str, NoneType)
        flag = isinstance(result, (Expr, Unknown, Choice))
        given = args or kwargs or func.frame.module in self.analysed
        if given or not flag or not all(isinstance(one, plain) for one in leaves(result)):
            return result
        return make("call", func.name)

    def bind_parameters(
        self, func: Func, args: tuple[Value, ...], kwargs: dict[str, Value], frame: Frame
    ) -> Unknown | None:
        """Give parameters their arguments, defaults, or say what is missing."""
        spec = func.node.args
        names = [arg.arg for arg in (*spec.posonlyargs, *spec.args)]
        table: dict[Value, Value] = dict(func.defaults)
        table.update(zip(names, args, strict=False))
        if spec.vararg is not None:
            table[spec.vararg.arg] = args[len(names) :]
        accepted = {arg.arg for arg in _all_args(spec)}
        extra = {key: value for key, value in kwargs.items() if key not in accepted}
        defaults = dict(func.defaults)
        for key, value in kwargs.items():
            if key in accepted:
                table[key] = _defaulted(value, defaults.get(key, ABSENT))
        if spec.kwarg is not None:
            table[spec.kwarg.arg] = self.machine.alloc("dict", extra)
        for name in accepted:
            if name not in table:
                table[name] = Unknown(f"no argument is given for `{name}` of `{func.name}`")
        self.machine.heap[frame.oid] = table
        return None

    def _eval_Yield(self, node: ast.Yield, frame: Frame) -> Value:
        value = None if node.value is None else self.eval(node.value, frame)
        self._yielded(frame, value)
        return None

    def _eval_YieldFrom(self, node: ast.YieldFrom, frame: Frame) -> Value:
        rows = self.sequence(self.eval(node.value, frame))
        self._yield_rows(frame, rows)
        return None

    def _yield_rows(self, frame: Frame, rows: Value) -> Value:
        rows = self.resolve(rows)
        if isinstance(rows, Choice):
            self.machine.branch(
                rows.cond,
                lambda: self._yield_rows(frame, rows.then),
                lambda: self._yield_rows(frame, rows.other),
            )
        elif isinstance(rows, tuple):
            for item in rows:
                self._yielded(frame, item)
        else:
            self._yielded(frame, rows)
        return None

    def _yielded(self, frame: Frame, value: Value) -> None:
        target = self.machine.mapping(frame.oid).get("yield target")
        if isinstance(target, Ref):
            self.append(target, value)

    def instantiate(
        self, cls: ClassValue, args: tuple[Value, ...], kwargs: dict[str, Value], node: ast.AST
    ) -> Value:
        """An instance of a class of the package: its fields from the arguments, or from
        `__init__`."""
        record = self.machine.alloc("record", {"class of": cls})
        init = self.class_attribute(cls, "__init__")
        if isinstance(init, Func):
            self.call_function(init, (record, *args), kwargs, node)
        else:
            rows = {**dict(zip(cls.fields, args, strict=False)), **kwargs}
            for name in cls.fields:
                if name not in rows:
                    default = self.class_attribute(cls, name)
                    rows[name] = (
                        default
                        if default is not ABSENT
                        else Unknown(f"the field `{name}` is not given")
                    )
            for key, value in rows.items():
                self.machine.put(record.oid, key, value)
        self.remember(record, node)
        return record

    def class_attribute(self, cls: ClassValue, name: str) -> Value:
        """An attribute of a class or of its bases, by reading order."""
        pending: list[Value] = [cls]
        for _ in range(16):
            if not pending:
                break
            one = pending.pop(0)
            if isinstance(one, ClassValue):
                for key, value in one.attributes:
                    if key == name:
                        return present(value)
                pending.extend(one.bases)
        return ABSENT

    def remember(self, ref: Ref, node: ast.AST) -> None:
        """Note where a configuration record was made."""
        self.made[ref.oid] = MadeConfig(ref=ref, stack=tuple(self.calls), lines=lines_of(node))

    def point_of(self, value: Value) -> tuple[tuple[str, Value], ...]:
        raise NotImplementedError

    def registry(self, key: str, node: ast.AST) -> Value:
        """The configurations that a table beside the code keeps under a key; None without any."""
        if key not in self.registered:
            self.registered[key] = self._registered(key)
        rows = self.registered[key]
        if rows is None:
            return None
        made: list[Value] = []
        for row in rows:
            options = {name: value for name, value in row if name in OPTIONS}
            own = {name: value for name, value in row if name not in OPTIONS}
            fields = {"kwargs": self.machine.alloc("dict", own), **options}
            made.append(self.machine.alloc("record", fields))
        return self.machine.alloc("list", tuple(made))

    def _registered(self, key: str) -> tuple[Row, ...] | None:
        found = registered(self.loader.tables() if self.loader else (), key)
        return found.rows if found is not None else None

    def decorate(self, target: Decorating, args: tuple[Value, ...], node: ast.AST) -> Value:
        raise NotImplementedError

    def places(self, target: Value, kwargs: Collection[str] | Unknown) -> int | None:
        raise NotImplementedError

    def launch_bound(
        self,
        target: BoundLaunch,
        args: tuple[Value, ...],
        kwargs: dict[str, Value],
        node: ast.AST,
    ) -> Value:
        raise NotImplementedError

    def method(
        self, target: Bound, args: tuple[Value, ...], kwargs: dict[str, Value], node: ast.AST
    ) -> Value:
        raise NotImplementedError

    def library(
        self,
        target: External | Builtin,
        args: tuple[Value, ...],
        kwargs: dict[str, Value],
        node: ast.AST,
    ) -> Value:
        raise NotImplementedError

    def rounded(self, known: str, value: Value, node: ast.AST) -> Value:
        raise NotImplementedError


def _all_args(spec: ast.arguments) -> list[ast.arg]:
    return [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]


def _defaulted(value: Value, default: Value) -> Value:
    """A keyword that some path leaves out takes the default there."""
    if isinstance(value, Choice):
        return merge(value.cond, _defaulted(value.then, default), _defaulted(value.other, default))
    return default if value is ABSENT else value


__all__ = ["NEVER", "Calls", "is_none"]
