"""Attributes, items and methods of values; tensors by their extents."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from extractors.host.events import CopyRecord, NormaliseRecord, SentinelRecord
from extractors.host.expr import make, sym
from extractors.host.machine import TensorFact, present
from extractors.host.operations import text_of
from extractors.host.render import leaves
from extractors.host.tables import DRAWING, MEMO_METHODS, SAME_SHAPE, TEXT_METHODS, TURNING
from extractors.host.tensors import Tensors
from extractors.host.values import (
    ABSENT,
    Bound,
    Builtin,
    Choice,
    ClassValue,
    Expr,
    External,
    Func,
    Iterator,
    KernelValue,
    Meta,
    Module,
    Partial,
    Ref,
    Tuned,
    TuningOutcome,
    Unknown,
    Value,
)

MAX_KEPT = 16
"""Values of an attribute that are remembered."""


class Attributes(Tensors):
    """What a value answers to `.name`, `[key]` and method calls."""

    def attribute(self, owner: Value, name: str, node: ast.AST) -> Value:
        """`owner.name` for one known alternative."""
        if isinstance(owner, Expr):
            return self._of_expression(owner, name)
        if isinstance(owner, Unknown):
            return owner
        if isinstance(owner, External):
            return self.external(f"{owner.path}.{name}")
        if isinstance(owner, Module):
            return self.imported(owner.name, name)
        if isinstance(owner, Tuned):
            return Bound(owner, name) if name in ("all_kwargs",) else self.axis(owner, name)
        if isinstance(owner, TuningOutcome):
            return Tuned(owner.search) if name in ("config", "best_config") else owner
        if isinstance(owner, KernelValue):
            return self._of_kernel(owner, name)
        if isinstance(owner, ClassValue):
            return self._of_class(owner, name)
        if isinstance(owner, Ref):
            return self._of_ref(owner, name, node)
        if name == "value" and isinstance(owner, (int, float, str)):
            return owner
        if isinstance(owner, (str, tuple, int, float, Meta, Func, Iterator, Builtin)):
            return Bound(owner, name)
        return Unknown(f"the attribute `{name}` of a value that has none")

    def external(self, path: str) -> Value:
        """Something of a library by its path; a few are values."""
        return self.constants().get(path, External(path))

    def _of_kernel(self, owner: KernelValue, name: str) -> Value:
        if name in ("_pyfunc", "fn"):
            return KernelValue(owner.name, owner.module, bare=True)
        return Bound(owner, name)

    def _of_class(self, owner: ClassValue, name: str) -> Value:
        found = self.class_attribute(owner, name)
        if isinstance(found, Func) and _is_marked(found, "classmethod"):
            return Partial(found, (owner,), ())
        if found is not ABSENT:
            return found
        if name == "apply":
            return Bound(owner, name)
        return Unknown(f"the class `{owner.name}` has no `{name}` in the source")

    def _of_ref(self, owner: Ref, name: str, node: ast.AST) -> Value:
        if owner.kind != "record":
            return Bound(owner, name)
        table = self.machine.mapping(owner.oid)
        if name in table:
            value = table[name]
            return value if value is not ABSENT else Unknown(f"`{name}` is not set")
        cls = table.get("class of")
        if isinstance(cls, ClassValue):
            found = self.class_attribute(cls, name)
            if isinstance(found, Func):
                if _is_marked(found, "property"):
                    return self.call_function(found, (owner,), {}, node)
                if _is_marked(found, "classmethod"):
                    return Partial(found, (cls,), ())
                static = _is_marked(found, "staticmethod")
                return found if static else Partial(found, (owner,), ())
            if found is not ABSENT:
                return found
        if "open" in table:
            return make("attr", sym(str(table["open"])), name)
        return Bound(owner, name)

    def _of_expression(self, owner: Expr, name: str) -> Value:
        if owner.op == "memo" or owner.op == "axis":
            return Bound(owner, name) if name in MEMO_METHODS else make("attr", owner, name)
        if name == "shape":
            return make("shape", owner)
        if name == "ndim":
            return self.rank(owner)
        if name in ("T", "mT"):
            return self.transposed(owner)
        if name in ("data", "grad"):
            return owner if name == "data" else make("attr", owner, name)
        if owner.op == "attr" and owner.args[1] == "dtype":
            return make("attr", owner, name)  # what is a method of a tensor says it of the type
        if name in SAME_SHAPE or name in TENSOR_METHODS or name in DRAWING:
            return Bound(owner, name)
        return make("attr", owner, name)

    def set_attribute(self, owner: Value, name: str, value: Value) -> Value:
        """`owner.name = value`; only records keep it. What a parameter is given is remembered by
        the attribute: a backward pass reads what the forward pass put into its context."""
        if isinstance(owner, (Ref, Expr)) and not self.machine.foreign:
            rows = self.machine.kept.setdefault(name, [])
            rows += [value] if len(rows) < MAX_KEPT and value not in rows else []
        if isinstance(owner, Ref) and owner.kind == "record":
            self.machine.put(owner.oid, name, value)
        return None

    def set_item(self, owner: Value, key: Value, value: Value, node: ast.AST) -> None:
        """`owner[key] = value`; a key that a test chose is the one or the other."""
        machine = self.machine
        if isinstance(key, Choice) and isinstance(owner, Ref) and owner.kind == "dict":
            then, other = key.then, key.other
            machine.branch(
                key.cond,
                lambda: self.set_item(owner, then, value, node),
                lambda: self.set_item(owner, other, value, node),
            )
            return
        if isinstance(owner, Ref) and owner.kind == "dict":
            if not isinstance(key, (Ref, Unknown)) and key is not Ellipsis:
                machine.put(owner.oid, key, value)
        elif isinstance(owner, Ref) and owner.kind == "list":
            content = machine.items(owner)
            if (
                isinstance(content, tuple)
                and isinstance(key, int)
                and -len(content) <= key < len(content)
            ):
                row = list(content)
                row[key] = value
                machine.heap[owner.oid] = tuple(row)
            else:
                machine.heap[owner.oid] = Unknown("an item was replaced at an unknown place")
        elif isinstance(owner, Expr):
            fact = machine.tensors.get(owner)
            if fact is not None and fact.fill is not None:
                machine.emit(SentinelRecord(tensor=owner, fill=fact.fill, lines=self.where(node)))

    def method(
        self, target: Bound, args: tuple[Value, ...], kwargs: dict[str, Value], node: ast.AST
    ) -> Value:
        """A method call, by the kind of its owner."""
        owner, name = target.owner, target.name
        if isinstance(owner, KernelValue):
            return self._kernel_method(owner, name, args, kwargs, node)
        if isinstance(owner, Ref):
            return self.container_method(owner, name, args, kwargs, node)
        if isinstance(owner, Expr):
            return self._tensor_method(owner, name, args, kwargs, node)
        if isinstance(owner, str):
            return self._text_method(owner, name, args)
        if isinstance(owner, ClassValue) and name == "apply":
            return self._applied(owner, args, node)
        if isinstance(owner, tuple) and name in ("index", "count"):
            return (
                getattr(owner, name)(args[0])
                if args and args[0] in owner
                else Unknown(f"tuple.{name}")
            )
        if isinstance(owner, int) and name == "bit_length":
            return owner.bit_length()
        if isinstance(owner, Meta) and name == "get":
            return self.meta(owner, args[0])
        if isinstance(owner, Func) and name == "__name__":
            return owner.name
        return Unknown(f"the method `{name}` is not modelled")

    def _kernel_method(
        self,
        owner: KernelValue,
        name: str,
        args: tuple[Value, ...],
        kwargs: dict[str, Value],
        node: ast.AST,
    ) -> Value:
        if name == "replace_hints":
            self.hinted(
                owner.name, tuple((key, present(value)) for key, value in kwargs.items()), node
            )
            kept = {
                **dict(owner.hints),
                **{key: value for key, value in kwargs.items() if value is not ABSENT},
            }
            return KernelValue(
                owner.name, owner.module, tuple(kept.items()), owner.tuner, owner.heuristics
            )
        if name in ("run", "warmup"):
            grid = kwargs.get("grid")
            rest = {key: value for key, value in kwargs.items() if key not in ("grid", "warmup")}
            bound = self.subscript(owner, grid, node)
            return self.call(bound, args, rest, node)
        return Unknown(f"the kernel method `{name}`")

    def _applied(self, owner: ClassValue, args: tuple[Value, ...], node: ast.AST) -> Value:
        """`Function.apply(...)` of torch.autograd runs `forward` with a context first."""
        forward = self.class_attribute(owner, "forward")
        if not isinstance(forward, Func):
            return Unknown("`apply` of a class without `forward`")
        context = self.machine.alloc("record", {"open": "ctx"})
        return self.call_function(forward, (context, *args), {}, node)

    def _tensor_method(
        self,
        owner: Expr,
        name: str,
        args: tuple[Value, ...],
        kwargs: dict[str, Value],
        node: ast.AST,
    ) -> Value:
        machine = self.machine
        if name == "contiguous":
            machine.emit(
                NormaliseRecord(
                    tensor=owner,
                    lines=self.where(node),
                    path=machine.path,
                    order=len(machine.events),
                )
            )
        if name in ("clone", "zero_"):
            machine.emit(CopyRecord(tensor=owner, zeroed=name == "zero_", lines=self.where(node)))
        if name in DRAWING and owner in machine.tensors:
            machine.tensors[owner].drawn = True
        if name in SAME_SHAPE or name in DRAWING:
            return owner
        if name == "size" and args:
            return machine.lift(lambda at: self.dim(owner, at), args[0])
        if name == "size":
            return make("shape", owner)
        if name == "stride":
            return make("stride", owner, args[0]) if args else make("strides", owner)
        if name in ("dim", "ndimension"):
            return self.rank(owner)
        if name in ("view", "reshape"):
            seen = self.reshaped(owner, args)
            fact = machine.tensors.get(seen)
            typed = any(isinstance(one, External) for one in args)
            if name == "view" and not typed and fact is not None and fact.base is owner:
                fact.viewed = self.where(node)
            return seen
        if name in ("t", "T"):
            return self.transposed(owner, self.where(node))
        if name in ("new_empty", "new_zeros", "new_full"):
            apart = len(args) > 1 and name != "new_full"
            made = self.made_tensor(args if apart else args[0] if args else None)
            for one in leaves(made):
                if (fact := machine.tensors.get(one)) is not None:
                    fact.dtype = kwargs.get("dtype") or make("attr", owner, "dtype")
            return made
        if name in SCALAR_METHODS:
            return make("call", make("attr", owner, name))
        return self.new_tensor(
            TensorFact(base=owner, turned=self.where(node) if name in TURNING else None)
        )

    def _text_method(self, owner: str, name: str, args: tuple[Value, ...]) -> Value:
        if name == "join" and args:
            rows = self.sequence(args[0])
            if isinstance(rows, tuple) and all(isinstance(item, str) for item in rows):
                return owner.join(str(item) for item in rows)[: self.machine.limits.text]
            return Unknown("a text joined from unknown parts")
        if name == "format":
            return text_of(owner) if not args else Unknown("a formatted text")
        if name in TEXT_METHODS and all(isinstance(item, (str, int)) for item in args):
            try:
                result = getattr(owner, name)(*args)
            except (TypeError, ValueError):
                return Unknown(f"str.{name} raises")
            return self.machine.alloc("list", tuple(result)) if isinstance(result, list) else result
        return Unknown(f"the method str.{name} is not modelled")

    def constants(self) -> Mapping[str, Value]:
        raise NotImplementedError

    def container_method(
        self,
        owner: Ref,
        name: str,
        args: tuple[Value, ...],
        kwargs: dict[str, Value],
        node: ast.AST,
    ) -> Value:
        raise NotImplementedError


def _is_marked(func: Func, builtin: str) -> bool:
    """Whether a method has the decorator of Python's own that is named."""
    return any(
        isinstance(item, ast.Name) and item.id == builtin
        for item in getattr(func.node, "decorator_list", [])
    )


