"""What a tuned parameter of a kernel reaches, and where the kernel sums."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import Atom, AtomKind, Expr
from kb.ir import Op, TypeKind, walk
from kb.ops import ATOMICS, CONTRACTIONS, OpKind
from kb.space import Launch

SUMS = frozenset({OpKind.REDUCE_SUM, OpKind.REDUCE_PROD, OpKind.REDUCE, OpKind.SOFTMAX})
"""Reductions whose result depends on the order; maxima and bit operations do not."""

SCANS = frozenset({OpKind.CUMSUM, OpKind.CUMPROD, OpKind.SCAN})
EXCHANGES = frozenset({OpKind.ATOMIC_CAS, OpKind.ATOMIC_XCHG})
ADDS = frozenset({OpKind.ATOMIC_ADD, OpKind.DESCRIPTOR_ATOMIC_ADD, OpKind.VIEW_ATOMIC_ADD})
ROUNDING = frozenset(
    {
        OpKind.MUL, OpKind.DIV, OpKind.FMA, OpKind.POW, OpKind.EXP, OpKind.EXP2, OpKind.LOG,
        OpKind.LOG2, OpKind.SQRT, OpKind.RSQRT, OpKind.TANH, OpKind.EXTERN_MATH, OpKind.CALL,
        OpKind.FOR, OpKind.WHILE,
    }
    | SUMS | SCANS | CONTRACTIONS | ATOMICS
)  # fmt: skip
"""Operations that make two branches differ by more than a mask."""

_WORD = re.compile(r"[A-Za-z_]\w*")
_WHOLE = re.compile(r"i1|[iu]\d+")


class Reach:
    """What the constexpr parameter `name` reaches in a kernel and its launches."""

    def __init__(self, facts: Facts, name: str, launches: Sequence[Launch] = ()) -> None:
        self.facts = facts
        self.name = name
        bound = {
            binding.parameter
            for launch in launches
            for binding in launch.bindings
            if name in _WORD.findall(binding.expression)
        }
        self.seeds = frozenset({name, *bound}) & frozenset(facts.kernel.entry.parameter_names)
        self.sets_grid = any(
            name in _WORD.findall(extent) for launch in launches for extent in launch.grid
        )

        graph = facts.graph
        self._readers = graph.node_set(node for seed in self.seeds for node in graph.users(seed))

    @property
    def used(self) -> bool:
        """Whether any operation reads the parameter, or one that the host computes from it."""
        return bool(self._readers)

    # -- questions

    def in_text(self, extent: str) -> bool:
        """Whether an extent, as types write it, mentions the parameter."""
        return not self.seeds.isdisjoint(_WORD.findall(extent))

    def in_expr(self, expr: Expr) -> bool:
        """Whether an integer expression depends on the parameter."""
        return any(self.is_seed(atom) for atom in expr.atoms()) or (
            self.sets_grid and expr.has(AtomKind.BLOCKS)
        )

    def is_seed(self, atom: Atom) -> bool:
        """Whether an atom is the parameter itself."""
        return atom.kind is AtomKind.PARAMETER and atom.value in self.seeds

    def rests(self, value: str | None) -> bool:
        """Whether a value is computed from the parameter in any way."""
        if value is None:
            return False
        return value in self.seeds or self.facts.graph.rests_on_any(value, self._readers)

    def rounds(self, op: Op) -> bool:
        """Whether an operation may round a number."""
        return op.kind in ROUNDING and (
            not op.results or any(self.floats(r.name) for r in op.results)
        )

    def floats(self, value: str | None) -> bool:
        """Whether a value may hold floating-point numbers; an address does not."""
        if self.facts.types.of(value).kind in (TypeKind.POINTER, TypeKind.ARRAY):
            return False
        return not _WHOLE.fullmatch(self.facts.types.dtype(value))


def tile_sums(facts: Facts) -> tuple[list[Node], list[Node]]:
    """Sums and scans of floating-point tiles, and matrix products: whose inner order is the
    compiler's."""
    sums = [
        node
        for node in facts.graph.of(*SUMS, *SCANS)
        if node.op.inputs and not _WHOLE.fullmatch(facts.types.dtype(node.op.inputs[0]))
    ]
    return sums, facts.contractions


def unordered_adds(facts: Facts) -> list[Node]:
    """Atomics through which blocks add up floating-point numbers, or take a lock to do so."""
    waiting = [
        op for loop in facts.graph.of(OpKind.WHILE) for r in loop.op.regions for op in walk(r)
    ]
    spins = any(op.kind in ATOMICS for op in waiting)
    found = []
    for node in facts.graph.of(*ATOMICS):
        value = node.op.operand("value") or (node.op.inputs[-1] if node.op.inputs else None)
        adds = node.op.kind in ADDS and not _WHOLE.fullmatch(facts.types.dtype(value))
        whole = isinstance(facts.values.literal(value), int)
        if (adds and not whole) or (node.op.kind in EXCHANGES and spins):
            found.append(node)
    return found
