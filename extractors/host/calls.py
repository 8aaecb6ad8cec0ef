"""Calls: functions read in place, classes, kernels, and what a search or a launch records."""

from __future__ import annotations

import ast

from extractors.host.core import lines_of
from extractors.host.definitions import Definitions, is_generator
from extractors.host.events import Case, HintRecord, LaunchRecord, MadeConfig, SearchRecord
from extractors.host.assume import Path, settle
from extractors.host.expr import atoms, is_none, make
from extractors.host.limits import OutOfBounds
from extractors.host.machine import merge, present
from extractors.host.recognise import recognise
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
    KernelValue,
    Meta,
    Partial,
    Ref,
    Tuned,
    Unknown,
    Value,
)

LAUNCH_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "waves_per_eu", "matrix_instr_nonkdim")


class Calls(Definitions):
    """What happens when something is called."""

    def _eval_Call(self, node: ast.Call, frame: Frame) -> Value:
        target = self.eval(node.func, frame)
        if isinstance(target, Builtin) and target.name == "super":
            return Unknown("super() is not followed")
        args = self._row(node.args, frame)
        kwargs = self._keywords(node, frame)
        if not isinstance(args, tuple):
            owner = target.owner if isinstance(target, Bound) else None
            if isinstance(owner, Expr):
                return self.view_of(owner)
            self.note("a call with arguments spread from an unknown value", node)
            return args if isinstance(args, Unknown) else Unknown("arguments of unknown number")
        if isinstance(kwargs, Unknown):
            self.note(f"a call with unknown keyword arguments: {kwargs.reason}", node)
            return kwargs
        if frame.module == self.main:
            self.machine.site = lines_of(node)
        return self.machine.lift(lambda one: self.call(one, args, kwargs, node), target)

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
                table.update({str(key): entry for key, entry in self.machine.mapping(value.oid).items()})
            elif not isinstance(value, Expr):
                return value if isinstance(value, Unknown) else Unknown("keywords spread from an unknown value")
        return table

    def _same_dict(self, value: Value) -> Value:
        """A choice of dictionaries as one dictionary with choices for entries."""
        if not isinstance(value, Choice):
            return value
        then, other = self._same_dict(value.then), self._same_dict(value.other)
        if not (isinstance(then, Ref) and isinstance(other, Ref) and then.kind == other.kind == "dict"):
            return then if isinstance(other, Unknown) else other
        left, right = self.machine.mapping(then.oid), self.machine.mapping(other.oid)
        table: dict[Value, Value] = {
            key: merge(value.cond, left.get(key, ABSENT), right.get(key, ABSENT)) for key in {**left, **right}
        }
        return self.machine.alloc("dict", table)

    def call(self, target: Value, args: tuple[Value, ...], kwargs: dict[str, Value], node: ast.AST) -> Value:
        """The value of a call on one known alternative of the callee."""
        if isinstance(target, Func):
            return self.call_function(target, args, kwargs, node)
        if isinstance(target, Bound):
            return self.method(target, args, kwargs, node)
        if isinstance(target, (External, Builtin)):
            return self.library(target, args, kwargs, node)
        if isinstance(target, Decorating):
            return self.decorate(target, args, node)
        if isinstance(target, Partial):
            return self.call(target.target, (*target.args, *args), {**dict(target.kwargs), **kwargs}, node)
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
        return target if isinstance(target, Unknown) else Unknown("a call of something that is not a function")

    def opaque_call(self, target: Expr, args: tuple[Value, ...], kwargs: dict[str, Value]) -> Value:
        """A call of something outside: an expression of its arguments."""
        shown = tuple(value for value in (*args, *kwargs.values()) if isinstance(value, (Expr, int, float, str)))
        return make("call", target, *shown)

    def call_function(self, func: Func, args: tuple[Value, ...], kwargs: dict[str, Value], node: ast.AST) -> Value:
        """Read a function in place."""
        machine = self.machine
        self.called.add(id(func.node))
        if len(self.calls) >= machine.limits.calls:
            return Unknown(f"calls nested deeper than {machine.limits.calls}")
        symbolic = [value for value in args if isinstance(value, (Expr, Choice))]
        if symbolic and len(args) == 1 and not kwargs:
            known = recognise(self, func)
            if known is not None:
                return machine.lift(lambda one: self.rounded(known, one, node), args[0])
        frame = machine.new_frame(func.frame, func.frame.module, func.name)
        failure = self.bind_parameters(func, args, kwargs, frame)
        if failure is not None:
            return failure
        muted = id(func.node) in self.roots
        foreign = func.frame.module != self.main
        self.calls.append((func.name, lines_of(func.node), tuple(arg.arg for arg in _all_args(func.node.args))))
        machine.muted += muted
        machine.foreign += foreign
        stack, machine.stack = machine.stack, (*machine.stack, func.name)
        try:
            result = self._run_function(func, frame)
        except OutOfBounds as stop:
            if machine.steps > machine.limits.steps or not func.generator:
                raise
            result = Unknown(stop.reason)
        finally:
            machine.stack = stack
            machine.muted -= muted
            machine.foreign -= foreign
            self.calls.pop()
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

    def _summarised(self, func: Func, result: Value, args: tuple[Value, ...], kwargs: dict[str, Value]) -> Value:
        """A flag that a sibling module reads from the environment keeps the name of its function."""
        if args or kwargs or func.frame.module == self.main or not isinstance(result, (Expr, Unknown, Choice)):
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
                rows.cond, lambda: self._yield_rows(frame, rows.then), lambda: self._yield_rows(frame, rows.other)
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

    def instantiate(self, cls: ClassValue, args: tuple[Value, ...], kwargs: dict[str, Value], node: ast.AST) -> Value:
        """An instance of a class of the package: its fields from the arguments, or from `__init__`."""
        record = self.machine.alloc("record", {"class of": cls})
        init = self.class_attribute(cls, "__init__")
        if isinstance(init, Func):
            self.call_function(init, (record, *args), kwargs, node)
        else:
            rows = {**dict(zip(cls.fields, args, strict=False)), **kwargs}
            for name in cls.fields:
                if name not in rows:
                    default = self.class_attribute(cls, name)
                    rows[name] = default if default is not ABSENT else Unknown(f"the field `{name}` is not given")
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
            return KernelValue(value.name, value.module, value.hints, value.tuner, (*value.heuristics, *rows))
        if target.kind == "autotune":
            record = self.new_search("triton.autotune", options.get("configs"), target.lines)
            record.kernel, record.key = value, self.sequence(options.get("key", ()))
            record.prune = options.get("prune_configs_by")
            for name in ("reset_to_zero", "restore_value"):
                row = self.sequence(options[name]) if options.get(name) is not None else ()
                record.resets += tuple(str(item) for item in row) if isinstance(row, tuple) else ()
            return KernelValue(value.name, value.module, value.hints, record.id, value.heuristics)
        return value

    def hinted(self, kernel: str, hints: tuple[tuple[str, Value], ...], node: ast.AST) -> None:
        """Record that a kernel object was given hints."""
        if hints:
            self.machine.emit(HintRecord(kernel=kernel, hints=hints, lines=self.where(node)))

    def new_search(self, kind: str, configs: Value, lines: tuple[int, int]) -> SearchRecord:
        """Record that a search exists."""
        machine = self.machine
        number = machine.fresh()
        record = SearchRecord(
            id=number, kind=kind, lines=lines, configs=self.sequence(configs), path=machine.path, stack=machine.stack,
        )
        record.cases = self.cases_of(record.configs)
        record.generator = self._generator(record.configs)
        record.order = len(machine.events)
        record.budget = machine.budgets[-1] if machine.budgets else None
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
        record.kernel = self.call(kernel, (tuned,), {}, node) if isinstance(kernel, Func) else kernel
        record.grid = self._callback(given.get("grid_fn"), tuned, node)
        before = len(self.machine.events)
        record.args = self._callback(given.get("args_fn"), tuned, node)
        record.isolated = any(getattr(event, "clones", False) for event in self.machine.events[before:])
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

    def _collect_cases(self, value: Value, conds: tuple[tuple[Expr, bool], ...], into: list[Case]) -> None:
        if len(into) >= 256:
            return
        if isinstance(value, Choice):
            self._collect_cases(value.then, (*conds, (value.cond, True)), into)
            self._collect_cases(value.other, (*conds, (value.cond, False)), into)
        elif isinstance(value, tuple):
            broken = next((item.reason for item in value if isinstance(item, Unknown)), None)
            points = tuple(self.point_of(item) for item in value if not isinstance(item, Unknown))
            into.append(Case(conds=conds, points=points, reason=broken))
        else:
            reason = value.reason if isinstance(value, Unknown) else "the configurations come from outside the source"
            into.append(Case(conds=conds, points=(), reason=reason))

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
                inner = stack[len(self.calls) :] if list(stack[: len(self.calls)]) == self.calls else stack
                return inner[0] if inner else None
        return None

    def _callback(self, function: Value, tuned: Tuned, node: ast.AST) -> Value:
        if function is None:
            return None
        return self.machine.lift(lambda one: self.call(one, (tuned,), {}, node), function)

    def launch_bound(
        self, target: BoundLaunch, args: tuple[Value, ...], kwargs: dict[str, Value], node: ast.AST
    ) -> Value:
        """`kernel[grid](...)`: options of the launch become hints, the rest is bound by name."""
        kernel = target.kernel
        options = [(key, kwargs[key]) for key in LAUNCH_OPTIONS if key in kwargs]
        names = self.parameter_names(kernel)
        rest = {key: value for key, value in kwargs.items() if key not in LAUNCH_OPTIONS or key in names}
        bound = {**dict(zip(names, args, strict=False)), **rest}
        kernel = KernelValue(
            kernel.name, kernel.module, _merged(kernel.hints, tuple(options)), kernel.tuner, kernel.heuristics
        )
        meta = Meta(tuple({**bound, **dict(options)}.items()), kernel.tuner)
        for name, rule in kernel.heuristics:
            bound[name] = self.call(rule, (meta,), {}, node) if rule is not None else None
            meta = Meta((*meta.values, (name, bound[name])), kernel.tuner)
        if kernel.tuner is not None:
            for name in names:
                if name not in bound and name in self.axis_names(kernel.tuner):
                    bound[name] = self.axis(Tuned(kernel.tuner), name)
        grid = self.resolve(target.grid)
        if isinstance(grid, (Func, Partial)):
            grid = self.call(grid, (meta,), {}, node)
        self.launch(kernel, grid, tuple(bound.items()), node, {})
        return None

    def launch(
        self,
        kernel: Value,
        grid: Value,
        args: tuple[tuple[str, Value], ...],
        node: ast.AST,
        arg_lines: dict[str, tuple[int, int]],
    ) -> Value:
        """Record a launch, once per kernel object that may be meant."""
        machine = self.machine
        kernel = self.resolve(kernel)
        apart = _separable((kernel, *[value for _, value in getattr(kernel, "hints", ())], *[value for _, value in args]), machine.path)
        if apart is not None:
            machine.branch(
                apart,
                lambda: self.launch(self._under(kernel), grid, args, node, arg_lines),
                lambda: self.launch(self._under(kernel), grid, args, node, arg_lines),
            )
            return None
        if isinstance(kernel, Choice):
            if any(atom.op == "axis" for atom in _axes(kernel.cond)):
                return self.launch(self._one_kernel(kernel), grid, args, node, arg_lines)
            machine.branch(
                kernel.cond,
                lambda: self.launch(kernel.then, grid, args, node, arg_lines),
                lambda: self.launch(kernel.other, grid, args, node, arg_lines),
            )
            return None
        if not isinstance(kernel, KernelValue):
            reason = kernel.reason if isinstance(kernel, Unknown) else "it depends on something outside the source"
            self.note(f"a launch whose kernel cannot be told: {reason}", node)
            return None
        if not kernel.name or kernel.module != self.main:
            return None
        rows = tuple((name, settle(value, machine.path)) for name, value in args)
        machine.emit(
            LaunchRecord(
                kernel=kernel, grid=settle(grid, machine.path), args=rows, lines=self.where(node), path=machine.path,
                arg_lines=tuple(arg_lines.items()), stack=machine.stack, order=len(machine.events),
            )
        )
        return None

    def _under(self, kernel: Value) -> Value:
        """A kernel object with its hints as this path has them."""
        kernel = self.resolve(kernel)
        if not isinstance(kernel, KernelValue):
            return kernel
        rows = tuple((name, settle(value, self.machine.path)) for name, value in kernel.hints)
        hints = tuple((name, value) for name, value in rows if value is not ABSENT)
        return KernelValue(kernel.name, kernel.module, hints, kernel.tuner, kernel.heuristics)

    def _one_kernel(self, value: Value) -> Value:
        """Kernel objects that differ only in hints which an axis may leave out: one object."""
        if not isinstance(value, Choice):
            return value
        then, other = self._one_kernel(value.then), self._one_kernel(value.other)
        if not isinstance(then, KernelValue) or not isinstance(other, KernelValue) or then.name != other.name:
            return then
        left, right = dict(then.hints), dict(other.hints)
        hints = tuple(
            (key, present(merge(value.cond, left.get(key, ABSENT), right.get(key, ABSENT)))) for key in {**left, **right}
        )
        return KernelValue(then.name, then.module, hints, then.tuner, then.heuristics)

    def parameter_names(self, kernel: KernelValue) -> tuple[str, ...]:
        """Parameters of a kernel in order."""
        found = self.kernels.get(kernel.name)
        return tuple(name for name, _ in found.params) if found else ()

    def point_of(self, value: Value) -> tuple[tuple[str, Value], ...]:
        raise NotImplementedError

    def method(self, target: Bound, args: tuple[Value, ...], kwargs: dict[str, Value], node: ast.AST) -> Value:
        raise NotImplementedError

    def library(
        self, target: External | Builtin, args: tuple[Value, ...], kwargs: dict[str, Value], node: ast.AST
    ) -> Value:
        raise NotImplementedError

    def rounded(self, known: str, value: Value, node: ast.AST) -> Value:
        raise NotImplementedError

    def outcome(self, search: int) -> Value:
        raise NotImplementedError

    def axis_names(self, search: int) -> tuple[str, ...]:
        raise NotImplementedError


