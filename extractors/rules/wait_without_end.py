# ruff: noqa: E501
"""Threads wait in a loop for what another block, or another device, writes."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Subject
from kb.analysis.spinning import waits
from kb.evidence import Finding, Severity

_FLAG = """
__global__ void after(volatile int* flag, const float* x, float* out, int n) {
  if (threadIdx.x == 0) {
    while (flag[blockIdx.x] != n) { }
  }
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
}
"""
_ACQUIRED = vary(
    _FLAG,
    ("volatile int* flag", "int* flag"),
    ("    while (flag[blockIdx.x] != n) { }\n",
     '    int seen;\n    do { asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag + blockIdx.x)); } while (seen != n);\n'),
)  # fmt: skip
_ATOMIC = vary(
    _FLAG,
    ("volatile int* flag", "int* flag"),
    ("while (flag[blockIdx.x] != n) { }", "while (atomicAdd(flag, 0) < n) { }"),
)


class WaitWithoutEnd(Rule):
    """A loop reads a word of memory until another block or device has written it, and nothing else
    ends it: where that block is not resident, or that device launches nothing, it never ends.
    Blocks that count themselves in that word wait for their own grid, which hosts mostly keep to
    what is resident: that is a constraint, not a finding."""

    name = "wait-without-end"
    dialects = ("cuda",)
    matches = (Case(_FLAG, "`flag`"), Case(_ACQUIRED, "`flag`"), Case(_ATOMIC, "`flag`"))
    near_misses = (
        NearMiss(
            vary(_FLAG, ("while (flag[blockIdx.x] != n) { }", "for (int k = 0; k < 1000 && flag[blockIdx.x] != n; ++k) { }")),
            why="it gives up after some rounds",
        ),
        NearMiss(
            vary(_FLAG, ("volatile int* flag", "int* flag"),
                 ("while (flag[blockIdx.x] != n) { }", "atomicAdd(flag, 1);\n    while (((volatile int*)flag)[0] < n) { }")),
            why="blocks count themselves in the word: they wait for their own grid",
        ),
        NearMiss(
            vary(_FLAG, ("!= n) { }", "!= n) { if (clock64() > 1000000) __trap(); }")),
            why="it gives up after some time",
        ),
        NearMiss(
            vary(_FLAG, ("while (flag[blockIdx.x] != n) { }", "long long from = clock64();\n    do { } while (flag[blockIdx.x] != n && clock64() - from < 1000000);")),
            why="its condition looks at the clock, too",
        ),
        NearMiss(
            vary(_FLAG, ("volatile int* flag", "const int* flag"), ("while (flag[blockIdx.x] != n) { }", "int k = 0;\n    while (flag[k] != n) { k += 1; }")),
            why="it goes through the array",
        ),
        NearMiss(
            vary(_FLAG, ("__syncthreads", "__shared__ volatile int held[32];\n  held[threadIdx.x] = n;\n  __syncthreads"),
                 ("    while (flag[blockIdx.x] != n) { }\n", "")),
            why="nothing waits",
        ),
        NearMiss(
            vary(_ATOMIC, ("while (atomicAdd(flag, 0) < n) { }", "int old = flag[0], seen;\n    do { seen = old; old = atomicCAS(flag, seen, seen + 1); } while (old != seen);")),
            why="it tries again what another block came before in",
        ),
    )  # fmt: skip

    def find(self, subject: Subject) -> Iterable[Finding]:
        facts = subject.facts
        found = [one for one in waits(facts) if not one.own]
        if not found:
            return
        home = facts.kernel.entry.span.path
        names = ", ".join(dict.fromkeys(f"`{one.array}`" for one in found if one.array)) or "memory"
        yield self.finding(
            subject,
            f"threads wait in a loop for what others write to {names}, without a bound or a "
            "time-out: where a block is not resident or a device launches nothing, the loop spins "
            "forever",
            "launch no more blocks than are resident at once, and give up after a number of rounds",
            [one.loop for one in found if one.loop.op.span.path == home],
            Severity.NOTE,
        )
