"""A kernel is launched with large or computed blocks and does not tell the compiler how large."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.host.facts import BlockSize
from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.evidence import Finding, Severity
from kb.space import Launch

_COMPUTED = """
#include <algorithm>
__global__ void twice(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { out[i] = 2.0f * x[i]; }
}

void run(const float* x, float* out, int n) {
  int threads = std::min(1024, n);
  twice<<<(n + threads - 1) / threads, threads>>>(x, out, n);
}
"""
LARGE = 512
"""Threads of a block for which 128 registers each are all that there are (64 K per block)."""

_AXES = ("block_x", "block_y", "block_z")


class NoLaunchBounds(Rule):
    """Without launch bounds the compiler gives a thread as many registers as it likes, up to 255;
    a block of 1024 threads has 64 for each, and the launch fails when the kernel takes more."""

    name = "no-launch-bounds"
    dialects = ("cuda",)
    matches = (
        Case(_COMPUTED, "computes"),
        Case(vary(_COMPUTED, ("std::min(1024, n)", "1024")), "1024 threads"),
        Case(
            vary(
                _COMPUTED,
                ("void run", "constexpr int kWarps = 32;\nvoid run"),
                ("std::min(1024, n)", "kWarps * 32"),
            ),
            "1024 threads",
        ),
        Case(vary(_COMPUTED, ("std::min(1024, n)", "n > 64 ? 1024 : n")), "computes"),
    )
    near_misses = (
        NearMiss(
            vary(_COMPUTED, ("__global__ void", "__global__ void __launch_bounds__(1024)")),
            why="the kernel says how large its blocks are",
        ),
        NearMiss(
            vary(_COMPUTED, ("std::min(1024, n)", "128")), why="every register fits a small block"
        ),
        NearMiss(
            vary(_COMPUTED, ("std::min(1024, n)", "std::min(128, n)")),
            why="the host computes the size, and it is never more than a small block",
        ),
        NearMiss(
            vary(
                _COMPUTED,
                ("void run", "constexpr int kWarps = 4;\nvoid run"),
                ("std::min(1024, n)", "kWarps * 32"),
            ),
            why="a constant of the file is the size, and it is small",
        ),
        NearMiss(
            vary(_COMPUTED, ("std::min(1024, n)", "n > 64 ? 256 : 128")),
            why="both sizes are small",
        ),
        NearMiss(
            vary(
                _COMPUTED,
                (
                    "int threads = std::min(1024, n);",
                    "const int wide = n / 4;\n  const int high = 128 / wide;",
                ),
                ("(n + threads - 1) / threads, threads", "n, dim3(wide, high)"),
            ),
            why="128 threads are shared out over two extents",
        ),
        NearMiss(
            vary(
                _COMPUTED,
                ("void run", "template <typename Traits>\nvoid run"),
                ("std::min(1024, n)", "Traits::kThreads"),
            ),
            why="the size is a constant of a type that is not known here: nothing is computed",
        ),
    )
    seen = (
        Seen(
            "flashinfer-python",
            "flashinfer/data/include/flashinfer/norm.cuh",
            "RMSNormKernel",
            63,
        ),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        entry = subject.facts.kernel.entry
        options = dict(entry.options)
        if {"max_threads", "max_registers", "block_size"} & options.keys():
            return
        sizes = subject.host.block_sizes
        for launch, size in zip(subject.host.launches, sizes, strict=False):
            told = _large(launch, size)
            if told:
                head = entry.span.line
                yield self.finding(
                    subject,
                    f"{told}, and the kernel has no `__launch_bounds__`: the registers of a "
                    "thread have no limit, and a block that asks for more than there are is not "
                    "launched",
                    "say the largest number of threads with `__launch_bounds__`",
                    [(head, head), launch.lines],
                    Severity.NOTE,
                )
                return


def _large(launch: Launch, size: BlockSize) -> str:
    """What to say of the size of a block; empty where it is small or not known at all."""
    extents = [str(one) for one in map(dict(launch.hints).get, _AXES) if one not in (None, 1)]
    if "?" in extents or not extents:
        return ""
    if size.most is not None and size.most <= LARGE:
        return ""
    if size.computed:
        return f"the host computes the size of a block ({' * '.join(extents)})"
    return f"blocks have {size.most} threads" if size.most is not None else ""
