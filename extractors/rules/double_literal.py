"""Floats meet a number of 64 bits in the arithmetic of a kernel."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, Node
from kb.evidence import Finding, Severity
from kb.ir import ParameterKind
from kb.ops import OpKind

_ARITHMETIC = (
    OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV, OpKind.MAXIMUM, OpKind.MINIMUM,
)  # fmt: skip

_ROWS = """
__global__ void scaled(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { out[i] = x[i] / (x[n + i] + 1e-6); }
}
"""


class DoubleLiteral(Rule):
    """A literal without a suffix, or a scalar that is passed as a double, is added to a float or
    multiplied with one: the float is widened and the operation is one of 64 bits. A literal that is
    a float itself, and whose result is a float again at once, is left to the compiler."""

    name = "double-literal"
    dialects = ("cuda",)
    matches = (
        Case(_ROWS, "`1e-06`"),
        Case(vary(_ROWS, ("x[i] / (x[n + i] + 1e-6)", "1.0 / x[i] * x[n + i]")), "`1.0`"),
        Case(
            vary(_ROWS, ("int n)", "int n, double by)"), ("x[i] / (x[n + i] + 1e-6)", "x[i] * by")),
            "`by`",
        ),
        Case(vary(_ROWS, ("x[i] / (x[n + i] + 1e-6)", "fmaxf(x[n + i] * 0.1, x[i])")), "`0.1`"),
    )
    near_misses = (
        NearMiss(vary(_ROWS, ("1e-6", "1e-6f")), why="the literal is a float"),
        NearMiss(
            vary(_ROWS, ("x[i] / (x[n + i] + 1e-6)", "x[i] * 0.5")),
            why="the same in 32 bits: compilers narrow it",
        ),
        NearMiss(
            vary(_ROWS, ("const float* x, float* out", "const double* x, double* out")),
            why="the numbers are doubles",
        ),
        NearMiss(
            vary(_ROWS, ("1e-6", "static_cast<float>(1e-6)")), why="narrowed before it is added"
        ),
        NearMiss(
            vary(_ROWS, ("out[i] = x[i] / (x[n + i] + 1e-6);",
                         "double sum = 0.0; sum += x[i]; out[i] = sum;")),
            why="a sum that is declared to be one of 64 bits",
        ),
    )  # fmt: skip
    seen = (
        Seen(
            "flashinfer-python",
            "flashinfer/data/csrc/fused_moe/noAuxTcKernels.cu",
            "deepseek_v3_topk_kernel",
            218,
        ),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        facts = subject.facts
        home = facts.kernel.entry.span.path
        found: dict[str, list[Node]] = {}
        for node in facts.threads.of(*_ARITHMETIC) if facts.of_threads else ():
            name = _double(facts, node)
            if name and node.op.span.path == home:
                found.setdefault(name, []).append(node)
        if found:
            told = ", ".join(f"`{name}`" for name in found)
            yield self.finding(
                subject,
                f"{told} {'are doubles' if len(found) > 1 else 'is a double'}: the floats that "
                "meet it are widened, and the operation is one of 64 bits",
                "write it as a float, with the suffix f, or pass a float",
                [node for nodes in found.values() for node in nodes],
                Severity.NOTE,
            )


def _double(facts: Facts, node: Node) -> str:
    """The literal or the scalar of 64 bits that a float meets in an operation; empty where there
    is none, or where 32 bits give the same."""
    types = [facts.types.dtype(value) for value in node.op.inputs[:2]]
    if sorted(types) != ["f32", "f64"]:
        return ""
    wide = facts.threads.core(node.op.inputs[types.index("f64")]) or ""
    made = facts.threads.producer(wide)
    number = (
        made.op.attribute("value") if made is not None and made.op.kind == OpKind.CONST else None
    )
    if made is None:
        scalars = {p.name for p in facts.kernel.entry.parameters if p.kind is ParameterKind.SCALAR}
        return wide if wide in scalars else ""
    if not isinstance(number, float) or not number:
        return ""
    if _exact(number) and all(_narrows(facts, user) for user in facts.threads.users(node.result)):
        return ""
    return str(number)


def _exact(number: float) -> bool:
    """Whether a number is the same in 32 bits."""
    try:
        return bool(struct.unpack("f", struct.pack("f", number))[0] == number)
    except OverflowError:
        return False


def _narrows(facts: Facts, user: Node) -> bool:
    """Whether an operation takes a float of what it is given, or stores it as one."""
    if user.op.kind in CASTS:
        return facts.types.dtype(user.result) != "f64"
    return facts.types.dtype(user.result) != "f64" if user.op.results else True
