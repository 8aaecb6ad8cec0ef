"""Host expressions as text, in the words of constraints where C++ spells them otherwise."""

from __future__ import annotations

from extractors.cuda import nodes as n

MAX_DEPTH = 24
MAX_TEXT = 400
MAX_SHIFT = 64
_COMPARED = 3
_LEVELS = {"||": 1, "&&": 2, **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), _COMPARED),
           "+": 4, "-": 4, "*": 5, "/": 5, "%": 5}  # fmt: skip
"""How tightly operators bind; others, whose order the languages see differently, are not here."""
_EXTENTS = {"size": "shape", "stride": "stride", "sizes": "shape", "strides": "stride"}
_FACTS = {"numel": "numel", "scalar_type": "dtype", "dtype": "dtype", "dim": "ndim",
          "ndimension": "ndim", "sizes": "shape", "device": "device",
          "is_cuda": "is_cuda"}  # fmt: skip
_HELD = frozenset({"unwrap", "value"})
"""Methods that give the number that a symbol was found to be, or what may be missing. Source:
SGLang, sgl_kernel/tensor.h; std::optional."""
_WORDS = {"&&": "and", "||": "or", "/": "//"}


def shown(node: object, depth: int = 0) -> str:
    """The text of an expression or type; `?` for what has none."""
    return (_shown(node, depth)[:MAX_TEXT] or "?") if depth < MAX_DEPTH else "?"


def _shown(node: object, depth: int) -> str:
    match node:
        case n.Constant(value=value):
            return "none" if value is None else str(value)
        case n.Name(text=text, arguments=arguments):
            return text + _listed(arguments, depth, "<>") if arguments else text
        case n.CType(name=name, arguments=arguments, pointers=pointers, member=member):
            head = name + (_listed(arguments, depth, "<>") if arguments else "")
            return head + (f"::{member}" if member else "") + "*" * pointers
        case n.Binary(
            operator="<<", left=n.Constant(value=int(left)), right=n.Constant(value=int(right))
        ) if 0 <= right < MAX_SHIFT:
            return str(left << right)
        case n.Binary(operator=operator, left=left, right=right):
            level = _LEVELS.get(operator, 0)
            sides = [_side(left, level, depth), _side(right, level + 0.5, depth)]
            return f"{sides[0]} {_WORDS.get(operator, operator)} {sides[1]}"
        case n.Unary(operator=operator, operand=operand):
            word = "not " if operator == "!" else operator
            return word + _inner(operand, depth)
        case n.Field(operand=n.Unary(operator="*", operand=operand), name=name):
            return f"{shown(operand, depth + 1)}.{name}"
        case n.Field(operand=operand, name=name):
            return f"{shown(operand, depth + 1)}.{name}"
        case n.Index(operand=operand, index=index):
            return f"{shown(operand, depth + 1)}[{shown(index, depth + 1)}]"
        case n.Call(function=n.Field(operand=operand, name=name), arguments=arguments) if (
            told := _of_tensor(shown(_pointed(operand), depth + 1), name, arguments, depth)
        ):
            return told
        case n.Call(function=function, arguments=arguments):
            return shown(function, depth + 1) + _listed(arguments, depth, "()")
        case n.Cast(operand=operand):
            return _inner(operand, depth)
        case n.Choice(condition=condition, then=then, other=other):
            parts = [shown(one, depth + 1) for one in (then, condition, other)]
            return f"({parts[0]} if {parts[1]} else {parts[2]})"
        case n.SizeOf(type=type_, operand=operand):
            return f"sizeof({shown(type_ or operand, depth + 1)})"
        case n.Variable(name=name):
            return name
    return "?"


def _pointed(node: n.Expr) -> n.Expr:
    """What an address leads to, by the address."""
    return node.operand if isinstance(node, n.Unary) and node.operator == "*" else node


def _of_tensor(tensor: str, name: str, arguments: tuple[object, ...], depth: int) -> str:
    """What a method tells of a tensor, in the words of constraints; empty for other methods.
    Source: PyTorch, ATen/core/TensorBase.h; Apache TVM FFI, tvm/ffi/container/tensor.h."""
    if name in _EXTENTS and len(arguments) == 1:
        return f"{tensor}.{_EXTENTS[name]}[{shown(arguments[0], depth + 1)}]"
    if name in ("is_contiguous", "IsContiguous") and not arguments:
        return f"{tensor}.stride[-1] == 1"
    if name in _HELD and not arguments:
        return tensor
    return f"{tensor}.{_FACTS[name]}" if name in _FACTS and not arguments else ""


def _side(node: object, level: float, depth: int) -> str:
    """A side of an operator; one that binds less than `level` stands in parentheses, and so does a
    comparison that is compared."""
    text = shown(node, depth + 1)
    if not isinstance(node, n.Binary) or text.isdigit():
        return text
    own = _LEVELS.get(node.operator, 0)
    return text if own > level or (own == level != _COMPARED and level) else f"({text})"


def _inner(node: object, depth: int) -> str:
    text = shown(node, depth + 1)
    return f"({text})" if isinstance(node, n.Binary) else text


def _listed(items: tuple[object, ...], depth: int, brackets: str) -> str:
    return brackets[0] + ", ".join(shown(one, depth + 1) for one in items) + brackets[1]
