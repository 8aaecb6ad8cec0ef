"""Definitions, imports, `with`, `try`, `global`: the statements that build a module."""

from __future__ import annotations

import ast
from functools import lru_cache

from extractors.host import tables
from extractors.host.core import function_lines, lines_of
from extractors.host.expr import sym
from extractors.host.operations import OPERATORS
from extractors.host.statements import NORMAL, AnyFlow, Arm, Flow, Kind, Split, Statements
from extractors.host.values import (
    ABSENT,
    ClassValue,
    Decorating,
    External,
    Frame,
    Func,
    KernelValue,
    Lazy,
    Unknown,
    Value,
)
from extractors.host.wrapping import makes_contiguous
from extractors.syntax.nodes import children, each


class Definitions(Statements):
    """Functions, classes, kernels, imports."""

    def _symbol(self, op: str) -> str:
        return OPERATORS.get(op, "+")

    def _do_FunctionDef(self, node: ast.FunctionDef, frame: Frame) -> AnyFlow:
        func = Func(node.name, node, frame, self.defaults(node.args, frame))
        if frame.module == self.main and self._signature(node) is not None:
            value: Value = KernelValue(node.name, frame.module)
            self.bind(node.name, value, frame)
        else:
            value = func
        for decorator in reversed(node.decorator_list):
            value = self._decorated(decorator, value, frame)
        self.bind(node.name, value, frame)
        return NORMAL

    _do_AsyncFunctionDef = _do_FunctionDef

    def _signature(self, node: ast.FunctionDef) -> object | None:
        found = self.kernels.get(node.name)
        if found is None:
            return None
        first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
        last = node.end_lineno or node.lineno
        inside = first <= found.lines[0] <= last
        return found if inside or found.lines == (1, 1) else None

    def _decorated(self, decorator: ast.expr, value: Value, frame: Frame) -> Value:
        """A definition after one decorator; a decorator that is not understood leaves it as it
        was."""
        applied = self.eval(decorator, frame)
        if isinstance(decorator, ast.Call) and decorator.args and frame.module in self.analysed:
            made = self.eval(decorator.func, frame)
            if isinstance(made, External) and made.path in tables.IMPLEMENTS:
                name, *key = (self.eval(one, frame) for one in decorator.args[:2])
                self.machine.implement(name, key[0] if key else None, value)
                if isinstance(value, Func):
                    self.machine.registered[value.node] = lines_of(decorator)
        if isinstance(applied, Unknown):
            return value
        if isinstance(applied, Func) and isinstance(value, Func) and frame.module in self.analysed:
            if makes_contiguous(self, applied):
                self.machine.contiguous[value.node] = lines_of(decorator)
        if isinstance(value, KernelValue):
            result = self.call(applied, (value,), {}, decorator)
            if isinstance(result, KernelValue):
                own = isinstance(applied, Func) and frame.module == self.main
                if own and result == value:
                    self.machine.marked.setdefault(value.name, []).append(lines_of(decorator))
                return result
            if isinstance(applied, Decorating) or not isinstance(applied, External):
                self.note(
                    f"the decorator at line {decorator.lineno} gives no kernel; it is passed over",
                    decorator,
                )
            return value
        if isinstance(applied, External) and applied.path in ("cuda.tile.kernel", "triton.jit"):
            return KernelValue(value.name, frame.module) if isinstance(value, Func) else value
        if isinstance(applied, Decorating) and applied.kind in (
            "kernel",
            "jit",
            "autotune",
            "heuristics",
        ):
            base = KernelValue(value.name, frame.module) if isinstance(value, Func) else value
            return self.call(applied, (base,), {}, decorator)
        return value

    def _do_ClassDef(self, node: ast.ClassDef, frame: Frame) -> AnyFlow:
        bases = tuple(self.eval(base, frame) for base in node.bases)
        inner = self.machine.new_frame(frame, frame.module, node.name)
        self.run_body(node.body, inner)
        attributes = tuple(
            (str(name), value) for name, value in self.machine.mapping(inner.oid).items()
        )
        fields = tuple(
            item.target.id
            for item in node.body
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
        )
        self.bind(
            node.name, ClassValue(node.name, attributes, bases, fields, lines_of(node)), frame
        )
        return NORMAL

    def _do_Import(self, node: ast.Import, frame: Frame) -> AnyFlow:
        for alias in node.names:
            if alias.asname:
                self.bind(alias.asname, Lazy(alias.name, ""), frame)
            else:
                self.bind(alias.name.split(".")[0], External(alias.name.split(".")[0]), frame)
        return NORMAL

    def _do_ImportFrom(self, node: ast.ImportFrom, frame: Frame) -> AnyFlow:
        base = self.absolute(node, frame)
        for alias in node.names:
            if alias.name == "*":
                self.star(base, frame)
                continue
            self.bind(alias.asname or alias.name, Lazy(base, alias.name), frame)
        return NORMAL

    def absolute(self, node: ast.ImportFrom, frame: Frame) -> str:
        """The absolute name of the module that `from ... import` reads."""
        if not node.level:
            return node.module or ""
        module = self.modules.get(frame.module)
        parts = (module.package if module else "").split(".")
        parts = parts[: len(parts) - (node.level - 1)] if node.level > 1 else parts
        return ".".join(
            [*(part for part in parts if part), *([node.module] if node.module else [])]
        )

    def _do_Global(self, node: ast.Global, frame: Frame) -> AnyFlow:
        for name in node.names:
            self.machine.put(frame.oid, f"nonlocal {name}", True)
        return NORMAL

    def _do_Nonlocal(self, node: ast.Nonlocal, frame: Frame) -> AnyFlow:
        for name in node.names:
            self.machine.put(frame.oid, f"nonlocal {name}", True)
        return NORMAL

    def _do_Delete(self, node: ast.Delete, frame: Frame) -> AnyFlow:
        for target in node.targets:
            if isinstance(target, ast.Name) and target.id in self.machine.mapping(frame.oid):
                self.machine.put(frame.oid, target.id, ABSENT)
        return NORMAL

    def _do_With(self, node: ast.With, frame: Frame) -> AnyFlow:
        before = self.machine.budgets
        for item in node.items:
            value = self.eval(item.context_expr, frame)
            if isinstance(value, Decorating) and value.kind == "budget":
                self.machine.budgets = (*self.machine.budgets, dict(value.options).get("seconds"))
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value, frame)
        try:
            return self.run(node.body, frame)
        finally:
            self.machine.budgets = before

    _do_AsyncWith = _do_With

    def _do_Try(self, node: ast.Try, frame: Frame) -> AnyFlow:
        """The body as if nothing was raised; each handler on its own, under a condition of its
        own."""
        before = self.machine.heap.copy()
        flow = self.run(node.body, frame)
        if node.handlers and _gives_up(flow):
            self.machine.heap = before
            flow = self.run(node.handlers[0].body, frame)
            return self._finally(node, flow, frame)
        kept = self.machine.heap
        for handler in node.handlers:
            self.machine.heap = before
            cond = sym(f"exception@{handler.lineno}")
            path = self.machine.path
            self.machine.path = path.under(cond, True)
            try:
                self._handler(
                    handler, frame, raised=isinstance(flow, Flow) and flow.kind is Kind.RAISE
                )
            finally:
                self.machine.path = path
        self.machine.heap = kept
        if isinstance(flow, Flow) and flow.kind is Kind.NORMAL and node.orelse:
            flow = self.run(node.orelse, frame)
        return self._finally(node, flow, frame)

    def _finally(self, node: ast.Try, flow: AnyFlow, frame: Frame) -> AnyFlow:
        if node.finalbody:
            self.run(node.finalbody, frame)
        return NORMAL if isinstance(flow, Flow) and flow.kind is Kind.RAISE else flow

    def _handler(self, handler: ast.ExceptHandler, frame: Frame, *, raised: bool) -> None:
        if handler.name:
            self.machine.put(frame.oid, handler.name, Unknown("an exception object"))
        self.run(handler.body, frame)

    def _do_Match(self, node: ast.Match, frame: Frame) -> AnyFlow:
        subject = self.eval(node.subject, frame)
        return self._cases(node.cases, subject, frame)

    def _cases(self, cases: list[ast.match_case], subject: Value, frame: Frame) -> AnyFlow:
        if not cases:
            return NORMAL
        pattern = cases[0].pattern
        if isinstance(pattern, ast.MatchValue):
            verdict = self.test(self._compare("Eq", subject, self.eval(pattern.value, frame)))
            if isinstance(verdict, bool):
                return (
                    self.run(cases[0].body, frame)
                    if verdict
                    else self._cases(cases[1:], subject, frame)
                )
            if not isinstance(verdict, Unknown):
                return self._both(
                    verdict,
                    lambda: self.run(cases[0].body, frame),
                    lambda: self._cases(cases[1:], subject, frame),
                )
        cond = sym(f"case@{cases[0].body[0].lineno}")
        return self._both(
            cond,
            lambda: self.run(cases[0].body, frame),
            lambda: self._cases(cases[1:], subject, frame),
        )

    def imported(self, base: str, name: str) -> Value:
        raise NotImplementedError

    def star(self, base: str, frame: Frame) -> None:
        raise NotImplementedError


def _gives_up(flow: AnyFlow) -> bool:
    """Whether a body returns what Python would have raised at."""
    value = flow.value if isinstance(flow, Flow) else None
    return isinstance(value, Unknown) and value.raised


@lru_cache(maxsize=4096)
def is_generator(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> bool:
    """Whether a function yields (inner functions do not count)."""
    if isinstance(node, ast.Lambda):
        return False
    if not each(node, ast.Yield) and not each(node, ast.YieldFrom):
        return False
    pending: list[ast.AST] = list(node.body)
    while pending:
        item = pending.pop()
        if isinstance(item, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            pending.extend(children(item))
    return False


__all__ = ["Arm", "Definitions", "Split", "function_lines", "is_generator"]
