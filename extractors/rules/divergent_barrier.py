# ruff: noqa: E501
"""Threads of one block or warp that part ways before they wait for each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, LOOPS, Graph, Node
from kb.evidence import Finding
from kb.ir import walk
from kb.ops import COMPARISONS, OpKind

_ARITHMETIC = CASTS | COPIES | COMPARISONS | {
    OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.FLOOR_DIV, OpKind.MOD, OpKind.NEG, OpKind.MINIMUM,
    OpKind.MAXIMUM, OpKind.SHIFT_LEFT, OpKind.SHIFT_RIGHT, OpKind.BIT_AND, OpKind.BIT_OR,
    OpKind.BIT_XOR, OpKind.AND, OpKind.OR, OpKind.NOT, OpKind.CEIL_DIV, OpKind.RANGE,
}  # fmt: skip
"""What keeps threads apart; what is loaded or exchanged may be the same for all of them."""

_SHARES = {OpKind.FLOOR_DIV, OpKind.SHIFT_RIGHT}
"""What makes the number of its warp of the index of a thread."""

ALL_LANES = (0xFFFFFFFF, -1)
"""The mask of a whole warp, and as a number with a sign (CUDA C++ Programming Guide, warp shuffle
functions)."""

HALF_A_WARP = 16
"""A shuffle over fewer lanes stays within a group that a warp holds several of."""

_ROWS = """
__global__ void sums(const float* x, float* out, int rows, int n) {
  __shared__ float s[256];
  for (int row = blockIdx.x * blockDim.y + threadIdx.y; row < rows; row += gridDim.x * blockDim.y) {
    s[threadIdx.y * blockDim.x + threadIdx.x] = x[row * n + threadIdx.x];
    __syncthreads();
    out[row * n + threadIdx.x] = s[threadIdx.y * blockDim.x];
  }
}
"""
_BRANCH = """
__global__ void sums(const float* x, float* out, int n) {
  __shared__ float s[256];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    s[threadIdx.x] = x[i];
    __syncthreads();
    out[i] = s[0];
  }
}
"""


_SHUFFLE = """
__global__ void sums(const float* x, float* out, int n) {
  if (threadIdx.x >= n) return;
  float v = x[blockIdx.x * n + threadIdx.x];
  for (int o = 16; o > 0; o /= 2) { v += __shfl_xor_sync(0xffffffff, v, o); }
  out[blockIdx.x] = v;
}
"""


_ROUNDS = """
__global__ void sums(const float* x, float* out, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    float v = x[blockIdx.x * n + i];
    v += __shfl_xor_sync(0xffffffff, v, 16);
    out[blockIdx.x * n + i] = v;
  }
}
"""
_SIDE = """
__global__ void sums(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float v = x[i];
    v += __shfl_xor_sync(0xffffffff, v, 16);
    out[i] = v;
  }
}
"""


_BROKEN = """
__global__ void sums(const float* x, float* out, int n) {
  for (int base = 0; base < n; base += 256) {
    int i = base + threadIdx.x;
    if (i >= n) break;
    float v = x[blockIdx.x * n + i];
    v += __shfl_xor_sync(0xffffffff, v, 16);
    out[blockIdx.x * n + i] = v;
  }
}
"""


class DivergentBarrier(Rule):
    """A barrier of the block stands in a branch or a loop whose condition asks for the index of the
    thread: where the condition divides the threads of a block, some of them never come. Or a
    shuffle names all lanes of the warp, and some have returned by their index, or left the loop or
    the branch that it stands in."""

    name = "divergent-barrier"
    dialects = ("cuda",)
    matches = (Case(_ROWS, "loop"), Case(_BRANCH, "branch"), Case(_SHUFFLE, "shuffle"),
               Case(_ROUNDS, "loop that lanes leave"),
               Case(vary(_ROUNDS, ("__global__", "template <int T> __global__"), ("i += blockDim.x", "i += T")),
                    "loop that lanes leave"), Case(_SIDE, "branch that lanes leave"), Case(_BROKEN, "shuffle"),
               Case(vary(_SIDE, ("0xffffffff", "uint32_t(-1)")), "branch that lanes leave"))  # fmt: skip
    near_misses = (
        NearMiss(
            vary(_ROWS, ("blockIdx.x * blockDim.y + threadIdx.y", "blockIdx.x"),
                 ("gridDim.x * blockDim.y", "gridDim.x")),
            why="the threads of a block make the same rounds",
        ),
        NearMiss(
            vary(_ROWS, ("row < rows;", "row < (rows + blockDim.y - 1) / blockDim.y * blockDim.y;"),
                 ("row += gridDim.x * blockDim.y", "row += blockDim.y")),
            why="the end is rounded up to whole steps",
        ),
        NearMiss(vary(_ROWS, ("__syncthreads", "__syncwarp")), why="the warp waits, not the block"),
        NearMiss(vary(_SIDE, ("v, 16)", "v, 1)")), why="pairs of lanes may leave together"),
        NearMiss(
            vary(_BRANCH, ("    __syncthreads();\n    out[i] = s[0];\n  }",
                           "  }\n  __syncthreads();\n  if (i < n) { out[i] = s[0]; }")),
            why="every thread of the block comes to the barrier",
        ),
        NearMiss(
            vary(_BRANCH, ("    out[i] = s[0];\n  }",
                           "    out[i] = s[0];\n  } else {\n    __syncthreads();\n  }")),
            why="the threads of the other side wait, too",
        ),
        NearMiss(
            vary(_BRANCH, ("if (i < n)", "if (__syncthreads_or(i < n))")),
            why="the threads of the block have agreed on the condition",
        ),
        NearMiss(
            vary(_SHUFFLE, ("if (threadIdx.x >= n)", "if (threadIdx.x / 32 >= n)")),
            why="whole warps return",
        ),
        NearMiss(
            vary(_SHUFFLE, ("if (threadIdx.x >= n)", "if (blockIdx.x >= n)")),
            why="whole blocks return",
        ),
        NearMiss(
            vary(_ROUNDS, ("int i = threadIdx.x;", "int i = threadIdx.x / 32;"),
                 ("i += blockDim.x", "i += blockDim.x / 32")),
            why="a warp takes a round as a whole",
        ),
        NearMiss(
            vary(_ROUNDS, ("    v += __shfl_xor_sync(0xffffffff, v, 16);\n    out[blockIdx.x * n + i] = v;\n  }",
                 "    out[blockIdx.x * n + i] = v;\n  }\n  float w = __shfl_xor_sync(0xffffffff, x[threadIdx.x], 1);\n  if (threadIdx.x == 0) out[n] = w;")),
            why="the lanes have come together behind the loop",
        ),
        NearMiss(
            vary(_BROKEN, ("    v += __shfl_xor_sync(0xffffffff, v, 16);\n", ""),
                 ("= v;\n  }", "= v;\n  }\n  float w = __shfl_xor_sync(0xffffffff, x[threadIdx.x], 1);\n  if (threadIdx.x == 0) out[n] = w;")),
            why="the lanes have come together behind the loop that some broke out of",
        ),
        NearMiss(vary(_SIDE, ("if (i < n)", "if (blockIdx.x < n)")), why="whole blocks take a side"),
        NearMiss(vary(_SIDE, ("if (i < n)", "if (threadIdx.x < 32)")), why="a whole warp takes a side"),
        NearMiss(
            vary(_SHUFFLE, ("0xffffffff", "__activemask()")),
            why="the shuffle names the lanes that are left",
        ),
    )  # fmt: skip
    seen = (
        Seen(
            "flashinfer-python",
            "flashinfer/data/include/flashinfer/comm/trtllm_allreduce.cuh",
            "rms_pre_post_norm_kernel",
            359,
        ),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        if not subject.facts.of_threads:
            return
        yield from _left(self, subject)
        yield from _without_some(self, subject)
        graph = subject.facts.threads
        told: set[Node] = set()
        for barrier in graph.of(OpKind.BARRIER):
            if barrier.op.attribute("scope") != "block":
                continue
            for around, condition in _conditions(subject.facts, barrier):
                if around in told or _on_both_sides(around) or not _apart(graph, condition):
                    continue
                told.add(around)
                what = "loop" if around.op.kind in LOOPS else "branch"
                yield self.finding(
                    subject,
                    f"the threads of a block wait for each other inside a {what} whose condition "
                    "asks for the index of the thread: where it is not the same for all of them, "
                    "some never come to the barrier",
                    "let every thread come to the barrier, and put the condition around the work",
                    [around.head, *([barrier] if _at_home(subject, barrier) else [])],
                )


def _left(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """Returns, and breaks out of a loop, by the index of the lane before a shuffle with all lanes
    in its mask."""
    facts, graph = subject.facts, subject.facts.threads
    shuffles = _of_all_lanes(facts)
    for leave in graph.of(OpKind.RETURN, OpKind.BREAK) if shuffles else ():
        branch = leave.parent
        condition = branch.op.operand("condition") if branch is not None else None
        around = leave.loop if leave.op.kind == OpKind.BREAK else None
        after = [
            s
            for s in shuffles
            if s.index > leave.index and branch is not None and not s.inside(branch)
            if around is None or s.inside(around)
        ]
        if branch is None or condition is None or not after:
            continue
        if _apart(graph, condition, of_warp=True) and _passed(facts, condition):
            yield rule.finding(
                subject,
                "lanes leave by their index before a shuffle that names all lanes of the warp: "
                "what is read from a lane that has left is not defined",
                "let every lane come to the shuffle with a neutral value, or name those that are "
                "left",
                [branch.head, *[s for s in after[:1] if _at_home(subject, s)]],
            )
            return


def _of_all_lanes(facts: Facts) -> list[Node]:
    """Shuffles that name all lanes of the warp; none where all of them stay within few lanes, which
    may leave together."""
    found, far = [], False
    for node in facts.threads.of(OpKind.SHUFFLE):
        mask = node.op.operand("mask")
        if mask is not None and facts.thread_values.expr(mask).constant in ALL_LANES:
            found.append(node)
            step = facts.thread_values.literal(node.op.operand("lane") or "")
            far = far or not isinstance(step, int) or step >= HALF_A_WARP
    return found if far else []


def _without_some(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """Shuffles with all lanes in their mask inside of a loop or a branch that lanes leave by their
    index."""
    facts = subject.facts
    told: dict[Node, Node] = {}
    for shuffle in _of_all_lanes(facts):
        for around, condition in _conditions(facts, shuffle):
            if _apart(facts.threads, condition, of_warp=True) and (
                around.op.kind in LOOPS or _passed(facts, condition)
            ):
                told.setdefault(around, shuffle)
    if told:
        what = "loop" if next(iter(told)).op.kind in LOOPS else "branch"
        yield rule.finding(
            subject,
            f"a shuffle that names all lanes of the warp stands inside a {what} that lanes leave by "
            "their index: where a size is no multiple of the warp, what is read from a lane that "
            "has left is not defined",
            "let every lane come to the shuffle with a neutral value, or name those that are left",
            [*(a.head for a in told), *(s for s in told.values() if _at_home(subject, s))],
        )


def _on_both_sides(around: Node) -> bool:
    """Whether the threads of both sides of a branch wait: those of one side for those of the
    other."""
    regions = around.op.regions if around.op.kind == OpKind.IF else ()
    return len(regions) > 1 and all(
        any(op.kind == OpKind.BARRIER and op.attribute("scope") == "block" for op in walk(region))
        for region in regions
    )


def _at_home(subject: Subject, node: Node) -> bool:
    return node.op.span.path == subject.facts.kernel.entry.span.path


def _conditions(facts: Facts, node: Node) -> Iterator[tuple[Node, str]]:
    """The branches and loops around a node, with what decides whether it is reached."""
    around = node.parent
    while around is not None:
        if around.op.kind == OpKind.IF:
            condition = around.op.operand("condition")
            if condition is not None:
                yield around, condition
        elif around.op.kind == OpKind.FOR:
            low = _shared_out(facts, around)
            if low is not None:
                yield around, low
        around = around.parent


def _shared_out(facts: Facts, loop: Node) -> str | None:
    """Where a loop begins that goes on by threads or rows of the block up to a size that is passed,
    and that nothing rounds up to whole steps."""
    graph, values = facts.threads, facts.thread_values
    made = graph.producer(loop.op.operand("iterable"))
    low, high, step = (made.op.operand(role) if made else None for role in ("low", "high", "step"))
    if low is None or high is None or step is None:
        return None
    counted = bool(graph.roots(step, OpKind.BLOCK_THREADS))
    fixed = values.compile_time(values.expr(step))
    if not (counted or fixed) or not _passed(facts, high):
        return None
    whole = graph.producer(high)
    if whole is not None and whole.op.kind == OpKind.MUL:
        steps = {str(values.expr(value)) for value in whole.op.inputs[:2]}
        if str(values.expr(step)) in steps:
            return None
    return low


def _passed(facts: Facts, value: str) -> bool:
    """Whether a value rests on a number that is passed at run time."""
    passed = {p.name for p in facts.kernel.entry.parameters if p.name not in facts.constexprs}
    graph = facts.threads
    above = (result.name for node in graph.upstream(value) for result in node.op.results)
    feeds = {feed for made in (value, *above) for feed in graph.feeds(made)}
    return bool(passed & (feeds | {value}))


def _apart(graph: Graph, value: str, of_warp: bool = False) -> bool:
    """Whether a value is computed from the index of the thread by arithmetic alone; with `of_warp`
    from that on the x axis, and not as a number of warps."""
    stop = _ARITHMETIC - _SHARES if of_warp else _ARITHMETIC
    return any(
        node.op.kind == OpKind.LANE_ID
        or (node.op.kind == OpKind.WARP_ID and not of_warp)
        or (node.op.kind == OpKind.THREAD_ID and (not of_warp or _of_x(graph, node)))
        for node in graph.upstream(value, lambda n: n.op.kind not in stop)
    )


def _of_x(graph: Graph, node: Node) -> bool:
    axis = graph.producer(node.op.operand("axis"))
    return axis is not None and axis.op.attribute("value") == 0