def _all_args(spec: ast.arguments) -> list[ast.arg]:
    return [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]


def _defaulted(value: Value, default: Value) -> Value:
    """A keyword that some path leaves out takes the default there."""
    if isinstance(value, Choice):
        return merge(value.cond, _defaulted(value.then, default), _defaulted(value.other, default))
    return default if value is ABSENT else value


def _merged(
    hints: tuple[tuple[str, Value], ...], more: tuple[tuple[str, Value], ...]
) -> tuple[tuple[str, Value], ...]:
    return tuple({**dict(hints), **dict(more)}.items())


def _separable(values: tuple[Value, ...], path: Path) -> Expr | None:
    """A condition that tells a searched value from one that is not: the launches under it are two."""
    for value in values:
        if not isinstance(value, Choice) or not _axes(value):
            continue
        if bool(_axes(value.then)) == bool(_axes(value.other)) and not _axes(value.cond):
            continue
        pending: list[Value] = [value.cond]
        while pending:
            item = pending.pop(0)
            if not isinstance(item, Expr):
                continue
            if item.op in ("and", "or", "not"):
                pending.extend(item.args)
            elif not _axes(item) and path.decide(item) is None and not mentions(item, "memo"):
                return item
    return None


def mentions(value: Value, op: str) -> bool:
    """Whether an atom of a kind occurs in a value."""
    return any(atom.op == op for atom in atoms(value))


def _axes(value: Value) -> list[Expr]:
    from_value: list[Expr] = []
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, Expr):
            if item.op == "axis":
                from_value.append(item)
            pending.extend(item.args)
        elif isinstance(item, Choice):
            pending.extend((item.cond, item.then, item.other))
        elif isinstance(item, tuple):
            pending.extend(item)
    return from_value


__all__ = ["Calls", "NEVER", "is_none"]
