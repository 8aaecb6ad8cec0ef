"""In which precision the operands of a matrix product are multiplied."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_rows_threads import ADD_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, Node
from kb.evidence import Decision
from kb.ops import CONTRACTIONS, READS, OpKind

_NAMED = {"tf32": "tf32", "tf32x3": "3xTF32", "ieee": "ieee fp32 (no tensor core)", "bf16x3": "bf16x3",  # noqa: E501
          "bf16x6": "bf16x6"}  # fmt: skip
_ALLOWED = {True: "tf32", False: "ieee"}
_GIVEN = "given by the caller"


_CHOICES = (OpKind.IF, OpKind.IF_EXPRESSION)
"""What chooses a dtype by the dtype of an array."""


_INSTRUCTION = """__global__ void product(const unsigned* a, const unsigned* b, float* out) {
    float c0 = 0.f, c1 = 0.f, c2 = 0.f, c3 = 0.f;
    int t = threadIdx.x;
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
                 : "r"(a[t]), "r"(a[t + 32]), "r"(a[t + 64]), "r"(a[t + 96]), "r"(b[t]), "r"(b[t + 32]));
    out[t] = c0 + c1 + c2 + c3;
}
"""  # noqa: E501
_BY_PARAMETER = vary(
    PRODUCT_POINTER,
    ("tl.dot(x, y)", "tl.dot(x, y, input_precision=TURN)"),
    ("TK: tl.constexpr):", "TK: tl.constexpr, TURN: tl.constexpr):"),
)
_THREE = ("TURN: tl.constexpr)", 'TURN: tl.constexpr = "tf32x3")')


class Tf32Operands(Pattern):
    """A cast of loads to tf32, the precision option of the product, or a product that threads add
    up themselves in 32-bit floats."""

    name = "tf32-down-conversion-of-fp32-operands"
    axis = "mma_operand_precision"
    source = "NVIDIA, A100 GPU Architecture: TF32; Triton documentation, dot"
    matches = (
        Case(
            vary(PRODUCT, ("        acc = ct.mma(x, y, acc)",
                           "        kind = ct.tfloat32 if a.dtype == ct.float32 else a.dtype\n"
                           "        acc = ct.mma(x.astype(kind), y.astype(kind), acc)")),
            "tf32",
        ),
        Case(vary(PRODUCT_POINTER, ("tl.dot(x, y)", "tl.dot(x, y, allow_tf32=False)")), "ieee fp32 (no tensor core)"),  # noqa: E501
        Case(vary(PRODUCT_POINTER, ("tl.dot(x, y)", 'tl.dot(x, y, input_precision="tf32x3")')), "3xTF32"),  # noqa: E501
Case(_INSTRUCTION, "tf32"),
        Case(_BY_PARAMETER, "given by the caller"),
        Case(vary(_BY_PARAMETER, _THREE), "3xTF32"),
        Case(PRODUCT_THREADS, "ieee fp32 (no tensor core)"),
Case(vary(PRODUCT_POINTER, ("tl.dot(x, y)", 'tl.dot(x, y, input_precision="bf16x3")')), "bf16x3"),
    )  # fmt: skip
    near_misses = (
        NearMiss(PRODUCT, why="operands enter as they were loaded"),
        NearMiss(PRODUCT_POINTER, why="operands enter as they were loaded"),
        NearMiss(ADD_THREADS, why="nothing is multiplied"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found: dict[str, list[Where]] = {}
        by_hand = facts.of_threads and not facts.threads.of(*CONTRACTIONS)
        for product in facts.contractions:
            value = self._option(facts, product)
            if by_hand and facts.types.dtype(product.result) == "f32":
                value = "ieee fp32 (no tensor core)"
            if value is not None:
                found.setdefault(value, []).append(product)
            elif name := self._handed(facts, product):
                (default,) = [p.default for p in facts.kernel.entry.parameters if p.name == name]
                given = _ALLOWED.get(default, default) if isinstance(default, bool) else default
                value = _NAMED.get(given, given) if isinstance(given, str) else _GIVEN
                found.setdefault(value, []).extend([*facts.declared(name), product])
            for role in ("lhs", "rhs"):
                for cast in self._casts(facts, product.op.operand(role) or ""):
                    chosen = facts.graph.roots(cast.op.operand("dtype"), *_CHOICES)
                    found.setdefault("tf32", []).extend([cast, *chosen])
        for value, nodes in found.items():
            yield self.decide(facts, value, nodes)

    def _option(self, facts: Facts, product: Node) -> str | None:
        if "tf32" in str(product.op.attribute("opcode")).split("."):
            return "tf32"
        allowed = facts.values.literal(product.op.operand("allow_tf32"))
        if isinstance(allowed, bool):
            return _NAMED[_ALLOWED[allowed]]
        named = facts.values.literal(product.op.operand("input_precision"))
        return _NAMED.get(named, named) if isinstance(named, str) else None

    def _handed(self, facts: Facts, product: Node) -> str:
        """The parameter of the kernel that says which precision a product takes."""
        asked = [product.op.operand(role) for role in ("allow_tf32", "input_precision")]
        cores = [facts.graph.core(v) for v in asked if v is not None]
        return next((v for v in cores if v in facts.constexprs), None) or ""

    def _casts(self, facts: Facts, value: str) -> list[Node]:
        return [
            n
            for n in facts.graph.upstream(
                value, lambda n: n.op.kind in READS or n.op.kind == OpKind.MMA
            )
            if n.op.kind in CASTS and "tf32" in facts.types.named(n.op.operand("dtype"))
        ]
