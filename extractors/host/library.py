"""Python builtins and the libraries host code calls: what each call means here."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Callable, Mapping
from functools import lru_cache

from extractors.host import device, tables
from extractors.host.containers import Containers
from extractors.host.core import lines_of
from extractors.host.events import TargetProfile
from extractors.host.expr import (
    binary,
    cdiv,
    ceiling,
    choose,
    compare,
    extremum,
    is_known,
    make,
    negate,
)
from extractors.host.machine import TensorFact
from extractors.host.operations import is_callable, text_of, type_test
from extractors.host.render import leaves
from extractors.host.rule_tables import rules_beside
from extractors.host.values import (
    ABSENT,
    Bound,
    Builtin,
    Choice,
    ClassValue,
    Decorating,
    Expr,
    External,
    Func,
    Iterator,
    KernelValue,
    Partial,
    Ref,
    Tuned,
    TuningOutcome,
    Unknown,
    Value,
)

MATH: dict[str, Callable[[float], object]] = {
    "sqrt": math.sqrt,
    "log": math.log,
    "log2": math.log2,
    "exp": math.exp,
    "floor": math.floor,
}
Kwargs = dict[str, Value]


class Library(Containers):
    """Calls of things that are not in the source."""

    def library(
        self, target: External | Builtin, args: tuple[Value, ...], kwargs: Kwargs, node: ast.AST
    ) -> Value:
        """A call of a builtin or of a library."""
        name = target.name if isinstance(target, Builtin) else target.path
        if isinstance(target, Builtin):
            handler: Callable[..., Value] | None = getattr(self, f"_call_{name}", None)
            if handler is None:
                return Unknown(f"the builtin `{name}` is not modelled")
            return self._guarded(handler, name, args, kwargs, node)
        return self._external_call(name, args, kwargs, node)

    def _guarded(
        self,
        handler: Callable[..., Value],
        name: str,
        args: tuple[Value, ...],
        kwargs: Kwargs,
        node: ast.AST,
    ) -> Value:
        """A builtin on arguments of the wrong number or type is Unknown, as Python would raise."""
        try:
            return handler(args, kwargs, node)
        except (IndexError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            return Unknown(f"`{name}` raises {type(error).__name__}")

    def _external_call(
        self, path: str, args: tuple[Value, ...], kwargs: Kwargs, node: ast.AST
    ) -> Value:
        operator = self.machine.operators.get(path.removesuffix(".default"))
        if operator is not None:
            return self.call(operator, args, kwargs, node)
        if path in tables.IMPLEMENTS and len(args) == 3:
            if isinstance(args[2], Func) and args[2].frame.module in self.analysed:
                self.machine.implement(*args)
            return None
        if path in tables.LAUNCH:
            return self._cutile_launch(args, kwargs, node)
        if path in tables.SEARCH:
            return self.search(args, kwargs, node)
        if path in tables.KERNEL or path in tables.JIT:
            return self._decorator("kernel" if path in tables.KERNEL else "jit", args, kwargs, node)
        if path in tables.AUTOTUNE or path in tables.HEURISTICS:
            return self._tuner(path, args, kwargs, node)
        if path in tables.CONFIG:
            return self._config(args, kwargs, node)
        if path in tables.BUDGET:
            seconds = args[0] if args else next(iter(kwargs.values()), None)
            return Decorating("budget", (("seconds", seconds),), lines_of(node))
        if path in tables.NAMESPACE:
            record = self.machine.alloc("record", dict(kwargs))
            self.remember(record, node)
            return record
        if path in tables.WRAPPED and args and isinstance(args[0], KernelValue):
            return args[0]
        if "configs" in kwargs and "key" in kwargs:
            return self._tuner("alias", args, kwargs, node)
        return self._host_call(path, args, kwargs, node)

    def _host_call(
        self, path: str, args: tuple[Value, ...], kwargs: Kwargs, node: ast.AST
    ) -> Value:
        machine = self.machine
        machine.device_questions += device.asks(path)
        told = device.answer(path, self.profile)
        if told is not ABSENT:
            return told
        if path in tables.NEXT_POWER and args:
            return machine.lift(lambda one: self.rounded("npow2", one, node), args[0])
        if path in tables.CEIL_DIVIDE and len(args) > 1:
            return (
                machine.lift(cdiv, args[0], args[1])
                if not _symbolic(args)
                else cdiv(args[0], args[1])
            )
        if path.startswith("math."):
            return (
                machine.lift(lambda one, *more: self._math(path[5:], one, more), *args)
                if args
                else Unknown(path)
            )
        if path in tables.TRANSPARENT:
            return args[0] if args and is_callable(args[0]) else External("identity")
        if path == "identity":
            return args[0] if args else None
        if path in tables.LIKE and args:
            return self.new_tensor(
                TensorFact(
                    like=args[0],
                    fill=args[1] if path.endswith("full_like") and len(args) > 1 else None,
                    drawn=path in tables.DRAWN,
                    dtype=kwargs.get("dtype") or make("attr", args[0], "dtype"),
                )
            )
        if path in tables.MADE:
            return self._made(path, args, kwargs)
        if path in tables.CONSTEXPR and args:
            return args[0]
        if path in tables.TABLE:
            return machine.alloc("dict", dict(kwargs))
        return self._tools(path, args, kwargs, node)

    def _tools(self, path: str, args: tuple[Value, ...], kwargs: Kwargs, node: ast.AST) -> Value:
        if path == "itertools.product":
            return self._product(args, kwargs)
        if path == "itertools.chain":
            return self.machine.lift(
                lambda *rows: self._chained(rows), *[self.sequence(arg) for arg in args]
            )
        if path == "functools.partial" and args:
            return Partial(args[0], args[1:], tuple(kwargs.items()))
        if path in ("copy.copy", "copy.deepcopy") and args:
            return self._copied(args[0], node)
        if path.endswith(("Error", "Exception")) or path.startswith(("warnings.", "logging.")):
            return None
        shown = tuple(
            value
            for value in (*args, *kwargs.values())
            if isinstance(value, (Expr, int, float, str))
        )
        return make("call", path, *shown)

    def _copied(self, value: Value, node: ast.AST) -> Value:
        if not isinstance(value, Ref):
            return value
        copy = self.machine.alloc(value.kind, self.machine.read(value.oid))
        if value.oid in self.made:
            self.remember(copy, node)
        return copy

    def _made(self, path: str, args: tuple[Value, ...], kwargs: Kwargs) -> Value:
        shape: Value = kwargs.get("size", args[0] if args else None)
        if len(args) > 1 and path != "torch.full":
            shape = args
        fill = (
            kwargs.get("fill_value", args[1] if len(args) > 1 else None)
            if path == "torch.full"
            else None
        )
        made = self.made_tensor(shape, fill)
        for one in leaves(made):
            if (fact := self.machine.tensors.get(one)) is not None:
                fact.drawn |= path in tables.DRAWN
                fact.dtype = kwargs.get("dtype")
        return made

    def _cutile_launch(self, args: tuple[Value, ...], kwargs: Kwargs, node: ast.AST) -> Value:
        given: Kwargs = {
            **dict(zip(("stream", "grid", "kernel", "kernel_args"), args, strict=False)),
            **kwargs,
        }
        kernel, values = self.resolve(given.get("kernel")), self.resolve(given.get("kernel_args"))
        return self.machine.lift(
            lambda row: self._cutile_bound(kernel, given.get("grid"), row, node), values
        )

    def _cutile_bound(
        self, kernel: Value, grid: Value, values: Value, node: ast.AST, chosen: bool = False
    ) -> Value:
        """A launch with its arguments under the names of the parameters; of kernels with other
        parameters each by itself, and none that takes more or fewer."""
        row, kernel = self.sequence(values), self.resolve(kernel)
        kernels = [one for one in leaves(kernel) if isinstance(one, KernelValue)]
        if isinstance(kernel, Choice) and len({self.parameter_names(k) for k in kernels}) > 1:
            then, other = kernel.then, kernel.other
            self.machine.branch(
                kernel.cond,
                lambda: self._cutile_bound(then, grid, row, node, True),
                lambda: self._cutile_bound(other, grid, row, node, True),
            )
            return None
        if chosen and isinstance(row, tuple) and kernels:
            if len(self.parameter_names(kernels[0])) != len(row):
                return None
        name = _kernel_name(kernel)
        names = self.parameter_names(name) if name else ()
        self.machine.by_function |= {one.name for one in kernels}
        if not isinstance(row, tuple):
            self.note("a launch whose arguments cannot be told", node)
            row = ()
        return self.launch(
            kernel, grid, tuple(zip(names, row, strict=False)), node, _argument_lines(node, names)
        )

    def _decorator(
        self, kind: str, args: tuple[Value, ...], kwargs: Kwargs, node: ast.AST
    ) -> Value:
        factory = Decorating(kind, tuple(kwargs.items()), lines_of(node))
        if args and isinstance(args[0], (KernelValue, Func)):
            kernel = args[0]
            if isinstance(kernel, KernelValue) and kind == "jit":
                return kernel
            if isinstance(kernel, KernelValue) and not kernel.bare and not kwargs:
                return kernel
            return self.decorate(factory, args, node)
        return factory

    def _tuner(self, path: str, args: tuple[Value, ...], kwargs: Kwargs, node: ast.AST) -> Value:
        if path in tables.HEURISTICS:
            rules = rules_beside(self, args[0] if args else kwargs.get("values"), node)
            options: Kwargs = {"values": rules}
            return Decorating("heuristics", tuple(options.items()), self.where(node))
        options = {**dict(zip(("configs", "key"), args, strict=False)), **kwargs}
        return Decorating("autotune", tuple(options.items()), self.where(node))

    def _config(self, args: tuple[Value, ...], kwargs: Kwargs, node: ast.AST) -> Value:
        names = ("kwargs", "num_warps", "num_stages", "num_ctas")
        record = self.machine.alloc("record", {**dict(zip(names, args, strict=False)), **kwargs})
        self.remember(record, node)
        return record

    def _math(self, name: str, value: Value, more: tuple[Value, ...]) -> Value:
        if name == "ceil":
            return ceiling(value)
        if name == "prod":
            return make("call", "prod", value) if isinstance(value, Expr) else Unknown("math.prod")
        if (
            name in ("gcd", "lcm")
            and isinstance(value, int)
            and all(isinstance(item, int) for item in more)
        ):
            return getattr(math, name)(value, *more)
        if name in MATH and isinstance(value, (int, float)):
            try:
                return (
                    MATH[name](value)
                    if not more
                    else math.log(value, *[float(str(item)) for item in more])
                )
            except (ValueError, OverflowError):
                return Unknown(f"math.{name} raises")
        if name == "sqrt":
            return binary("**", value, 0.5)
        return make("call", name, value)

    def _product(self, args: tuple[Value, ...], kwargs: Kwargs) -> Value:
        repeat = kwargs.get("repeat", 1)
        rows = [self.sequence(arg) for arg in args] * (
            repeat if isinstance(repeat, int) and 0 < repeat < 8 else 1
        )
        return self.machine.lift(lambda *known: self._crossed(known), *rows)

    def _crossed(self, rows: tuple[Value, ...]) -> Value:
        known = [row for row in rows if isinstance(row, tuple)]
        if len(known) != len(rows):
            return Unknown("a product of unknown sequences")
        count = math.prod(len(row) for row in known)
        if count > self.machine.limits.items:
            return Unknown(
                f"a product of {count} items, above the {self.machine.limits.items} that are read"
            )
        return self.machine.alloc("list", tuple(itertools.product(*known)))

    def _chained(self, rows: tuple[Value, ...]) -> Value:
        known = [row for row in rows if isinstance(row, tuple)]
        if len(known) != len(rows):
            return Unknown("a chain of unknown sequences")
        return self.machine.alloc("list", tuple(itertools.chain.from_iterable(known)))

    def constants(self) -> Mapping[str, Value]:
        """Values of libraries that host code computes with, and device facts."""
        return _constants(self.profile)

    def outcome(self, search: int) -> Value:
        """What the search call returns."""
        return TuningOutcome(search)


@lru_cache(maxsize=16)
def _constants(profile: TargetProfile | None) -> Mapping[str, Value]:
    return {
        "math.inf": math.inf,
        "math.pi": math.pi,
        "math.e": math.e,
        "math.nan": math.nan,
        **device.attributes(profile),
    }


def _kernel_name(kernel: Value) -> KernelValue | None:
    while isinstance(kernel, Choice):
        kernel = kernel.then
    return kernel if isinstance(kernel, KernelValue) else None


def _symbolic(args: tuple[Value, ...]) -> bool:
    return any(isinstance(arg, Expr) for arg in args)


def _argument_lines(node: ast.AST, names: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    """Lines of each argument where the call spells them out."""
    if (
        isinstance(node, ast.Call)
        and node.args
        and isinstance(node.args[-1], (ast.Tuple, ast.List))
    ):
        return {name: lines_of(item) for name, item in zip(names, node.args[-1].elts, strict=False)}
    return {}


__all__ = [
    "ABSENT",
    "Bound",
    "ClassValue",
    "Iterator",
    "Library",
    "Tuned",
    "choose",
    "compare",
    "extremum",
    "is_known",
    "negate",
    "text_of",
    "type_test",
]
