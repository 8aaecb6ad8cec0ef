"""Searches: what a decorator attaches and what a search call tries."""

from __future__ import annotations

import ast

from extractors.host.calls import Calls
from extractors.host.events import Case, CopyRecord, HintRecord, SearchRecord
from extractors.host.machine import present
from extractors.host.values import (
    Choice,
    ClassValue,
    Decorating,
    Expr,
    Func,
    KernelValue,
    Ref,
    Tuned,
    Unknown,
    Value,
)


class Searching(Calls):
    """Searches over configurations, called or attached."""

    def decorate(self, target: Decorating, args: tuple[Value, ...], node: ast.AST) -> Value:
        """Apply a decorator of a library to what it is given."""
        value = args[0] if args else Unknown("a decorator without a function")
        if isinstance(value, Func):
            value = KernelValue(value.name, value.frame.module)
        if not isinstance(value, KernelValue):
            return value
        options = dict(target.options)
        if target.kind == "kernel":
            hints = tuple((key, item) for key, item in target.options if item is not None)
            self.hinted(value.name, hints, node)
            return KernelValue(value.name, value.module, hints)
        if target.kind == "heuristics":
            rules = self.resolve(options.get("values"))
            table = self.machine.mapping(rules.oid) if isinstance(rules, Ref) else {}
            rows = tuple((str(key), rule) for key, rule in table.items())
            return KernelValue(
                value.name, value.module, value.hints, value.tuner, (*value.heuristics, *rows)
            )
        if target.kind == "autotune":
            record = self.new_search("triton.autotune", options.get("configs"), target.lines)
            record.kernel, record.key = value, self.sequence(options.get("key", ()))
            record.module = value.module
            record.prune = options.get("prune_configs_by") or record.prune
            record.resets = self._named(options.get("reset_to_zero"))
            record.restores = self._named(options.get("restore_value"))
            return KernelValue(value.name, value.module, value.hints, record.id, value.heuristics)
        return value

    def instantiate(
        self, cls: ClassValue, args: tuple[Value, ...], kwargs: dict[str, Value], node: ast.AST
    ) -> Value:
        """An instance of a class of the package; one that is made of a kernel and configurations
        launches that kernel with the best of them."""
        given = (*args, *kwargs.values())
        kernels = [value for value in given if isinstance(value, KernelValue)]
        tried = [place for place, value in enumerate(given) if self._configurations(value)]
        if len(kernels) != 1 or len(tried) != 1:
            return super().instantiate(cls, args, kwargs, node)
        kept = Unknown("a class keeps the winner under a key of its own")
        options = (("configs", given[tried[0]]), ("key", kept))
        target = Decorating("autotune", options, self.where(node))
        made = self.decorate(target, (kernels[0],), node)
        if isinstance(made, KernelValue) and made.tuner is not None:
            self.searches[made.tuner].place = tried[0]
        return made

    def _configurations(self, value: Value) -> bool:
        """Whether a value is a list of configurations of Triton."""
        rows = self.sequence(value) if isinstance(value, (Ref, tuple)) else ()
        if not isinstance(rows, tuple) or not rows:
            return False
        return all(isinstance(row, Ref) and self._configuration(row) for row in rows)

    def _configuration(self, row: Ref) -> bool:
        return row.kind == "record" and "kwargs" in self.machine.mapping(row.oid)

    def _named(self, value: Value) -> tuple[str, ...]:
        """A list of names; empty when there is none or it cannot be told."""
        row = self.sequence(value) if value is not None else ()
        return tuple(str(item) for item in row) if isinstance(row, tuple) else ()

    def _passed(self, record: SearchRecord, tensors: list[Value]) -> tuple[str, ...]:
        """Parameters of the searched kernel that get one of the tensors."""
        kernel = record.kernel
        names = self.parameter_names(kernel) if isinstance(kernel, KernelValue) else ()
        row = record.args if isinstance(record.args, tuple) else ()
        rows = zip(names, row, strict=False)
        return tuple(name for name, value in rows if any(value == one for one in tensors))

    def hinted(self, kernel: str, hints: tuple[tuple[str, Value], ...], node: ast.AST) -> None:
        """Record that a kernel object was given hints."""
        if hints:
            self.machine.emit(HintRecord(kernel=kernel, hints=hints, lines=self.where(node)))

    def new_search(self, kind: str, configs: Value, lines: tuple[int, int]) -> SearchRecord:
        """Record that a search exists."""
        machine = self.machine
        number = machine.fresh()
        record = SearchRecord(
            id=number,
            kind=kind,
            lines=lines,
            configs=self.sequence(configs),
            path=machine.path,
            stack=machine.stack,
        )
        record.cases = self.cases_of(record.configs)
        record.generator = self._generator(record.configs)
        record.order = len(machine.events)
        record.budget = machine.budgets[-1] if machine.budgets else None
        if any(item in machine.widened for row in _rows(record.configs) for item in row):
            record.prune = "conditions on the problem"
        self.searches[number] = record
        return record

    def search(self, args: tuple[Value, ...], kwargs: dict[str, Value], node: ast.AST) -> Value:
        """An exhaustive search: its callbacks are read with the axes as symbols."""
        names = ("search_space", "stream", "grid_fn", "kernel", "args_fn", "hints_fn")
        given: dict[str, Value] = {**dict(zip(names, args, strict=False)), **kwargs}
        space = given.get("search_space", Unknown("no space"))
        record = self.new_search("exhaustive_search", space, self.where(node))
        tuned = Tuned(record.id)
        kernel = self.resolve(given.get("kernel"))
        record.kernel = (
            self.call(kernel, (tuned,), {}, node) if isinstance(kernel, Func) else kernel
        )
        record.grid = self._callback(given.get("grid_fn"), tuned, node)
        before = len(self.machine.events)
        record.args = self._callback(given.get("args_fn"), tuned, node)
        fresh = [one for one in self.machine.events[before:] if isinstance(one, CopyRecord)]
        record.copied = tuple((one.zeroed, one.lines) for one in fresh)
        record.resets = self._passed(record, [one.tensor for one in fresh if one.zeroed])
        record.restores = self._passed(record, [one.tensor for one in fresh if not one.zeroed])
        if given.get("hints_fn") is not None:
            record.hints = self._hint_rows(self._callback(given.get("hints_fn"), tuned, node))
            record.has_hints = True
        self.machine.emit(record)
        from_values = self.resolve(record.kernel)
        if not isinstance(from_values, (KernelValue, Choice)):
            self.note("a search whose kernel cannot be told", node)
        return self.outcome(record.id)

    def _hint_rows(self, value: Value) -> Value:
        """What a hints function returns, as (name, value) pairs."""
        value = self._same_dict(self.resolve(value))
        if not isinstance(value, Ref) or value.kind != "dict":
            return value
        rows = ((str(key), present(item)) for key, item in self.machine.mapping(value.oid).items())
        return tuple((key, item) for key, item in rows if item is not None)

    def cases_of(self, value: Value) -> tuple[Case, ...]:
        """A configuration space as cases: conditions with the points that hold under them."""
        cases: list[Case] = []
        self._collect_cases(value, (), cases)
        return tuple(cases)

    def _collect_cases(
        self, value: Value, conds: tuple[tuple[Expr, bool], ...], into: list[Case]
    ) -> None:
        if len(into) >= 256:
            return
        if isinstance(value, Choice):
            self._collect_cases(value.then, (*conds, (value.cond, True)), into)
            self._collect_cases(value.other, (*conds, (value.cond, False)), into)
        elif isinstance(value, tuple):
            reasons = [self._unknown(item) for item in value]
            rows = zip(value, reasons, strict=True)
            points = tuple(self.point_of(item) for item, reason in rows if reason is None)
            values = [one for point in points for _, one in point]
            reasons += [one.reason for one in values if isinstance(one, Unknown)]
            broken = next((reason for reason in reasons if reason is not None), None)
            into.append(Case(conds=conds, points=points, reason=broken))
        else:
            reason = (
                value.reason
                if isinstance(value, Unknown)
                else "the configurations come from outside the source"
            )
            into.append(Case(conds=conds, points=(), reason=reason))

    def _unknown(self, config: Value) -> str | None:
        """Why the axes of a configuration are not known; None when they are."""
        if isinstance(config, Ref) and config.kind == "record":
            config = self.resolve(self.machine.mapping(config.oid).get("kwargs"))
        return config.reason if isinstance(config, Unknown) else None

    def _generator(self, value: Value) -> tuple[str, tuple[int, int], tuple[str, ...]] | None:
        """The outermost function of this module that made the configurations, seen from here."""
        pending = [value]
        for _ in range(64):
            item = pending.pop() if pending else None
            if isinstance(item, Choice):
                pending += [item.then, item.other]
            elif isinstance(item, tuple):
                pending += list(item[:1])
            elif isinstance(item, Ref) and item.oid in self.made:
                stack = self.made[item.oid].stack
                inner = (
                    stack[len(self.calls) :]
                    if list(stack[: len(self.calls)]) == self.calls
                    else stack
                )
                return next((call for call in inner if call[0]), None)
        return None

    def _callback(self, function: Value, tuned: Tuned, node: ast.AST) -> Value:
        if function is None:
            return None
        return self.machine.lift(lambda one: self.call(one, (tuned,), {}, node), function)

    def outcome(self, search: int) -> Value:
        raise NotImplementedError

    def axis_names(self, search: int) -> tuple[str, ...]:
        raise NotImplementedError

    def parameter_names(self, kernel: KernelValue) -> tuple[str, ...]:
        raise NotImplementedError


def _rows(value: Value) -> list[tuple[Value, ...]]:
    """The rows of a space, over all its cases."""
    if isinstance(value, Choice):
        return [*_rows(value.then), *_rows(value.other)]
    return [value] if isinstance(value, tuple) else []
