"""What keeps a row without any valid key from dividing zero by zero."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf, isinf

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, POINTER, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_merges import MERGE_OWN_POINTER, MERGE_TWICE_POINTER, MERGED_PAIR
from extractors.patterns.cases_pointer import FLASH_POINTER, FLASH_STAGED
from extractors.patterns.cases_rows import SOFTMAX
from extractors.patterns.cases_rows_pointer import SOFTMAX_POINTER, SOFTMAX_TWICE_POINTER
from extractors.patterns.cases_rows_threads import SOFTMAX_THREADS
from extractors.patterns.cases_tensors import ROWS_TENSORS
from extractors.patterns.cases_threads import FLASH_THREADS, PRODUCT_THREADS
from extractors.patterns.cases_walks import EMPTY_PART, LOSS
from kb.analysis.emptied import emptied, filled
from kb.analysis.empty_rows import nothing_stored, read_as_nothing, whole_row
from kb.analysis.exponentials import Exponential
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, Node
from kb.analysis.idioms import LARGE, begun
from kb.analysis.loops import Loop, Role
from kb.evidence import Decision
from kb.ops import READS, OpKind

_PARTS = vary(
    FLASH_STAGED,
    ("    acc, tot, top = walk(acc, tot, top, fixed, ks, vs, tn, size, x, at, cols0, 4",
     "    if PARTS & 1:\n        acc, tot, top = walk(acc, tot, top, fixed, ks, vs, tn, size, x, at, cols0, 4"),  # noqa: E501
)  # fmt: skip


_ASKED = (
    ("e = tl.exp(v - tl.max(v, axis=0))", "top = tl.max(v, axis=0)\n        e = tl.exp(v - top)"),
    ("y = e / d", 'y = tl.where(top == float("-inf"), 0.0, e / d)'),
)
_ASKED_LANES = (
    POINTER
    + """
@triton.jit
def fold(x, out, n, T: tl.constexpr):
    at = tl.arange(0, T)
    m = tl.full([T], -float("inf"), tl.float32)
    z = tl.zeros([T], tl.float32)
    for j in range(0, n, T):
        v = tl.load(x + j + at, mask=j + at < n, other=-float("inf"))
        top = tl.maximum(m, v)
        z = tl.where(top == float("-inf"), z, z * tl.exp(m - top) + tl.exp(v - top))
        m = top
    tl.store(out + at, m + tl.log(z))
"""
)
_ONLINE_THREADS = """__global__ void fold(const float* x, float* out, int n) {
    const float* row = x + blockIdx.x * n;
    float top = -INFINITY, sum = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float now = fmaxf(top, row[i]);
        sum = sum * expf(top - now) + expf(row[i] - now);
        top = now;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = top + logf(sum);
}
"""
_CLAMPED_THREADS = _ONLINE_THREADS.replace("top, row[i])", "fmaxf(top, row[i]), -3.0e38f)")
_ZEROED = ("acc / tot", 'tl.where(top == float("-inf"), 0.0, acc / tot)')


_LARGEST = (OpKind.MAXIMUM, OpKind.REDUCE_MAX)
_FINITE = "finite m init"
_ZERO = "maximum begins at 0"
_NONE = "none (NaN)"
_ONE = "l init = 1"
_SKIPPED = "nothing stored for an empty range"
_EMPTIED = "constant for an empty row"
_LEAST = -3.5e38
"""Below every 32-bit float that is no infinity."""

_SKIPPED_THREADS = vary(
    SOFTMAX_THREADS,
    ("        float e = expf(v - block_max(v));\n        float y = e / block_sum(e);\n",
     "        float top = block_max(v), y = 0.f;\n"
     "        if (!isinf(top)) {\n            float e = expf(v - top);\n"
     "            y = e / block_sum(e);\n        }\n"),
)  # fmt: skip
_TURNED = COPIES | CASTS | {OpKind.NOT}
_INFINITE = ("isinf", "isfinite", "std::isinf", "std::isfinite")
"""Functions that ask. Source: ISO C++, header cmath; CUDA Math API."""

_EMPTY = (
    POINTER
    + """
