"""Branches of host code with one kernel on this side and other work on the other: another kernel,
or a computation of the framework.

Read off the text alone, so that a side counts that no evaluated path takes.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache

from extractors.syntax.nodes import each, nodes_of, walk

MAX_ROUNDS = 8
"""Names that lead to names that lead to a kernel."""

FRAMEWORK = "torch"
"""What stands for a computation of the framework on a side that runs no kernel."""

_MAKES = frozenset({
    "empty", "empty_like", "zeros", "zeros_like", "ones", "ones_like", "full", "full_like",
    "tensor", "new_empty", "new_zeros", "new_ones", "new_full", "clone", "contiguous", "view",
    "reshape", "expand", "to", "detach", "type", "type_as", "zero_", "fill_", "copy_", "size",
    "squeeze", "unsqueeze", "flatten", "permute", "transpose", "numel", "item", "float", "half",
    "is_tensor", "device", "finfo", "iinfo", "is_grad_enabled", "stack", "cat", "arange",
})  # fmt: skip
"""Methods and functions of torch that make, move or look at a tensor and compute nothing."""

MIN_HANDED = 2
"""Arrays that both sides of a branch take before one is an alternative to the other."""

_DRAWS = frozenset({"randn", "rand", "randint", "randn_like", "rand_like", "do_bench"})
"""Functions of torch that tests and benchmarks fill arrays with, and Triton's timer."""

_BUILTINS = frozenset(dir(builtins))
_LEAVES = ast.Return | ast.Raise
_Block = Sequence[ast.AST]


@dataclass(frozen=True, slots=True)
class Fork:
    """A test of the host, or the choice of an entry of a table, and what either side runs."""

    at: ast.expr
    sides: tuple[frozenset[str], ...]

    def instead(self, kernel: str) -> frozenset[str]:
        """What other sides run, and not those that run the kernel."""
        ours = [side for side in self.sides if kernel in side]
        rest = [side for side in self.sides if kernel not in side]
        return frozenset(one for own in ours for side in rest for one in side - own)


@lru_cache(maxsize=8)
def forks(tree: ast.Module, kernels: frozenset[str]) -> tuple[Fork, ...]:
    """Every fork of the host functions of a module that lead to one of the kernels."""
    routes = routes_of(tree, kernels)
    return tuple(fork for function in routes.hosts() for fork in routes.forks(function))


@lru_cache(maxsize=64)
def routes_of(tree: ast.Module, kernels: frozenset[str]) -> Routes:
    """Which kernels the names of a module lead to."""
    return Routes(tree, kernels)


