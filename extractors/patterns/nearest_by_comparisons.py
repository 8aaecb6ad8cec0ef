"""Numbers rounded to the nearest of a few by comparing them with what lies between those."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import Expr
from kb.dtypes import is_float
from kb.evidence import Decision
from kb.ops import OpKind

_CODES = (
    POINTER
    + """
@triton.jit
def codes(x, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.abs(tl.load(x + at, mask=at < n))
    code = (v > 0.25).to(tl.uint8) + (v >= 0.75).to(tl.uint8) + (v > 1.25).to(tl.uint8)
    code += (v >= 1.75).to(tl.uint8)
    tl.store(out + at, code, mask=at < n)
"""
)
_CODES_TILE = """import cuda.tile as ct
@ct.kernel
def codes(x, out, T: ct.Constant[int]):
    v = ct.abs(ct.load(x, index=(ct.bid(0),), shape=(T,)))
    code = ct.where(v > 0.25, 1, 0)
    code = ct.where(v > 0.75, 2, code)
    code = ct.where(v > 1.25, 3, code)
    code = ct.where(v > 1.75, 4, code)
    ct.store(out, index=(ct.bid(0),), tile=ct.astype(code, ct.uint8))
"""
_CODES_THREADS = """__device__ unsigned char code_of(float v) {
    if (!(v > 0.25f)) return 0;
    if (v < 0.75f) return 1;
    if (v <= 1.25f) return 2;
    if (v < 1.75f) return 3;
    return 4;
}
__global__ void codes(const float* x, unsigned char* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = code_of(fabsf(x[at]));
}
"""
_BRANCHES_THREADS = """__global__ void codes(const float* x, unsigned char* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float v = fabsf(x[at]);
    unsigned char code;
    if (v <= 0.25f) {
        code = 0;
    } else if (v < 0.75f) {
        code = 1;
    } else if (v <= 1.25f) {
        code = 2;
    } else if (v < 1.75f) {
        code = 3;
    } else {
        code = 4;
    }
    if (at < n) out[at] = code;
}
"""
_COUNTED = (
    POINTER
    + """
@triton.jit
def codes(x, table, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=0.0)
    v = tl.abs(v) / tl.max(v, axis=0)
    marks = tl.load(table + tl.arange(0, 8))
    code = tl.sum((v[:, None] > marks[None, :]).to(tl.int32), axis=1)
    tl.store(out + at, code.to(tl.uint8), mask=at < n)
"""
)
_ONE_BY_ONE = (
    POINTER
    + """
@triton.jit
def codes(x, table, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.abs(tl.load(x + at, mask=at < n, other=0.0))
    a = tl.load(table)
    b = tl.load(table + 1)
    c = tl.load(table + 2)
    d = tl.load(table + 3)
    code = (v > a).to(tl.int32) + (v > b).to(tl.int32) + (v > c).to(tl.int32)
    code += (v > d).to(tl.int32)
    tl.store(out + at, code.to(tl.uint8), mask=at < n)
"""
)
_FEWEST = 4
"""Thresholds of a ladder; fewer are cases of a formula."""
_UP = {OpKind.GT: True, OpKind.LE: True, OpKind.GE: False, OpKind.LT: False}
"""Comparisons, and whether the threshold itself belongs to the lower side."""
_ASKED = frozenset({OpKind.NOT, OpKind.IF, OpKind.IF_EXPRESSION})
_EVEN = "nearest even by comparisons"
_COUNTING = "nearest by counting thresholds"


class NearestByComparisons(Pattern):
    """One number is compared with several that are written out, and whole numbers, one for each
    way the comparisons end, are stored; at the thresholds sides take turns, or one always wins. Or
    thresholds of a table that a number is above are counted."""

    name = "nearest-code-by-comparisons"
    axis = "rounding_mode"
    source = "Rouhani et al., Microscaling Data Formats (2023): E2M1; IEEE 754-2019, section 4.3.1"
    matches = (
        Case(_COUNTED, _COUNTING),
        Case(_ONE_BY_ONE, _COUNTING),
        Case(vary(_ONE_BY_ONE, ("(v > b)", "(b < v)"), ("(v > d)", "(d < v)")), _COUNTING),
        Case(_CODES, _EVEN),
        Case(_CODES_TILE, "nearest by comparisons"),
        Case(_CODES_THREADS, _EVEN),
        Case(_BRANCHES_THREADS, _EVEN),
    )
    near_misses = (
        NearMiss(
            vary(_COUNTED, ("(v[:, None] > marks", "(at[:, None] > marks")),
            why="places are counted, no numbers",
        ),
        NearMiss(
            vary(_ONE_BY_ONE, ("table + 2", "table + 1"), ("table + 3", "table + 1")),
            why="two thresholds are cases of a formula",
        ),
        NearMiss(
            vary(_ONE_BY_ONE, ("code.to(tl.uint8)", "code.to(tl.float32) * 0.5")), why="no codes"
        ),
        NearMiss(
            vary(_CODES, (" + (v >= 0.75).to(tl.uint8) + (v > 1.25).to(tl.uint8)", "")),
            why="two thresholds are cases of a formula",
        ),
        NearMiss(
            vary(_CODES, ("    tl.store(out + at, code,", "    tl.store(out + at, v * code,")),
            why="weights of the number itself, no codes",
        ),
        NearMiss(_CODES_TILE.replace("ct.uint8", "ct.float32"), why="numbers, no codes"),
        NearMiss(
            _CODES_THREADS.replace("unsigned char code_of", "float code_of").replace(
                "unsigned char* out", "float* out"
            ),
            why="numbers, no codes",
        ),
        NearMiss(PRODUCT, why="nothing is compared"),
        NearMiss(PRODUCT_POINTER, why="nothing is compared"),
        NearMiss(PRODUCT_THREADS, why="nothing is compared"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        ladders: dict[str, dict[float, Node]] = {}
        for test in facts.graph.of(*_UP):
            by = facts.number(test.op.inputs[1])
            value = facts.graph.core(test.op.inputs[0])
            if by is not None and value is not None and isinstance(by, float) and by > 0:
                ladders.setdefault(value, {}).setdefault(by, test)
        found: dict[str, list[Node]] = {}
        for steps in ladders.values():
            if len(steps) >= _FEWEST and (made := self._codes(facts, [*steps.values()])):
                sides = [_UP[OpKind(steps[by].op.kind)] for by in sorted(steps)]
                even = all(one != other for one, other in pairwise(sides))
                name = _EVEN if even else "nearest by comparisons"
                found.setdefault(name, []).extend([*steps.values(), *made])
        if counted := [*self._counted(facts), *self._one_by_one(facts)]:
            found.setdefault(_COUNTING, []).extend(counted)
        for name, nodes in found.items():
            yield self.decide(facts, name, dict.fromkeys(nodes))

    def _counted(self, facts: Facts) -> list[Node]:
        """Thresholds of a loaded table that a computed number is above, added up to a code that is
        stored."""
        found: list[Node] = []
        for total in facts.graph.of(OpKind.REDUCE_SUM):
            test = facts.graph.producer(facts.graph.core(total.op.inputs[0]))
            taken = [s for s in facts.stores if facts.graph.rests_on(s.value, total)]
            stored = [s.node for s in taken if not is_float(facts.types.dtype(s.value))]
            if test is None or test.op.kind not in _UP or not stored:
                continue
            for value, table in (test.op.inputs[:2], test.op.inputs[1::-1]):
                computed = facts.feeding(value) and not facts.held_loads(value)
                if computed and facts.held_loads(table):
                    found += [test, total, *stored]
        return found

    def _one_by_one(self, facts: Facts) -> list[Node]:
        """The same, each threshold loaded by itself from its own place of one table."""
        ladders: dict[tuple[str, str], dict[Expr, Node]] = {}
        turned = [(n, at) for n in facts.graph.of(*_UP) for at in (0, 1)]
        for test, at in turned:
            value = facts.graph.core(test.op.inputs[at])
            for mark in facts.held_loads(test.op.inputs[1 - at]):
                written = all(index.constant is not None for index in mark.index)
                if value is not None and mark.array is not None and written and mark.index:
                    ladders.setdefault((value, mark.array), {})[mark.index[-1]] = test
        found: list[Node] = []
        for steps in ladders.values():
            tests = [*steps.values()]
            stored = [
                s.node
                for s in facts.stores
                if not is_float(facts.types.dtype(s.value))
                and all(facts.graph.rests_on(s.value, test) for test in tests)
            ]
            found += [*tests, *stored] if len(tests) >= _FEWEST and stored else []
        return found

    def _whole(self, facts: Facts) -> list[Access]:
        """Stores of whole numbers."""
        return [s for s in facts.stores if facts.types.dtype(s.value).startswith(("i", "u"))]

    def _codes(self, facts: Facts, tests: list[Node]) -> list[Node]:
        """Where whole numbers that rest on all the comparisons are stored."""
        return [
            store.node
            for store in self._whole(facts)
            if all(self._decides(facts, store.value, test) for test in tests)
        ]

    def _decides(self, facts: Facts, value: str, test: Node) -> bool:
        """Whether a value is computed from how a comparison ends, or handed on by a branch that
        asks for it."""
        asked = [test]
        for node in asked:
            asked += [n for n in facts.graph.users(node.result) if n.op.kind in _ASKED]
        return any(facts.graph.rests_on(value, node) for node in asked)
