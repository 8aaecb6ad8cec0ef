"""A thin entry whose body is a helper that other kernels may call too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, PRODUCT_PERSISTENT, PRODUCT_POINTER, vary
from extractors.patterns.cases_pointer import FLASH_STAGED, PRODUCT_DESCRIPTOR
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import LOOPS, Lines
from kb.evidence import Decision
from kb.ir import Function, Op, walk
from kb.ops import ATOMICS, CONTRACTIONS, READS, TERMINATORS, WRITES, OpKind

MAX_CALLS = 4
"""Calls below a call that are followed."""

_STEPS = 2
"""Lines of a function read in place before it is a part of its own."""

_PART = 6
"""Lines of a function of another file that is read in place, before it is a part of the kernel and
no shorthand."""

_MEMORY = READS | WRITES | ATOMICS
_GIVEN = TERMINATORS | {
    OpKind.BLOCK_ID, OpKind.NUM_BLOCKS, OpKind.CAST, OpKind.CONST, OpKind.COPY, OpKind.DTYPE,
}  # fmt: skip
_OUTLINED = vary(
    PRODUCT,
    ("@ct.kernel\ndef product(", "def body("), ("TK: Int):", "TK: Int, m, n):"),
    ("    m = ct.bid(0)\n    n = ct.bid(1)\n", ""),
) + '''
@ct.kernel
def product(a, b, out, TM: Int, TN: Int, TK: Int):
    body(a, b, out, TM, TN, TK, ct.bid(0), ct.bid(1))
'''  # fmt: skip


_OUTLINED_POINTER = vary(
    PRODUCT_DESCRIPTOR,
    ("def product(", "def body("), ("TK: tl.constexpr):", "TK: tl.constexpr, m, n):"),
    ("    m = tl.program_id(0)\n    n = tl.program_id(1)\n", ""),
) + """
@triton.jit
def product(a, b, out, M, N, K, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr):
    body(a, b, out, M, N, K, TM, TN, TK, tl.program_id(0), tl.program_id(1))
"""  # fmt: skip


_OUTLINED_THREADS = (
    PRODUCT_THREADS.replace("__global__", "__device__").replace("product(", "body(")
    + """template <int T>