@dataclass(slots=True)
class Routes:
    """Which kernels the names of a module lead to."""

    tree: ast.Module
    kernels: frozenset[str]
    _defined: dict[str, list[ast.AST]] = field(default_factory=dict)
    _leads: dict[str, frozenset[str]] = field(default_factory=dict)
    _local: dict[str, frozenset[str]] = field(default_factory=dict)
    _torch: frozenset[str] = frozenset()
    _taken: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for node in nodes_of(self.tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not self._is_kernel(node):
                self._defined.setdefault(node.name, []).append(node)
                for name in _registered(node):
                    self._defined.setdefault(name, []).append(node)
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self._defined.setdefault(node.targets[0].id, []).append(node.value)
        self._torch = frozenset(_torch(self.tree))
        self._taken = frozenset(_taken(self.tree))
        named = {
            name: frozenset(found for node in nodes for found in _named(node))
            for name, nodes in self._defined.items()
            if len(nodes) == 1 or not isinstance(nodes[0], ast.FunctionDef)
        }
        self._leads = {name: names & self.kernels for name, names in named.items()}
        for _ in range(MAX_ROUNDS):
            more = {
                name: frozenset(self._leads[name].union(*(self._leads.get(n, ()) for n in names)))
                for name, names in named.items()
            }
            if more == self._leads:
                break
            self._leads = more

    def _is_kernel(self, node: ast.FunctionDef | ast.ClassDef) -> bool:
        return node.name in self.kernels and bool(node.decorator_list)

    def of(self, block: Iterable[ast.AST]) -> frozenset[str]:
        """Kernels that a piece of code leads to, and kernels of other modules that it launches."""
        found: set[str] = set()
        for node in block:
            for name in _named(node):
                found |= {name} & self.kernels or self._leads.get(name, frozenset())
                found |= self._local.get(name, frozenset())
            found |= self._taken & _launched(node)
        return frozenset(found)

    def leads(self, name: str) -> frozenset[str]:
        """Kernels that a name of the module leads to."""
        return self._leads.get(name, frozenset())

    def _bound(self, function: ast.FunctionDef) -> dict[str, frozenset[str]]:
        """Names of a function that stand for kernels, or for one of several."""
        found: dict[str, frozenset[str]] = {}
        for node in each(function, ast.Assign):
            if isinstance(node.targets[0], ast.Name):
                if isinstance(node.value, ast.Name | ast.IfExp | ast.Subscript):
                    name = node.targets[0].id
                    found[name] = self.of([node.value]) | found.get(name, frozenset())
        return found

    def hosts(self) -> Iterator[ast.FunctionDef]:
        """Functions that lead to a kernel, other than tests and benchmarks."""
        for nodes in self._defined.values():
            for node in nodes:
                if isinstance(node, ast.FunctionDef) and self.of([node]) and not tries(node):
                    yield node

    def forks(self, function: ast.FunctionDef) -> Iterator[Fork]:
        """Forks of one function."""
        self._local = {}
        self._local = self._bound(function)
        for block, then in _blocks(function):
            yield from self._in_block(block, then)
        for node in walk(function):
            if isinstance(node, ast.IfExp):
                yield Fork(node.test, (self.of([node.body]), self.of([node.orelse])))
            elif isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Constant):
                yield from self._of_table(node)

    def _in_block(self, block: list[ast.stmt], then: list[ast.stmt]) -> Iterator[Fork]:
        for place, node in enumerate(block):
            if not isinstance(node, ast.If):
                continue
            after = _goes_on(block, place, then)
            left = [*node.body, *(after if _ends(node.orelse) else ())]
            right = [*node.orelse, *(after if _ends(node.body) else ())]
            sides = (self._side(left, right), self._side(right, left))
            if right and any(side - {FRAMEWORK} for side in sides):
                yield Fork(node.test, sides)

    def _side(self, block: _Block, other: _Block) -> frozenset[str]:
        """Kernels of a block; of one without any whether it computes in another way."""
        found = self.of(block)
        if found:
            return found
        read = {name for node in other for name in _named(node)}
        kept = {name for node in other for name in _assigned(node)}
        return frozenset({FRAMEWORK}) if self._computes(block, read, kept) else found

    def _computes(self, block: _Block, read: set[str], kept: Set[str] = frozenset()) -> bool:
        """Whether a block gives back or binds what a function of torch computes, or gives back, or
        keeps under a name that the other side sets, too, what a method of one of the names `read`
        by the other side does; or puts elements of one of those where another of them says."""
        for node in block:
            for one in walk(node):
                made = one.value if isinstance(one, ast.Return | ast.Assign) else None
                same = isinstance(one, ast.Return) or not kept.isdisjoint(_assigned(one))
                names = read if same else set()
                if _scattered(one, read):
                    return True
                if isinstance(made, ast.Call) and self._computed(made, names):
                    return True
                if isinstance(one, ast.Expr) and isinstance(one.value, ast.Call):
                    if self._handed(one.value, read):
                        return True
        return False

    def _handed(self, call: ast.Call, read: set[str]) -> bool:
        """Whether an operator that is registered with torch, or a function that computes or comes
        from another module, is handed what the other side reads, to write its results into."""
        given = [*call.args, *(word.value for word in call.keywords)]
        if len({one.id for one in given if isinstance(one, ast.Name)} & read) < MIN_HANDED:
            return False
        function = call.func
        if isinstance(function, ast.Name):
            made = self._defined.get(function.id, [])
            if len(made) == 1 and isinstance(made[0], ast.FunctionDef):
                return self._computes(made[0].body, _parameters(made[0]))
            return not made and function.id in self._taken
        path = ast.unparse(function).split(".")
        return path[0] in self._torch and path[1:2] == ["ops"]

    def _computed(self, call: ast.Call, read: set[str]) -> bool:
        function = call.func
        if isinstance(function, ast.Name):
            made = self._defined.get(function.id, [])
            if len(made) == 1 and isinstance(made[0], ast.FunctionDef):
                return self._computes(made, _parameters(made[0]))
            given = {one.id for one in call.args if isinstance(one, ast.Name)}
            other = function.id in self._taken or function.id not in _BUILTINS
            return not made and other and len(given & read) > 1
        root: ast.expr = call
        called: list[str] = []
        while isinstance(root, ast.Attribute | ast.Call):
            inner = root.func if isinstance(root, ast.Call) else root.value
            if isinstance(root, ast.Call) and isinstance(inner, ast.Attribute):
                called.append(inner.attr)
            root = inner
        known = isinstance(root, ast.Name) and root.id in self._torch | read
        return known and any(name not in _MAKES for name in called)

    def _of_table(self, node: ast.Subscript) -> Iterator[Fork]:
        """An entry of a table of the module that leads to different kernels."""
        made = self._defined.get(node.value.id, []) if isinstance(node.value, ast.Name) else []
        if len(made) == 1 and isinstance(made[0], ast.Dict):
            yield Fork(node, tuple(self.of([value]) for value in made[0].values))


