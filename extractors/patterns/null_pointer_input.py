"""An array that a caller may leave out by passing a null pointer."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, vary
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, Node
from kb.analysis.record_fields import field_of
from kb.evidence import Decision
from kb.ir import ParameterKind, TypeKind
from kb.ops import OpKind

_ABSENT = """__global__ void plus(const float* x, const float* bias, float* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = x[at] + (bias != nullptr ? bias[at] : 0.f);
}
"""
_FIELD = """struct Given { const float* x; const float* bias; float* out; int n; };
__global__ void plus(Given p) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < p.n) p.out[at] = p.x[at] + (p.bias != nullptr ? p.bias[at] : 0.f);
}
"""
_OPTIONAL = (
    POINTER
    + """
@triton.jit
def plus(x, bias, out, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n)
    if bias is not None:
        v += tl.load(bias + at, mask=at < n)
    tl.store(out + at, v, mask=at < n)
"""
)
_TESTS = frozenset({OpKind.EQ, OpKind.NE, OpKind.NOT, OpKind.AND, OpKind.OR, OpKind.IF,
                    OpKind.IF_EXPRESSION, OpKind.SELECT})  # fmt: skip
_NONE = frozenset({OpKind.EQ, OpKind.NE, OpKind.IS, OpKind.IS_NOT})
_HANDED = COPIES | CASTS | {OpKind.IF, OpKind.POINTER_CAST}


class NullPointerInput(Pattern):
    """A pointer given at the launch is tested before it is read or written."""

    name = "null-pointer-for-an-absent-input"
    axis = "optional_inputs"
    source = "NVIDIA, CUDA C++ Programming Guide, kernel parameters"
    matches = (
        Case(_ABSENT, "None argument"),
        Case(_ABSENT.replace("bias != nullptr ?", "bias ?"), "None argument"),
        Case(_OPTIONAL, "None argument"),
        Case(vary(_OPTIONAL, ("bias is not None", "bias")), "None argument"),
        Case(_FIELD, "None argument"),
    )
    near_misses = (
        NearMiss(vary(_OPTIONAL, ("bias is not None", "n != 3")), why="a number is tested"),
        NearMiss(vary(_OPTIONAL, ("bias is not None", "n")), why="a number is tested"),
        NearMiss(_ABSENT.replace("bias != nullptr", "n != 3"), why="a number is tested"),
        NearMiss(_FIELD.replace("p.bias != nullptr", "p.n != 3"), why="a number is tested"),
        NearMiss(ADD_THREADS, why="every pointer is read without a test"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        tiles = not facts.of_threads
        arrays = {
            p.name
            for p in facts.kernel.entry.parameters
            if p.kind is ParameterKind.ARRAY or (tiles and p.kind is not ParameterKind.CONSTEXPR)
        }
        arrays |= _fields(facts) if facts.of_threads else set()
        found: dict[str, list[Node]] = {}
        read = {access.array for access in facts.accesses} if tiles else set()
        for node in facts.threads.nodes:
            if node.op.kind in (_NONE if tiles else _TESTS):
                named = self._tested(facts, node) & arrays
            elif tiles and node.op.kind in _TESTS and node.op.inputs[0] in read:
                named = {node.op.inputs[0]} & arrays
            else:
                continue
            for name in named:
                found.setdefault(name, []).append(node)
        if found:
            places = [place for nodes in found.values() for node in nodes for place in (node.head,)]
            yield self.decide(facts, "None argument", places, ", ".join(sorted(found)))

    def _tested(self, facts: Facts, node: Node) -> set[str]:
        """Parameters whose being there a test or a branch asks for."""
        sides = node.op.inputs
        if node.op.kind in _NONE:
            made = [facts.threads.producer(value) for value in sides[:2]]
            nulls = [m is not None and m.op.attribute("value", "") is None for m in made]
            sides = tuple(v for v, null in zip(sides, nulls, strict=False) if not null)
            if len(sides) != 1:
                return set()
        elif node.op.kind not in (OpKind.NOT, OpKind.AND, OpKind.OR):
            sides = sides[:1]
        return {name for value in sides for name in self._names(facts, value)}

    def _names(self, facts: Facts, value: str) -> set[str]:
        """The parameter that a value is on every way to it."""
        found, pending = set(), [value]
        for current in pending:
            made = facts.threads.producer(current)
            if made is None or made.op.kind == OpKind.ATTRIBUTE:
                found.add(_name(facts, current))
            elif made.op.kind in _HANDED and len(pending) < 64:
                feeds = facts.threads.feeds(current)
                pending += [v for v in feeds if v not in pending]
            else:
                return set()
        return found


def _name(facts: Facts, value: str) -> str:
    """A parameter, or a field of one that is a struct."""
    return field_of(facts.threads, value) or value


def _fields(facts: Facts) -> set[str]:
    """Fields of structs that are pointers: by their type, or by what is done with them."""
    found = set()
    for node in facts.threads.of(OpKind.ATTRIBUTE):
        kind = node.op.results[0].type
        pointer = kind is not None and kind.kind is TypeKind.POINTER
        name = field_of(facts.threads, node.result)
        if name and (pointer or _indexed(facts, node.result)):
            found.add(name)
    return found


def _indexed(facts: Facts, value: str) -> bool:
    """Whether an index reads through a value, or a null is what it is compared with."""
    users = facts.threads.users(value)
    compared = [v for user in users if user.op.kind in _NONE for v in user.op.inputs]
    return any(u.op.kind == OpKind.EXTRACT and u.op.inputs[0] == value for u in users) or any(
        made is not None and made.op.kind == OpKind.CONST and made.op.attribute("value") is None
        for made in map(facts.threads.producer, compared)
    )
