"""A thin entry whose body is a helper that other kernels may call too."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, PRODUCT_PERSISTENT, PRODUCT_POINTER, vary
from extractors.patterns.cases_pointer import PRODUCT_DESCRIPTOR
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.evidence import Decision
from kb.ir import walk
from kb.ops import ATOMICS, READS, WRITES, OpKind

_MEMORY = READS | WRITES | ATOMICS
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


class SharedBody(Pattern):
    """The entry touches no memory itself; one call makes every access."""

    name = "kernel-body-shared-through-a-device-helper"
    axis = "code_structure"
    source = "cuTile documentation, device functions: a kernel may call plain functions"
    matches = (
        Case(_OUTLINED, "_impl helper + thin entry"),
        Case(_OUTLINED_POINTER, "_impl helper + thin entry"),
    )
    near_misses = (
        NearMiss(PRODUCT, why="the entry itself loads and stores"),
        NearMiss(PRODUCT_PERSISTENT, why="there is no helper"),
        NearMiss(PRODUCT_POINTER, why="the entry itself loads and stores"),
        NearMiss(PRODUCT_THREADS, why="the entry itself loads and stores"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        entry = facts.kernel.entry
        own = list(walk(entry.body))
        calls = [op for op in own if op.kind == OpKind.CALL]
        if any(op.kind in _MEMORY for op in own) or not calls:
            return
        for call in calls:
            helper = facts.kernel.helper(str(call.attribute("callee")))
            if helper is not None and any(op.kind in _MEMORY for op in walk(helper.body)):
                lines = [call.span.lines]
                if helper.span.path == entry.span.path:
                    lines.append((helper.span.line, helper.span.line))
                yield self.decide(facts, "_impl helper + thin entry", lines)
                return
