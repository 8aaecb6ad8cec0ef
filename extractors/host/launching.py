"""Launches: the kernel object, its grid, its arguments by parameter name."""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import replace
from itertools import takewhile

from extractors.host.assume import Path, settle
from extractors.host.events import LaunchRecord
from extractors.host.expr import atoms
from extractors.host.machine import merge, present
from extractors.host.searching import Searching
from extractors.host.values import (
    ABSENT,
    BoundLaunch,
    Choice,
    Expr,
    Func,
    KernelValue,
    Meta,
    Partial,
    Tuned,
    Unknown,
    Value,
)

LAUNCH_OPTIONS = (
    "num_warps",
    "num_stages",
    "num_ctas",
    "maxnreg",
    "waves_per_eu",
    "matrix_instr_nonkdim",
)


class Launching(Searching):
    """Launches of kernels, in both dialects."""

    def launch_bound(
        self, target: BoundLaunch, args: tuple[Value, ...], kwargs: dict[str, Value], node: ast.AST
    ) -> Value:
        """`kernel[grid](...)`: options of the launch become hints, the rest is bound by name."""
        kernel = target.kernel
        options = [(key, kwargs[key]) for key in LAUNCH_OPTIONS if key in kwargs]
        names = self.parameter_names(kernel)
        rest = {
            key: value for key, value in kwargs.items() if key not in LAUNCH_OPTIONS or key in names
        }
        bound = {**dict(zip(names, args, strict=False)), **rest}
        kernel = replace(kernel, hints=_merged(kernel.hints, tuple(options)))
        meta = Meta(tuple({**bound, **dict(options)}.items()), kernel.tuner)
        for name, rule in kernel.heuristics:
            given = self.call(rule, (meta,), {}, node) if rule is not None else None
            meta = Meta((*meta.values, (name, given)), kernel.tuner)
            if name in LAUNCH_OPTIONS and name not in names:
                kernel = replace(kernel, hints=_merged(kernel.hints, ((name, given),)))
            else:
                bound[name] = given
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
        apart = _separable(
            (
                kernel,
                *[value for _, value in getattr(kernel, "hints", ())],
                *[value for _, value in args],
            ),
            machine.path,
        )
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
            reason = (
                kernel.reason
                if isinstance(kernel, Unknown)
                else "it depends on something outside the source"
            )
            self.note(f"a launch whose kernel cannot be told: {reason}", node)
            return None
        if not kernel.name or kernel.module != self.main:
            return None
        rows = tuple((name, settle(value, machine.path)) for name, value in args)
        machine.emit(
            LaunchRecord(
                kernel=kernel,
                grid=settle(grid, machine.path),
                args=rows,
                lines=self.where(node),
                path=machine.path,
                arg_lines=tuple(arg_lines.items()),
                stack=machine.stack,
                order=len(machine.events),
                sites=tuple(self.sites),
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
        if (
            not isinstance(then, KernelValue)
            or not isinstance(other, KernelValue)
            or then.name != other.name
        ):
            return then
        left, right = dict(then.hints), dict(other.hints)
        hints = tuple(
            (key, present(merge(value.cond, left.get(key, ABSENT), right.get(key, ABSENT))))
            for key in {**left, **right}
        )
        return KernelValue(then.name, then.module, hints, then.tuner, then.heuristics)

    def places(self, target: Value, kwargs: Collection[str] | Unknown) -> int | None:
        """How many arguments a launch gives by place: one for each parameter before those that it
        names, or that a search or a rule gives. A search that is not known is taken to give the
        compile-time parameters at the end."""
        if not isinstance(target, BoundLaunch) or isinstance(kwargs, Unknown):
            return None
        kernel, names = target.kernel, self.parameter_names(target.kernel)
        given = {*kwargs, *(name for name, _ in kernel.heuristics)}
        if kernel.tuner is not None:
            axes = self.axis_names(kernel.tuner)
            found = self.kernels.get(kernel.name)
            last = takewhile(lambda param: param[1], reversed(found.params if found else ()))
            given |= set(axes) or {name for name, _ in last}
        count = next((at for at, name in enumerate(names) if name in given), len(names))
        return count if given.issuperset(names[count:]) else None

    def parameter_names(self, kernel: KernelValue) -> tuple[str, ...]:
        """Parameters of a kernel in order."""
        found = self.kernels.get(kernel.name)
        return tuple(name for name, _ in found.params) if found else ()


def _merged(
    hints: tuple[tuple[str, Value], ...], more: tuple[tuple[str, Value], ...]
) -> tuple[tuple[str, Value], ...]:
    return tuple({**dict(hints), **dict(more)}.items())


def _separable(values: tuple[Value, ...], path: Path) -> Expr | None:
    """A condition that tells a searched value from one that is not: the launches under it are
    two."""
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
