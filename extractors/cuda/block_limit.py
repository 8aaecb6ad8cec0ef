"""How many threads a block can have at most, and whether only the run tells how many it has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from extractors.cuda import nodes as n
from extractors.cuda.folds import fold
from extractors.cuda.launch_site import LaunchSite, Names
from extractors.cuda.library import Library
from extractors.cuda.render import shown
from extractors.host.facts import BlockSize

MAX_DEPTH = 12
"""Expressions inside expressions, and names behind names, that a size is followed through."""


def block_sizes(sites: Sequence[LaunchSite], library: Library) -> tuple[BlockSize, ...]:
    """What is known of the size of the blocks of each launch."""
    return tuple(_size(one, library) for one in sites)


def _size(site: LaunchSite, library: Library) -> BlockSize:
    functions = library.unit.functions.get(site.function, ())
    templates = frozenset(p.name for one in functions for p in one.template)
    scope = _Scope(site.names, library, templates)
    extents = tuple(scope.extents(site.shape[1] if len(site.shape) > 1 else None))
    return BlockSize(
        most=scope.product(extents) if extents else None,
        computed=not extents or any(scope.computed(one) for one in extents),
    )


@dataclass(frozen=True, slots=True)
class _Scope:
    """What the names of a launch mean; `templates` are settled when the host is compiled."""

    names: Names
    library: Library
    templates: frozenset[str]

    def extents(self, block: n.Expr | n.Variable | None) -> Iterator[n.Expr]:
        """The extents of a block; none where they are not written in one place."""
        made = self._meaning(block) if isinstance(block, n.Name) else block
        if isinstance(made, n.Variable):
            yield from made.arguments or ()
        elif isinstance(made, n.Braces):
            yield from made.items
        elif isinstance(made, n.Call) and shown(made.function) == "dim3":
            yield from made.arguments
        elif isinstance(block, n.Expr):
            yield block

    def product(self, factors: Sequence[n.Expr], depth: int = 0) -> int | None:
        """The most that a product is; a number of threads that is divided by another extent of the
        block, which it is multiplied with, is that number again."""
        for at, one in enumerate(factors):
            made = self._meaning(one)
            if not isinstance(made, n.Binary) or made.operator != "/":
                continue
            for other, factor in enumerate(factors):
                if other != at and shown(factor) == shown(made.right):
                    rest = [f for k, f in enumerate(factors) if k not in (at, other)]
                    return self.product([made.left, *rest], depth + 1)
        return _all(self.most(one, depth + 1) for one in factors)

    def most(self, node: n.Expr | n.Variable | None, depth: int = 0) -> int | None:
        """The most that an expression of numbers above zero is, as far as constants bound it."""
        if depth > MAX_DEPTH:
            return None
        match self._meaning(node):
            case n.Constant(value=int() as value):
                return value
            case n.Cast(operand=operand):
                return self.most(operand, depth + 1)
            case n.Choice(then=then, other=other):
                return _largest([self.most(one, depth + 1) for one in (then, other)])
            case n.Binary(operator="*", left=left, right=right):
                return self.product((left, right), depth)
            case n.Binary(operator="+", left=left, right=right):
                sides = [self.most(one, depth + 1) for one in (left, right)]
                return None if None in sides else sum(s for s in sides if s is not None)
            case n.Binary(operator="/", left=left, right=right):
                whole, by = self.most(left, depth + 1), self._exactly(right, depth + 1)
                return whole // by if whole is not None and by is not None and by > 0 else whole
            case n.Call(function=n.Name(text=text), arguments=arguments):
                bounds = [self.most(one, depth + 1) for one in arguments]
                if text.rpartition("::")[2] == "min":
                    return min((one for one in bounds if one is not None), default=None)
                return _largest(bounds) if text.rpartition("::")[2] == "max" else None
        return None

    def _exactly(self, node: n.Expr | n.Variable | None, depth: int) -> int | None:
        """The number that an expression of constants is."""
        match self._meaning(node):
            case n.Constant(value=int() as value):
                return int(value)
            case n.Cast(operand=operand) if depth <= MAX_DEPTH:
                return self._exactly(operand, depth + 1)
            case n.Binary(operator=operator, left=left, right=right) if depth <= MAX_DEPTH:
                sides = (self._exactly(side, depth + 1) for side in (left, right))
                return fold(operator, *sides)
        return None

    def computed(self, node: n.Expr | n.Variable | None, depth: int = 0) -> bool:
        """Whether an expression rests on a value that only the run gives."""
        made = self._meaning(node)
        if depth > MAX_DEPTH or made is None or isinstance(made, n.Variable):
            return True
        match made:
            case n.Constant() | n.SizeOf():
                return False
            case n.Name(text=text):
                return "::" not in text and text not in self.templates
            case n.Cast(operand=operand) | n.Unary(operand=operand):
                return self.computed(operand, depth + 1)
            case n.Binary(left=left, right=right):
                return any(self.computed(one, depth + 1) for one in (left, right))
            case n.Choice(then=then, other=other):
                return any(self.computed(one, depth + 1) for one in (then, other))
            case n.Call(function=n.Name(), arguments=arguments) if arguments:
                return any(self.computed(one, depth + 1) for one in arguments)
        return True

    def _meaning(self, node: n.Expr | n.Variable | None) -> n.Expr | n.Variable | None:
        """What a name was last given, or the constant of a file that it is, step by step."""
        for _ in range(MAX_DEPTH):
            if isinstance(node, n.Variable) and node.arguments is None and node.value is not None:
                node = node.value
            if not isinstance(node, n.Name) or node.text in self.templates:
                break
            given = self._given(node.text)
            if given is None or given == node:
                break
            node = given
        return node

    def _given(self, text: str) -> n.Expr | n.Variable | None:
        held: Mapping[str, n.Expr | n.Variable] = self.names
        return held.get(text) or (None if "." in text else self.library.constant(text))


def _all(bounds: Iterator[int | None]) -> int | None:
    found = list(bounds)
    known = [one for one in found if one is not None]
    return prod(known) if len(known) == len(found) else None


def _largest(bounds: Sequence[int | None]) -> int | None:
    known = [one for one in bounds if one is not None]
    return max(known) if known and len(known) == len(bounds) else None
