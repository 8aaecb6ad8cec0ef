"""Changes of source text that leave a kernel's meaning alone: new names, another order, helpers in
and out."""

from __future__ import annotations

import ast
import copy
from random import Random

IDENTIFIERS = ("read", "written")


def rename(text: str, seed: int = 0) -> str:
    """Every name that the module itself binds gets another one, also where a text is that name, as
    the keys of configurations and heuristics; imports, attributes and keywords of others stay."""
    tree = ast.parse(text)
    bound = sorted(_bound(tree))
    rng = Random(seed)
    numbers = list(range(len(bound)))
    rng.shuffle(numbers)
    names = {name: f"n{number}_" for name, number in zip(bound, numbers, strict=True)}
    local = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
        elif isinstance(node, ast.arg):
            node.arg = names.get(node.arg, node.arg)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = names.get(node.value, node.value)
    own = {names.get(name, name) for name in local}
    for node in ast.walk(tree):
        launched = isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)
        called = node.func.value if launched else getattr(node, "func", None)
        if isinstance(node, ast.Call) and isinstance(called, ast.Name) and called.id in own:
            for keyword in node.keywords:
                keyword.arg = names.get(keyword.arg or "", keyword.arg)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.name = names.get(node.name, node.name)
    return ast.unparse(tree)


def _bound(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    kept: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            kept |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ClassDef):
            kept.add(node.name)
    return found - kept - {"self", "cls"}


def reorder(text: str, seed: int = 0) -> str:
    """Neighbouring statements of kernels and helpers that do not depend on each other change
    places."""
    tree = ast.parse(text)
    rng = Random(seed)
    for node in ast.walk(tree):
        for part in ("body", "orelse"):
            block = getattr(node, part, None)
            inside = isinstance(node, ast.FunctionDef | ast.For | ast.If | ast.While)
            if inside and isinstance(block, list):
                _shuffle(block, rng)
    return ast.unparse(tree)


def _shuffle(block: list[ast.stmt], rng: Random) -> None:
    for _ in range(4 * len(block)):
        if len(block) < 2:
            return
        place = rng.randrange(len(block) - 1)
        if _independent(block[place], block[place + 1]):
            block[place], block[place + 1] = block[place + 1], block[place]


def _independent(first: ast.stmt, second: ast.stmt) -> bool:
    movable = (ast.Assign, ast.AugAssign)
    if not isinstance(first, movable) or not isinstance(second, movable):
        return False
    reads, writes = zip(_touched(first), _touched(second), strict=True)
    return not (writes[0] & (reads[1] | writes[1]) or writes[1] & reads[0])


def _touched(node: ast.stmt) -> tuple[set[str], set[str]]:
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
    written = {n.id for n in names if isinstance(n.ctx, ast.Store)}
    read = {n.id for n in names if isinstance(n.ctx, ast.Load)}
    if isinstance(node, ast.AugAssign):
        read |= written
    return read, written


def outline(text: str) -> str:
    """The body of every kernel moves into a helper; the entry keeps the reading of block ids."""
    tree = ast.parse(text)
    body: list[ast.stmt] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            body += _outlined(node)
        else:
            body.append(node)
    tree.body = body
    return ast.unparse(ast.fix_missing_locations(tree))


def _outlined(kernel: ast.FunctionDef) -> list[ast.stmt]:
    head: list[ast.stmt] = []
    rest = list(kernel.body)
    while rest and _reads_block(rest[0]):
        head.append(rest.pop(0))
    if not head or any(isinstance(n, ast.Return) for s in rest for n in ast.walk(s)):
        return [kernel]
    bound = [
        t.id
        for s in head
        if isinstance(s, ast.Assign)
        for t in s.targets
        if isinstance(t, ast.Name)
    ]
    helper = copy.deepcopy(kernel)
    helper.name = f"{kernel.name}_part"
    helper.body = rest
    jits = [mark for mark in kernel.decorator_list if _is_jit(mark)]
    helper.decorator_list = jits[-1:]
    helper.args.args = [*helper.args.args, *(ast.arg(name) for name in bound)]
    names = [a.arg for a in kernel.args.args] + bound
    call = ast.Call(ast.Name(helper.name, ast.Load()), [ast.Name(n, ast.Load()) for n in names], [])
    kernel.body = [*head, ast.Expr(call)]
    return [helper, kernel]


def _is_jit(mark: ast.expr) -> bool:
    """Whether a decorator makes a function of the device, not a search or a launcher around it."""
    return ast.unparse(mark.func if isinstance(mark, ast.Call) else mark).endswith("jit")


def _reads_block(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Attribute)
        and node.value.func.attr in ("bid", "program_id")
    )


def inline(text: str) -> str:
    """A kernel that is one call of a helper gets the helper's body."""
    tree = ast.parse(text)
    helpers = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef) or not node.decorator_list:
            continue
        last = node.body[-1]
        if (
            isinstance(last, ast.Expr)
            and isinstance(last.value, ast.Call)
            and isinstance(last.value.func, ast.Name)
        ):
            helper = helpers.get(last.value.func.id)
            if helper is not None and helper is not node:
                node.body = [*node.body[:-1], *_inlined(helper, last.value)]
    return ast.unparse(ast.fix_missing_locations(tree))


def _inlined(helper: ast.FunctionDef, call: ast.Call) -> list[ast.stmt]:
    parameters = [a.arg for a in helper.args.args]
    actual: dict[str, ast.expr] = dict(zip(parameters, call.args, strict=False))
    actual |= {str(k.arg): k.value for k in call.keywords}
    body = copy.deepcopy(helper.body)
    head: list[ast.stmt] = []
    names: dict[str, str] = {}
    for parameter, value in actual.items():
        if isinstance(value, ast.Name):
            names[parameter] = value.id
        else:
            names[parameter] = f"{parameter}_in"
            head.append(ast.Assign([ast.Name(f"{parameter}_in", ast.Store())], value))
    taken = set(names.values())
    for statement in body:
        for node in ast.walk(statement):
            if (
                isinstance(node, ast.Name)
                and isinstance(node.ctx, ast.Store)
                and node.id not in names
            ):
                names[node.id] = f"{node.id}_in" if node.id in taken else node.id
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name):
                node.id = names.get(node.id, node.id)
    return [*head, *body]