TENSOR_METHODS = frozenset(
    [
        "size",
        "stride",
        "dim",
        "ndimension",
        "view",
        "reshape",
        "t",
        "new_empty",
        "new_zeros",
        "new_full",
        "bit_length",
        "numel",
        "element_size",
        "is_contiguous",
        "unsqueeze",
        "squeeze",
        "expand",
        "permute",
        "transpose",
        "swapaxes",
        "swapdims",
        "movedim",
        "sum",
        "mean",
        "max",
        "min",
        "any",
        "all",
        "item",
        "tolist",
        "data_ptr",
        "is_floating_point",
        "flatten",
        "narrow",
        "split",
        "chunk",
        "unbind",
        "repeat",
        "repeat_interleave",
        "index_select",
        "gather",
        "scatter",
        "argmax",
        "argsort",
        "cumsum",
        "get_device",
        "copy_",
        "zero_",
        "fill_",
        "add_",
        "mul_",
        "div_",
        "sub_",
        "storage_offset",
        "untyped_storage",
        "__getitem__",
        "view_as",
        "reshape_as",
        "expand_as",
    ]
)
SCALAR_METHODS = frozenset(
    [
        "bit_length",
        "numel",
        "element_size",
        "is_contiguous",
        "item",
        "is_floating_point",
        "get_device",
        "data_ptr",
        "any",
        "all",
    ]
)