def _registered(node: ast.FunctionDef | ast.ClassDef) -> Iterator[str]:
    """The operators `space::name` that a function is registered as with torch."""
    for mark in node.decorator_list:
        first = mark.args[0] if isinstance(mark, ast.Call) and mark.args else None
        text = first.value if isinstance(first, ast.Constant) else None
        if isinstance(text, str) and "::" in text:
            yield text.partition("(")[0]


@lru_cache(maxsize=4096)
def _named(node: ast.AST) -> frozenset[str]:
    """Names that a piece of code reads, methods of its own object, and `space::name` of operators
    that are registered with torch."""
    found: set[str] = set()
    for one in walk(node):
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load):
            found.add(one.id)
        elif isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name):
            if one.value.id in ("self", "cls"):
                found.add(one.attr)
        elif isinstance(one, ast.Attribute) and isinstance(one.value, ast.Attribute):
            space = one.value
            if isinstance(space.value, ast.Attribute) and space.value.attr == "ops":
                found.add(f"{space.attr}::{one.attr}")
    return frozenset(found)


@lru_cache(maxsize=4096)
def _launched(node: ast.AST) -> frozenset[str]:
    """Names that a piece of code launches in the way of Triton, `kernel[grid](…)`."""
    called = (call.func.value for call in each(node, ast.Call)
              if isinstance(call.func, ast.Subscript))  # fmt: skip
    return frozenset(one.id for one in called if isinstance(one, ast.Name))


def _scattered(node: ast.AST, read: Set[str]) -> bool:
    """Whether elements of one of these arrays are put where another of them says."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Name):
        return False
    placed = {
        one.id
        for to in node.targets
        if isinstance(to, ast.Subscript)
        for one in each(to.slice, ast.Name)
    }
    return node.value.id in read and bool(placed & read - {node.value.id})


def _blocks(function: ast.FunctionDef) -> Iterator[tuple[list[ast.stmt], list[ast.stmt]]]:
    """Every block of a function, with what runs after it where it does not leave."""
    pending: list[tuple[ast.AST, list[ast.stmt]]] = [(function, [])]
    while pending:
        node, then = pending.pop()
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                yield block, then
                for place, inner in enumerate(block):
                    on = isinstance(inner, ast.If | ast.With)
                    pending.append((inner, _goes_on(block, place, then) if on else []))
        pending += [(one, []) for one in getattr(node, "handlers", ())]


def _goes_on(block: list[ast.stmt], place: int, then: list[ast.stmt]) -> list[ast.stmt]:
    """What runs after a statement of a block."""
    after = block[place + 1 :]
    return after if _ends(after) else [*after, *then]


def _assigned(node: ast.AST) -> set[str]:
    """Names that the assignments of a piece of code set."""
    targets = [to for made in each(node, ast.Assign) for to in made.targets]
    return {one.id for to in targets for one in each(to, ast.Name)}


def _ends(block: list[ast.stmt]) -> bool:
    """Whether a block leaves the function, or does where nothing fails."""
    last = block[-1] if block else None
    if isinstance(last, ast.Try | ast.With):
        return _ends(last.body)
    return isinstance(last, _LEAVES)


def _torch(tree: ast.Module) -> Iterator[str]:
    """Names that stand for torch and its parts."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name.partition(".")[0] == "torch":
                    yield (name.asname or name.name).partition(".")[0]


def _taken(tree: ast.Module) -> Iterator[str]:
    """Names that are taken from other modules."""
    for node in each(tree, ast.ImportFrom):
        yield from (name.asname or name.name for name in node.names)


def _parameters(function: ast.FunctionDef) -> set[str]:
    return {one.arg for one in (*function.args.args, *function.args.kwonlyargs)}


def tries(function: ast.FunctionDef) -> bool:
    """Whether a function draws the arrays that it works on, as tests and benchmarks do."""
    return any(node.attr in _DRAWS for node in each(function, ast.Attribute))
