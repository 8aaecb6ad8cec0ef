"""Other spellings of a kernel that mean the same: operands that change places, sides of branches,
steps with and without a name of their own, expressions in helpers."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator

_COMMUTE = (ast.Mult, ast.Add, ast.BitAnd, ast.BitOr)
_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.Eq,
    ast.NotEq: ast.NotEq,
}  # fmt: skip
_LANGUAGES = ("tl.", "ct.")
_CASTS = ("to", "astype")
_COMPILED = ("constexpr", "static_assert", "static_print", "full", "zeros", "cdiv")
_MODULES = frozenset({"tl", "ct", "triton", "libdevice", "math"})
_BLOCKS = ("body", "orelse")


class _Commuted(ast.NodeTransformer):
    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        sides = (node.left, node.right)
        text = any(isinstance(s, ast.List | ast.Tuple) or _is_text(s) for s in sides)
        if isinstance(node.op, _COMMUTE) and not text:
            node.left, node.right = node.right, node.left
        return node


class _Mirrored(ast.NodeTransformer):
    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        other = _MIRRORED.get(type(node.ops[0])) if len(node.ops) == 1 else None
        if other is None:
            return node
        return ast.Compare(node.comparators[0], [other()], [node.left])


class _Written(ast.NodeTransformer):
    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        if not isinstance(node.target, ast.Name):
            return node
        held = ast.Name(node.target.id, ast.Load())
        target = ast.Name(node.target.id, ast.Store())
        return ast.Assign([target], ast.BinOp(held, node.op, node.value))


class _OtherSide(ast.NodeTransformer):
    def visit_If(self, node: ast.If) -> ast.AST:
        self.generic_visit(node)
        if node.orelse:
            node.test = ast.UnaryOp(ast.Not(), node.test)
            node.body, node.orelse = node.orelse, node.body
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        return ast.IfExp(ast.UnaryOp(ast.Not(), node.test), node.orelse, node.body)


def commuted(text: str) -> str:
    """The operands of sums, products and bit operations change places."""
    return _each(text, lambda kernel: _Commuted().visit(kernel))


def mirrored(text: str) -> str:
    """The sides of comparisons change places."""
    return _each(text, lambda kernel: _Mirrored().visit(kernel))


def written_out(text: str) -> str:
    """`x += y` is `x = x + y`."""
    return _each(text, lambda kernel: _Written().visit(kernel))


def other_side(text: str) -> str:
    """Branches with two sides ask for the opposite, sides changed."""
    return _each(text, lambda kernel: _OtherSide().visit(kernel))


def named(text: str) -> str:
    """Every step inside an expression gets a name of its own."""

    def change(kernel: ast.FunctionDef) -> None:
        kernel.body = _Named().block(kernel.body)

    return _each(text, change)


def folded(text: str) -> str:
    """A name that is used once, in the next statement, gives way to what it stands for."""
    return _each(text, lambda kernel: _fold(kernel.body, kernel))


def in_helpers(text: str) -> str:
    """What is assigned in two steps or more is what a helper of its own returns."""
    tree = ast.parse(text)
    count = 0
    for kernel in [k for k in _kernels(tree) if k in tree.body]:
        marks = [ast.unparse(mark) for mark in kernel.decorator_list]
        if any("jit" in mark for mark in marks) and not any("triton.jit" in m for m in marks):
            continue
        made = list(_helpers(kernel, any("jit" in mark for mark in marks), count))
        count += len(made)
        place = tree.body.index(kernel)
        tree.body[place:place] = made
    return ast.unparse(ast.fix_missing_locations(tree))


CHANGES: dict[str, Callable[[str], str]] = {
    "commuted": commuted, "mirrored": mirrored, "written out": written_out,
    "other side": other_side, "named": named, "folded": folded, "in helpers": in_helpers,
}  # fmt: skip


def _kernels(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            marks = " ".join(ast.unparse(mark) for mark in node.decorator_list)
            if "jit" in marks or "ct.kernel" in marks or "ct.function" in marks:
                yield node


def _each(text: str, change: Callable[[ast.FunctionDef], object]) -> str:
    tree = ast.parse(text)
    for kernel in _kernels(tree):
        change(kernel)
    return ast.unparse(ast.fix_missing_locations(tree))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


class _Named:
    """Takes expressions apart; counts the names that it gives."""

    def __init__(self) -> None:
        self.count = 0

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        done: list[ast.stmt] = []
        for statement in body:
            for part in _BLOCKS:
                inner = getattr(statement, part, None)
                if isinstance(inner, list) and not isinstance(statement, ast.FunctionDef):
                    setattr(statement, part, self.block(inner))
            if isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr):
                self._apart(statement.value, done)
            done.append(statement)
        return done

    def _apart(self, node: ast.expr, before: list[ast.stmt]) -> None:
        """Give the operands of a step names, where they are steps."""
        if isinstance(node, ast.BinOp):
            node.left, node.right = (self._step(x, before) for x in (node.left, node.right))
        elif isinstance(node, ast.Compare):
            node.left = self._step(node.left, before)
            node.comparators = [self._step(x, before) for x in node.comparators]
        elif isinstance(node, ast.Call) and _of_language(node):
            starred = [isinstance(x, ast.Starred) for x in node.args]
            if not any(starred):
                node.args = [self._step(x, before) for x in node.args]
            for given in node.keywords:
                if given.arg in ("mask", "other"):
                    given.value = self._step(given.value, before)
        elif isinstance(node, ast.Call) and _is_cast(node) and isinstance(node.func, ast.Attribute):
            node.func.value = self._step(node.func.value, before)

    def _step(self, node: ast.expr, before: list[ast.stmt]) -> ast.expr:
        self._apart(node, before)
        call = isinstance(node, ast.Call) and (_of_language(node) or _is_cast(node))
        if not (call or isinstance(node, ast.BinOp | ast.Compare)):
            return node
        self.count += 1
        name = f"step_{self.count}_"
        before.append(ast.Assign([ast.Name(name, ast.Store())], node))
        return ast.Name(name, ast.Load())


def _of_language(node: ast.Call) -> bool:
    text = ast.unparse(node.func)
    return text.startswith(_LANGUAGES) and not text.endswith(_COMPILED)


def _is_cast(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr in _CASTS


def _fold(body: list[ast.stmt], kernel: ast.FunctionDef) -> None:
    place = 0
    while place < len(body):
        for part in _BLOCKS:
            if isinstance(inner := getattr(body[place], part, None), list):
                _fold(inner, kernel)
        following = body[place + 1] if place + 1 < len(body) else None
        if following is not None and _folds(body[place], following, kernel):
            del body[place]
        else:
            place += 1


def _folds(first: ast.stmt, second: ast.stmt, kernel: ast.FunctionDef) -> bool:
    """Put what is assigned in the place of its name, where the name stands once."""
    if not isinstance(second, ast.Assign | ast.AugAssign) or not isinstance(first, ast.Assign):
        return False
    target, value = first.targets[0], first.value
    if not isinstance(target, ast.Name) or isinstance(value, ast.Tuple | ast.List):
        return False
    uses = [n for n in ast.walk(kernel) if isinstance(n, ast.Name) and n.id == target.id]
    here = [n for n in ast.walk(second.value) if isinstance(n, ast.Name) and n.id == target.id]
    if len(first.targets) > 1 or len(uses) != 2 or len(here) != 1:
        return False
    second.value = _Replaced(target.id, value).visit(second.value)
    return True


class _Replaced(ast.NodeTransformer):
    def __init__(self, name: str, value: ast.expr) -> None:
        self.name, self.value = name, value

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return copy.deepcopy(self.value) if node.id == self.name else node


def _helpers(kernel: ast.FunctionDef, triton: bool, count: int) -> Iterator[ast.FunctionDef]:
    """Helpers for what the kernel assigns; it calls them afterwards."""
    parameters = [*kernel.args.args, *kernel.args.kwonlyargs]
    compiled = {
        a.arg for a in parameters if a.annotation and "constexpr" in ast.unparse(a.annotation)
    }
    names = [n for n in ast.walk(kernel) if isinstance(n, ast.Name)]
    own = {a.arg for a in parameters} | {n.id for n in names if isinstance(n.ctx, ast.Store)}
    for statement in ast.walk(kernel):
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            continue
        if len(statement.targets) > 1 or not _computed(statement.value):
            continue
        used = [n.id for n in ast.walk(statement.value) if isinstance(n, ast.Name)]
        given = [name for name in dict.fromkeys(used) if name in own]
        count += 1
        constant = ast.parse("tl.constexpr", mode="eval").body if triton else None
        arguments = [ast.arg(n, constant if n in compiled else None) for n in given]
        marks = [ast.parse("triton.jit", mode="eval").body] if triton else []
        yield ast.FunctionDef(
            f"helper_{count}_", ast.arguments([], arguments, None, [], [], None, []),
            [ast.Return(statement.value)], marks, None,
        )  # fmt: skip
        passed: list[ast.expr] = [ast.Name(n, ast.Load()) for n in given]
        statement.value = ast.Call(ast.Name(f"helper_{count}_", ast.Load()), passed, [])


def _computed(value: ast.expr) -> bool:
    """Two steps or more on plain names, with no attribute but a module's."""
    every = list(ast.walk(value))
    if sum(isinstance(n, ast.BinOp) for n in every) < 2:
        return False
    if any(isinstance(n, ast.Lambda | ast.Tuple | ast.List) for n in every):
        return False
    return all(
        isinstance(n.value, ast.Name) and n.value.id in _MODULES
        for n in every
        if isinstance(n, ast.Attribute)
    )