@triton.jit
def gather(x, starts, out, T: tl.constexpr):
    own = tl.program_id(0)
    at = tl.arange(0, T)
    begin = tl.load(starts + own)
    count = tl.load(starts + own + 1) - begin
    if count == 0:
        tl.store(out + own * T + at, tl.zeros([T], tl.float32))
    else:
        acc = tl.zeros([T], tl.float32)
        for i in range(count):
            acc += tl.load(x + (begin + i) * T + at)
        tl.store(out + own * T + at, acc)
"""
)
_EMPTY_THREADS = """__global__ void gather(const float* x, const int* starts, float* out, int n) {
    for (int row = blockIdx.x; row < n; row += gridDim.x) {
        int count = starts[row + 1] - starts[row];
        float* own = out + row * blockDim.x + threadIdx.x;
        if (count == 0) {
            *own = 0.f;
            continue;
        }
        float acc = 0.f;
        for (int i = 0; i < count; ++i)
            acc += x[(starts[row] + i) * blockDim.x + threadIdx.x];
        *own = acc;
    }
}
"""


class DegenerateRowGuard(Pattern):
    """The first value of the running sum or maximum, a lower bound of the sum before the division,
    or a constant that is stored where a loaded number of elements is zero, or a loop has no
    round."""

    name = "degenerate-row-guard"
    axis = "empty_row_handling"
    source = "tilelore catalogue, P62; Dao, FlashAttention-2 (2023)"
    matches = (
        Case(_SKIPPED_THREADS, "asked for by its maximum"),
        Case(ATTENTION, "none (NaN)"),
        Case(
            vary(ATTENTION, ("tot = ct.full((TM, 1), 0.0,", "tot = ct.full((TM, 1), 1.0,")),
            _ONE,
        ),
        Case(
            vary(
                ATTENTION, ("top = ct.full((TM, 1), -math.inf,", "top = ct.full((TM, 1), -1.0e30,")
            ),
            _FINITE,
        ),
        Case(
            vary(SOFTMAX_TWICE_POINTER, ('top = float("-inf")', "top = -1.0e30")),
            _FINITE,
        ),
        Case(
            vary(
                ATTENTION,
                (
                    "    acc = ct.truediv(acc, tot,",
                    "    tot = ct.maximum(tot, 1e-6)\n    acc = ct.truediv(acc, tot,",
                ),
            ),
            "clamp l >= eps",
        ),
        Case(vary(SOFTMAX_TWICE_POINTER, ('top = float("-inf")', "top = 0.0")), _ZERO),
        Case(vary(SOFTMAX_POINTER, *_ASKED), "asked for by its maximum"),
        Case(_ASKED_LANES, "asked for by its maximum"),
        Case(vary(MERGE_TWICE_POINTER, _ZEROED), "asked for by its maximum"),
        Case(MERGED_PAIR, "asked for by its maximum"),
        Case(MERGED_PAIR, "+inf read as -inf"),
        Case(MERGE_OWN_POINTER, "not a number read as -inf"),
        Case(FLASH_POINTER, "none (NaN)"),
        Case(_ONLINE_THREADS, "none (NaN)"),
        Case(_ONLINE_THREADS.replace("-INFINITY", "-1e30f"), _FINITE),
        Case(EMPTY_PART, _SKIPPED),
        Case(FLASH_THREADS, "none (NaN)"),
        Case(_CLAMPED_THREADS, "maximum kept finite"),
        Case(_EMPTY, _EMPTIED),
        Case(_EMPTY_THREADS, _EMPTIED),
        Case(ROWS_TENSORS, _EMPTIED),
    )
    near_misses = (
        NearMiss(
            vary(_SKIPPED_THREADS, ("isinf(top)", "isinf(v)")),
            why="an element is asked for, no maximum",
            value="asked for by its maximum",
        ),
        NearMiss(
            vary(MERGED_PAIR, ('float("-inf") if', "0.0 if")),
            why="a number that counts stands in",
            value="+inf read as -inf",
        ),
        NearMiss(
            FLASH_STAGED,
            why="what the second loop goes on with is no empty row",
            value="none (NaN)",
        ),
        NearMiss(_SKIPPED_THREADS, why="infinities are left out", value="none (NaN)"),
        NearMiss(
            _CLAMPED_THREADS.replace("-3.0e38f", "-8.f"),
            why="a bound that data may lie below",
            value="maximum kept finite",
        ),
        NearMiss(_EMPTY.replace("count == 0", "own == 0"), why="the first row is no empty one"),
        NearMiss(_EMPTY.replace("range(count)", "range(T)"), why="no number of elements is loaded"),
        NearMiss(_EMPTY_THREADS.replace("*own = 0.f;", ""), why="nothing is written for it"),
        NearMiss(_PARTS, why="the first loop may be left out", value="none (NaN)"),
        NearMiss(SOFTMAX_TWICE_POINTER, why="a row always has its own elements"),
        NearMiss(PRODUCT, why="no running maximum"),
        NearMiss(LOSS, why="a row always has its own elements"),
        NearMiss(SOFTMAX, why="a row always has its own elements"),
        NearMiss(
            ROWS_TENSORS.replace("last <= t", "width <= t"),
            why="no end of a loop is asked for",
            value=_EMPTIED,
        ),
        NearMiss(
            ROWS_TENSORS.replace("last <= t", "last <= blockIdx.x"),
            why="the place of a block is held against it, not where the loop begins",
            value=_EMPTIED,
        ),
        NearMiss(SOFTMAX_POINTER, why="a row always has its own elements"),
        NearMiss(PRODUCT_POINTER, why="no running maximum"),
        NearMiss(PRODUCT_THREADS, why="no running maximum"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        asked = [n for n in facts.graph.of(OpKind.SELECT, OpKind.IF) if _asks_maximum(facts, n)]
        asked += [n for n in _infinite(facts) if facts.graph.roots(n.op.inputs[0], *_LARGEST)]
        for loop in facts.loops:
            tops = loop.of(Role.RUNNING_MAXIMUM)
            sums = loop.of(Role.RUNNING_SUM)
            if not tops or not sums:
                continue
            first, start = ([begun(facts, c.init) for c in states] for states in (tops, sums))
            value, where = self._guard(facts, loop, first, start)
            given = value == _ONE and any(facts.graph.roots(v, *READS) for v in first)
            if given or (value == _NONE and asked):
                continue
            open_rows = facts.of_threads and value == _NONE and not _asks_infinity(facts)
            several = len(sums) > 1 and not facts.of_threads and not whole_row(facts, loop)
            weighed = facts.contractions or several
            if value == _NONE and (skipped := nothing_stored(facts, loop)):
                yield self.decide(facts, _SKIPPED, skipped)
                continue
            if weighed or value in (_FINITE, _ZERO) or open_rows:
                yield self.decide(facts, value, where)
        if asked:
            yield self.decide(facts, "asked for by its maximum", asked)
        if constant := emptied(facts):
            yield self.decide(facts, _EMPTIED, constant)
        if clamped := _kept_finite(facts):
            yield self.decide(facts, "maximum kept finite", clamped)
        absent: dict[str, list[Node]] = {}
        for node in facts.graph.of(OpKind.SELECT, OpKind.IF_EXPRESSION):
            found = read_as_nothing(facts, node)
            if found and any(_raised(facts, e, node) for e in facts.exponentials):
                absent.setdefault(found, []).append(node)
        for value, nodes in absent.items():
            yield self.decide(facts, value, nodes)

    def _guard(
        self, facts: Facts, loop: Loop, tops: list[str], sums: list[str]
    ) -> tuple[str, list[Node]]:
        clamps = self._clamps(facts, loop)
        if clamps:
            return "clamp l >= eps", clamps
        for value in sums:
            if filled(facts, value) == 1:
                return _ONE, _made(facts, value)
        for value in tops:
            first = filled(facts, value)
            if isinstance(first, int | float) and _LEAST <= first < -LARGE:
                return _FINITE, _made(facts, value)
            if first == 0:
                return _ZERO, _made(facts, value)
        zeroed = [] if facts.of_threads else _zeroed(facts, loop)
        if zeroed:
            return "re-zero P", zeroed
        totals = {c.result for c in loop.of(Role.RUNNING_SUM)}
        over = [n for n in facts.graph.of(OpKind.DIV) if facts.graph.core(n.op.inputs[1]) in totals]
        return _NONE, [*(n for v in (*tops, *sums) for n in _made(facts, v)), *over]

    def _clamps(self, facts: Facts, loop: Loop) -> list[Node]:
        """maximum(sum, number), or a select on the sum, after the loop; not of a sum that goes on
        or not."""
        results = {c.result for c in loop.of(Role.RUNNING_SUM)}
        return [
            n
            for n in facts.graph.of(OpKind.MAXIMUM, OpKind.SELECT)
            if not n.inside(loop.node)
            and any(facts.graph.core(v) in results for v in n.op.inputs)
            and not all(facts.graph.rests_on(v, loop.node) for v in n.op.inputs[-2:])
        ]


def _kept_finite(facts: Facts) -> list[Node]:
    """Maxima of a row, kept above the lowest number, which are taken off before an exponential."""
    tops = {
        v for x in facts.loops for c in x.of(Role.RUNNING_MAXIMUM) for v in (c.argument, c.result)
    }
    found = []
    for node in facts.graph.of(OpKind.MAXIMUM) if facts.exponentials else ():
        for value, low in (node.op.inputs[:2], node.op.inputs[1::-1]):
            least, top = filled(facts, low), facts.graph.core(value)
            if not isinstance(least, int | float) or not -inf < least <= -LARGE:
                continue
            largest = top in tops or facts.graph.kind_of(top) in _LARGEST
            if largest and any(_raised(facts, e, node) for e in facts.exponentials):
                found.append(node)
    return found


def _zeroed(facts: Facts, loop: Loop) -> list[Node]:
    """Choices of zero instead of an exponential, in a loop."""
    powers = {e.node for e in facts.exponentials if not e.rescale}
    return [
        n
        for n in facts.graph.of(OpKind.SELECT)
        if n.inside(loop.node)
        and any(facts.graph.producer(facts.graph.core(v)) in powers for v in n.op.inputs[1:])
        and any(facts.number(v) == 0 for v in n.op.inputs[1:])
    ]


def _asks_infinity(facts: Facts) -> bool:
    """Whether anything is compared with an infinity."""
    tests = facts.graph.of(OpKind.EQ, OpKind.NE, OpKind.GT, OpKind.LT, OpKind.GE, OpKind.LE)
    numbers = (facts.number(v) for n in tests for v in n.op.inputs[:2])
    return bool(_infinite(facts)) or any(n is not None and isinf(n) for n in numbers)


def _infinite(facts: Facts) -> list[Node]:
    """Calls that ask whether a number is an infinity, on which a branch or a choice depends."""
    calls = facts.graph.of(OpKind.EXTERN_MATH)
    asked = [n for n in calls if str(n.op.attribute("spelling")).endswith(("isinf", "isfinite"))]
    tests = [n.op.inputs[0] for n in facts.graph.of(OpKind.IF, OpKind.SELECT)] if asked else []
    return [n for n in asked if any(facts.graph.rests_on(v, n) for v in tests)]


def _raised(facts: Facts, power: Exponential, node: Node) -> bool:
    return facts.graph.rests_on(power.node.result, node)


def _asks_maximum(facts: Facts, node: Node) -> bool:
    """A choice by whether a maximum of a row is minus infinity, or infinite at all."""
    test = facts.graph.producer(facts.graph.through(node.op.operand("condition"), _TURNED))
    if test is not None and test.op.attribute("spelling") in _INFINITE:
        return bool(facts.graph.roots(test.op.inputs[0], OpKind.REDUCE_MAX))
    if test is None or test.op.kind not in (OpKind.EQ, OpKind.NE) or node.op.kind == OpKind.IF:
        return False
    for value, number in (test.op.inputs[:2], test.op.inputs[1::-1]):
        if facts.values.literal(facts.graph.core(number)) == float("-inf"):
            top = facts.graph.producer(facts.graph.core(value))
            running = (
                top is not None
                and top.op.kind == OpKind.MAXIMUM
                and (bool(top.loops) or all(facts.feeding(v) for v in top.op.inputs[:2]))
            )
            running |= any(
                c.result == facts.graph.core(value)
                for loop in facts.loops
                for c in loop.of(Role.RUNNING_MAXIMUM)
            )
            return running or bool(top and facts.graph.roots(value, OpKind.REDUCE_MAX))
    return False


def _made(facts: Facts, value: str) -> list[Node]:
    node = facts.graph.producer(value)
    return [node] if node is not None else []
