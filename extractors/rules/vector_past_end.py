"""A size that nobody checks must be a multiple of the vectors that it is read in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.alignment import WholeVectors, vector_ends, whole_vectors
from kb.analysis.record_fields import struct_of
from kb.evidence import Finding

_ENDS = """
__global__ void twice(const float* x, float* out, int n) {
  int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
  if (i < n) {
    float4 v = *reinterpret_cast<const float4*>(x + i);
    v.x = v.x * 2.0f;
    *reinterpret_cast<float4*>(out + i) = v;
  }
}

void run(const float* x, float* out, int n) {
  twice<<<(n + 1023) / 1024, 256>>>(x, out, n);
}
"""
_COMPILED = vary(
    _ENDS,
    ("__global__", "template <int N> __global__"),
    (", int n) {\n  int", ") {\n  int"),
    ("i < n", "i < N"),
    ("twice<<<", "twice<1022><<<"),
    ("(x, out, n);", "(x, out);"),
)
_ROWS = """
__global__ void rows(const float* x, float4* out, int n) {
  out[threadIdx.x] = reinterpret_cast<const float4*>(x + blockIdx.x * n)[threadIdx.x];
}

void run(const float* x, float4* out, int m, int n) {
  rows<<<m, 32>>>(x, out, n);
}
"""
_FIELD = vary(
    _ROWS,
    ("\n__global__", "\nstruct Layout { int n; };\n__global__"),
    ("float4* out, int n)", "float4* out, const Layout l)"),
    ("blockIdx.x * n)", "blockIdx.x * l.n)"),
    ("int m, int n)", "int m, Layout l)"),
    ("(x, out, n);", "(x, out, l);"),
)


class VectorPastEnd(Rule):
    """Elements are read or written several at once, only the place of the first is compared with
    the size, or rows of that size begin anywhere, and neither the kernel nor its host asks for the
    remainder of the size. Nothing is said of a kernel whose launch was not read, nor of fields of a
    struct, which are checked where it is made."""

    name = "vector-past-end"
    dialects = ("cuda",)
    matches = (Case(_ENDS, "`n`"), Case(_ROWS, "`n`"), Case(_COMPILED, "`N`"))
    near_misses = (
        NearMiss(_ROWS.partition("void run")[0], why="its launch was not read"),
        NearMiss(_FIELD, why="a field: what makes the struct may check it"),
        NearMiss(
            vary(
                _ROWS,
                (
                    "const float* x, float4* out, int n) {\n  out",
                    "const unsigned char* x, float4* out, int n) {\n  out",
                ),
            ),
            why="bytes are counted, of sizes that the host makes",
        ),
        NearMiss(
            vary(_ENDS, ("  twice<<<", "  if (n % 4 != 0) throw 1;\n  twice<<<")),
            why="the host checks the size",
        ),
        NearMiss(vary(_ENDS, ("if (i < n)", "if (i + 3 < n)")), why="the last element is compared"),
        NearMiss(
            vary(_ROWS, ("  out[thr", "  assert(n % 4 == 0);\n  out[thr")),
            why="the kernel asserts it",
        ),
        NearMiss(
            vary(_COMPILED, ("twice<1022>", "twice<1024>")),
            why="every size that it is compiled for is a multiple",
        ),
        NearMiss(
            vary(_ENDS, ("  if (i < n) {", "  if (i < n && n % 4 == 0) {")),
            why="the kernel asks for the remainder",
        ),
    )
    seen = (
        Seen(
            "torchao",
            "torchao/csrc/cuda/mx_kernels/fused_pad_token_groups.cu",
            "fused_unpad_token_groups_kernel",
            122,
        ),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        if not subject.host.launches:
            return  # the code that launches it was not read: it may check
        asked = [c.expression for c in subject.host.constraints if c.checked_by_host]
        told: set[str] = set()
        for found, what in _relied_on(subject):
            name = re.compile(rf"\b{re.escape(found.size)}\b[^=<>]*%")
            field = struct_of(subject.facts.kernel.entry, found.size)
            if field or found.size in told or any(map(name.search, asked)):
                continue
            if _known(subject, found.size):
                continue
            if found.size in subject.facts.constexprs and not _compiled(subject, found):
                continue
            told.add(found.size)
            yield self.finding(
                subject,
                f"{found.elements} elements are read or written at once, so that `{found.size}` "
                f"must be a multiple of {found.elements}: {what}; no code that was read checks it",
                f"check `{found.size}` % {found.elements} == 0 on the host, or take the rest one "
                "by one",
                [found.lines],
            )


def _relied_on(subject: Subject) -> Iterator[tuple[WholeVectors, str]]:
    for found in vector_ends(subject.facts):
        yield found, "the last vector is read or written past the end"
    for found in whole_vectors(subject.facts):
        yield found, "rows of another size begin at addresses that a vector may not have"


def _compiled(subject: Subject, found: WholeVectors) -> bool:
    """Whether a launch has the kernel compiled for a size that is no multiple."""
    given = (b for one in subject.host.launches for b in one.bindings if b.parameter == found.size)
    numbers = [int(b.expression) for b in given if b.expression.isdigit()]
    return isinstance(found.elements, int) and any(one % found.elements for one in numbers)


def _known(subject: Subject, size: str) -> bool:
    """Whether the kernel takes the remainder of a size, or the last bits of it."""
    graph = subject.facts.threads
    return any(
        size in (node.op.inputs[0], *graph.feeds(node.op.inputs[0]))
        for node in graph.nodes
        if node.op.kind in ("mod", "and") and node.op.inputs
    )