__global__ void product(const float* a, const float* b, float* out, int M, int N, int K) {
    body<T>(a, b, out, M, N, K);
}
"""
)
_GIVEN_THREADS = """__device__ void twice(const float* x, float* out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = 2.f * x[i];
}
template <void (*body)(const float*, float*, int)>
__global__ void rows(const float* x, float* out, int n) {
    body(x + blockIdx.x * n, out + blockIdx.x * n, n);
}
void launch(const float* x, float* out, int m, int n) { rows<twice><<<m, 256>>>(x, out, n); }
"""

_ACTIVATED = vary(PRODUCT, ("ct.astype(acc,", "ct.astype(leak(acc),")).replace(
    "@ct.kernel", "def leak(v):\n    return ct.where(v > 0.0, v, v * 0.1)\n\n@ct.kernel"
)
_ACTIVATED_POINTER = vary(PRODUCT_POINTER, ("acc.to(", "leak(acc).to(")).replace(
    "@triton.jit\n",
    "@triton.jit\ndef leak(v):\n    return tl.where(v > 0.0, v, v * 0.1)\n\n@triton.jit\n",
)

_LEAKED = """__device__ float leak(float v) {
    float less = v * 0.1f;
    return v > 0.f ? v : less;
}
__global__ void scale(const float* x, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = leak(x[at]);
}
"""
_NUMBERED = vary(PRODUCT_POINTER, ("m = tl.program_id(0) *", "m = place() *")).replace(
    "@triton.jit\n", "@triton.jit\ndef place():\n    return tl.program_id(0)\n\n@triton.jit\n"
)
_NUMBERED_TILE = vary(PRODUCT, ("m = ct.bid(0)", "m = place()")).replace(
    "@ct.kernel", "def place():\n    return ct.bid(0)\n\n@ct.kernel"
)


class SharedBody(Pattern):
    """The entry touches no memory itself, calls make every access; or a function that it calls
    walks the reduced axis, or takes single steps."""

    name = "kernel-body-shared-through-a-device-helper"
    axis = "code_structure"
    source = "cuTile documentation, device functions: a kernel may call plain functions"
    matches = (
        Case(_OUTLINED, "_impl helper + thin entry"),
        Case(_OUTLINED_POINTER, "_impl helper + thin entry"),
        Case(FLASH_STAGED, "loop in a helper"),
        Case(_OUTLINED_THREADS, "_impl helper + thin entry"),
        Case(_GIVEN_THREADS, "_impl helper + thin entry"),
        Case(_ACTIVATED, "steps in a helper"),
        Case(_ACTIVATED_POINTER, "steps in a helper"),
        Case(_LEAKED, "steps in a helper"),
    )
    near_misses = (
        NearMiss(PRODUCT, why="the entry itself loads and stores"),
        NearMiss(PRODUCT_PERSISTENT, why="there is no helper"),
        NearMiss(PRODUCT_POINTER, why="the entry itself loads and stores"),
        NearMiss(PRODUCT_THREADS, why="the entry itself loads and stores"),
        NearMiss(
            _LEAKED.replace(
                "    float less = v * 0.1f;\n    return v > 0.f ? v : less;", "    return v;"
            ),
            why="the helper does nothing",
        ),
        NearMiss(_NUMBERED, why="the helper gives the block id"),
        NearMiss(_NUMBERED_TILE, why="the helper gives the block id"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        entry = facts.kernel.entry
        own = list(walk(entry.body))
        thin = not any(op.kind in _MEMORY for op in own)
        lines: list[Lines] = []
        parts: list[Lines] = []
        for call in (op for op in own if op.kind == OpKind.CALL):
            helper = facts.kernel.helper(str(call.attribute("callee")))
            if helper is None or not _does_more(helper):
                continue
            body = (_reaches if thin else _streams)(facts, helper, MAX_CALLS)
            places = lines if body else parts
            places.append(call.span.lines)
            if helper.span.path == entry.span.path:
                places.append((helper.span.line, helper.span.line))
        if lines:
            value = "_impl helper + thin entry" if thin else "loop in a helper"
            yield self.decide(facts, value, dict.fromkeys(lines))
        elif parts:
            yield self.decide(facts, "steps in a helper", dict.fromkeys(parts))
        elif calls := _read_in_place(own):
            yield self.decide(facts, "_impl helper + thin entry", [(at, at) for at in calls])
        elif helped := _computed_in_place(facts, own):
            yield self.decide(facts, "steps in a helper", helped)


def _does_more(helper: Function) -> bool:
    """True for a function that does more than give a block id or a value in another type."""
    return any(op.kind not in _GIVEN for op in walk(helper.body))


def _read_in_place(own: Sequence[Op]) -> list[int]:
    """Lines of the calls, read in place, that hold every access and every loop of a kernel; empty
    when the kernel itself has one, or no call has a loop."""
    told = [op for op in own if op.kind in _MEMORY or op.kind in LOOPS]
    calls = sorted({op.span.call for op in told})
    looped = any(op.kind in LOOPS for op in told)
    stored = any(op.kind in WRITES or op.kind in ATOMICS for op in told)
    return calls if looped and stored and calls[0] > 0 and len(calls) <= MAX_CALLS else []


def _computed_in_place(facts: Facts, own: Sequence[Op]) -> list[Lines]:
    """Lines of calls, read in place, that compute something in several steps: with those steps, of
    functions in the file of the kernel; alone, of longer functions elsewhere."""
    home = facts.kernel.entry.span.path
    steps: dict[int, set[Lines]] = {}
    parts: dict[int, set[object]] = {}
    for op in own if facts.of_threads else ():
        span = op.span
        if span.path != home or op.kind in _GIVEN:
            continue
        if span.origin is not None and not span.call:
            parts.setdefault(span.line, set()).add((span.origin[0], span.origin[1][0]))
        elif span.call > 0:
            steps.setdefault(span.call, set()).add(span.lines)
    told = {at: held for at, held in steps.items() if len(held) >= _STEPS}
    far = {(at, at) for at, held in parts.items() if len(held) >= _PART}
    return sorted({(at, at) for at in told}.union(far, *told.values()))


def _reaches(facts: Facts, helper: Function, calls: int) -> bool:
    """A function that reads or writes memory, itself or in what it calls."""
    held = list(walk(helper.body))
    if any(op.kind in _MEMORY for op in held):
        return True
    names = [str(op.attribute("callee")) for op in held if op.kind == OpKind.CALL] if calls else []
    inner = [facts.kernel.helper(name) for name in dict.fromkeys(names)]
    return any(one is not None and _reaches(facts, one, calls - 1) for one in inner)


def _streams(facts: Facts, helper: Function, calls: int) -> bool:
    """A function with a loop that reads memory and multiplies matrices."""
    loops = [op for op in walk(helper.body) if op.kind in LOOPS]
    inside = [{op.kind for region in loop.regions for op in walk(region)} for loop in loops]
    return any(kinds & READS and kinds & CONTRACTIONS for kinds in inside)
