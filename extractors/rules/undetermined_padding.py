"""Lanes outside an array whose contents nobody determines are added up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.cases import ATTENTION, ATTENTION_POINTER, vary
from extractors.patterns.cases_rows import LAYER_NORM_POINTER
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.idioms import comparisons, sides
from kb.analysis.padding import Lanes, PaddedLanes
from kb.analysis.sums import products_with_outside, reductions_with_outside
from kb.analysis.widths import along
from kb.evidence import Finding
from kb.ops import OpKind

_COLUMNS = " + y * sh + cols[:, None] * sm + lane[None, :], mask=cols[:, None] < size"
_ASYNC = """
__global__ void scores(const float* k, const float* q, float* out, int rows, int n) {
  __shared__ float tile[8 * 32];
  int row = blockIdx.x * 8 + threadIdx.y;
  unsigned int at = __cvta_generic_to_shared(&tile[threadIdx.y * 32 + threadIdx.x]);
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %0, 0; @p cp.async.ca.shared.global [%1], [%2], 4; }"
               :: "r"((int)(threadIdx.x < n)), "r"(at), "l"(k + (long)row * n + threadIdx.x));
  asm volatile("cp.async.wait_all;");
  __syncthreads();
  float s = tile[threadIdx.y * 32 + threadIdx.x] * q[threadIdx.x];
  for (int o = 16; o > 0; o /= 2) { s += __shfl_xor_sync(0xffffffff, s, o); }
  out[row] = row < rows ? s : -1e30f;
}
"""
_WHOLE_ROWS = vary(_ASYNC, ("(threadIdx.x < n)", "(row < rows)"))


class UndeterminedPadding(Rule):
    """A masked load without a padding reaches a sum or a matrix product, and no select replaces the
    lanes outside: the result rests on what the hardware happens to fill in. Threads that sum
    through shuffles sum along their last axis: a row that is left out as a whole is summed by
    itself."""

    name = "undetermined-padding"
    dialects = ("cuda", "cutile", "triton")
    matches = (
        Case(ATTENTION, "matrix product"),
        *(
            Case(
                vary(
                    ATTENTION_POINTER,
                    (f"v = tl.load(c{_COLUMNS}, other=0.0)", f"v = tl.load(c{_COLUMNS}{given})"),
                ),
                "matrix product",
            )
            for given in ("", ", other=None")
        ),
        Case(
            vary(
                LAYER_NORM_POINTER,
                (
                    "at, mask=inside, other=0.0).to(tl.float32)\n    mean",
                    "at, mask=inside).to(tl.float32)\n    mean",
                ),
            ),
            "sum",
        ),
        Case(_ASYNC, "sum"),
    )
    near_misses = (
        NearMiss(_WHOLE_ROWS, why="whole rows are left out, and each row is summed by itself"),
        NearMiss(
            vary(
                _WHOLE_ROWS,
                ("threadIdx.y * 32 + threadIdx.x", "threadIdx.x"),
                ("threadIdx.y", "threadIdx.x / 32"),
                ("n + threadIdx.x)", "n + threadIdx.x % 32)"),
                ("q[threadIdx.x]", "q[threadIdx.x % 32]"),
            ),
            why="whole warps are left out",
        ),
        NearMiss(ATTENTION_POINTER, why="every load says what lanes outside hold"),
        NearMiss(
            vary(
                ATTENTION,
                ("latency=4)", "latency=4, padding_mode=ct.PaddingMode.ZERO)"),
            ),
            why="keys outside are masked out of the scores, and values outside are zero",
        ),
        NearMiss(
            vary(LAYER_NORM_POINTER, ("b + at, mask=inside, other=0.0", "b + at, mask=inside")),
            why="lanes outside are never summed, and the store leaves them out",
        ),
    )
    seen = (Seen("tilegym", "tilegym/ops/cutile/attention.py", "_fmha_kernel", 148),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        for load, users in self._found(subject).items():
            name = f"`{load.array}`" if load.array else "a tile"
            what = (
                "a matrix product"
                if any(n in subject.facts.contractions for n in users)
                else ("a " + users[0].op.kind.replace("reduce_", ""))
            )
            yield self.finding(
                subject,
                f"lanes outside of {name} are read without a padding and added up by {what}: "
                "their contents are not determined, and 0 times a NaN is a NaN",
                "give the load a padding of zero, or select zero before the sum",
                [load, *users],
            )

    def summed(self, subject: Subject) -> frozenset[Access]:
        """Loads whose lanes outside are added up."""
        return frozenset(self._found(subject))

    def _found(self, subject: Subject) -> dict[Access, list[Node]]:
        found: dict[Access, list[Node]] = {}
        lanes = PaddedLanes(subject.facts)
        for node, loads in self._reached(subject, lanes):
            for load in sorted(loads, key=lambda one: one.node.index):
                if load.padding == "undetermined":
                    found.setdefault(load, []).append(node)
        return found

    def _reached(
        self, subject: Subject, lanes: PaddedLanes
    ) -> Iterator[tuple[Node, frozenset[Access]]]:
        for folded in reductions_with_outside(subject.facts, lanes):
            if folded.outside.lanes is Lanes.UNDEFINED:
                loads = folded.outside.loads
                if _shuffled(subject.facts, folded.node):
                    loads = frozenset(one for one in loads if _parts_rows(subject.facts, one))
                yield folded.node, loads
        for node, *operands in products_with_outside(subject.facts, lanes):
            for side in operands:
                if side.lanes is Lanes.UNDEFINED:
                    yield node, side.loads


def _shuffled(facts: Facts, node: Node) -> bool:
    """Whether a sum is one of threads through shuffles."""
    first, last = node.lines
    found = facts.threads.of(OpKind.SHUFFLE) if facts.of_threads else ()
    return any(node.op.span.path == one.op.span.path and first <= one.op.span.line <= last
               for one in found)  # fmt: skip


def _parts_rows(facts: Facts, load: Access) -> bool:
    """Whether the mask of a load tells apart lanes of one row, those of the last axis."""
    tests = comparisons(facts, load.mask) if load.mask is not None else []
    return any("-1" in along(side) for test in tests for side in sides(facts, test))
