"""What every parameter of a kernel is for, from where its value goes."""

from __future__ import annotations

from functools import lru_cache

from kb.analysis.accesses import Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, Node
from kb.analysis.symbolic import AtomKind, Expr
from kb.ir import Parameter, ParameterKind
from kb.knowledge import ParameterFact, ParameterRole
from kb.ops import COMPARISONS, EFFECT, Effect, OpKind

_LOGIC = frozenset(
    {
        OpKind.IF, OpKind.IF_EXPRESSION, OpKind.NOT, OpKind.AND, OpKind.OR, OpKind.EQ, OpKind.NE,
        OpKind.IS, OpKind.IS_NOT, OpKind.IN, OpKind.NOT_IN, OpKind.SELECT,
    }
)  # fmt: skip
_EXTENT = COMPARISONS | {
    OpKind.CEIL_DIV, OpKind.RANGE, OpKind.MINIMUM, OpKind.FLOOR_DIV, OpKind.MOD,
    OpKind.STATIC_RANGE,
}  # fmt: skip
_HINTS = frozenset({"latency", "allow_tma", "num_stages", "check_bounds"})
_SHAPES = ("shape", "size", "block_shape")


@lru_cache(maxsize=2)
def parameters_of(facts: Facts) -> tuple[ParameterFact, ...]:
    """Facts of all parameters, in order; a kernel's own are asked for again and again. A struct is
    one parameter here, whatever its fields are for."""
    given = facts.kernel.entry.parameters
    return tuple(_facts(facts)[p.name] for p in given if not p.struct)


def roles_of(facts: Facts) -> dict[str, ParameterRole]:
    """What parameters are for, by their names, and fields of structs by theirs."""
    return {name: fact.role for name, fact in _facts(facts).items()}


def strides_of(facts: Facts) -> frozenset[str]:
    """Parameters, and fields of structs, that are strides."""
    return frozenset(n for n, role in roles_of(facts).items() if role is ParameterRole.STRIDE)


@lru_cache(maxsize=2)
def _facts(facts: Facts) -> dict[str, ParameterFact]:
    given = facts.kernel.entry.parameters
    structs = {p.struct for p in given if p.struct}
    return {
        p.name: ParameterFact(
            name=p.name, kind="scalar", role=ParameterRole.SCALAR, dtype=p.annotation or None
        )
        if p.name in structs
        else _fact(facts, p)
        for p in given
    }


def _fact(facts: Facts, parameter: Parameter) -> ParameterFact:
    own = [a for a in facts.accesses if a.array == parameter.name]
    if own or _is_array(facts, parameter):
        return ParameterFact(
            name=parameter.name,
            kind="tensor",
            role=_array_role(facts, parameter, own),
            rank=_rank(own),
        )
    constexpr = parameter.kind is ParameterKind.CONSTEXPR
    kind = "constexpr" if constexpr else "scalar"
    return ParameterFact(
        name=parameter.name,
        kind=kind,
        role=_role(facts, parameter),
        dtype=parameter.annotation or None,
    )


def _is_array(facts: Facts, parameter: Parameter) -> bool:
    """A parameter that no access resolves to, but that is asked for its shape, or indexed, or is a
    descriptor."""
    if parameter.kind is ParameterKind.ARRAY:
        return True
    roles = {role for _, role in facts.graph.uses.get(parameter.name, ())}
    kinds = {n.op.kind for n in facts.graph.users(parameter.name)}
    return bool(roles & {"array", "base", "descriptor", "pointer"}) or OpKind.SHAPE in kinds


def _array_role(facts: Facts, parameter: Parameter, own: list[Access]) -> ParameterRole:
    reads = any(not a.is_store or a.is_atomic for a in own)
    writes = any(a.is_store for a in own)
    if reads and writes:
        return ParameterRole.IN_OUT
    if writes:
        return ParameterRole.OUTPUT
    used = reads or bool(_users(facts, parameter.name))
    return ParameterRole.INPUT if used else ParameterRole.UNUSED


def _rank(own: list[Access]) -> int | None:
    ranks = {len(a.index) for a in own if a.mode is not Mode.POINTER}
    return ranks.pop() if len(ranks) == 1 else None


def _users(facts: Facts, name: str) -> list[tuple[Node, str]]:
    """Uses of a parameter, through copies and casts; checks and prints do not count."""
    found: list[tuple[Node, str]] = []
    pending = [name]
    for value in pending:
        for node, role in facts.graph.uses.get(value, ()):
            if EFFECT.get(node.op.kind) is Effect.DEBUG:
                continue
            if node.op.kind in COPIES | CASTS and role == "x" and len(pending) < 64:
                pending.append(node.result)
            else:
                found.append((node, role))
    return found


def _role(facts: Facts, parameter: Parameter) -> ParameterRole:
    users = _users(facts, parameter.name)
    if not users:
        return ParameterRole.UNUSED
    if parameter.annotation == "bool" or all(_decides(facts, n) for n, _ in users):
        return ParameterRole.FLAG
    if any(role in _HINTS for _, role in users):
        return ParameterRole.SCALAR
    if parameter.name in tile_extents(facts):
        return ParameterRole.TILE_SIZE
    if _groups(facts, parameter.name):
        return ParameterRole.GROUPING
    if parameter.annotation == "float":
        return ParameterRole.SCALE if _scales(users) else ParameterRole.SCALAR
    if any(n.op.kind in _EXTENT for n, _ in users) or _bounds(facts, parameter.name):
        return ParameterRole.PROBLEM_SIZE
    terms = _terms(facts, parameter.name)
    if terms:
        return (
            ParameterRole.PROBLEM_SIZE
            if any(extents > 1 for extents in terms)
            else ParameterRole.STRIDE
        )
    starts = [facts.values.expr(loop.low) for loop in facts.loops if loop.low]
    if any(_share(start, parameter.name) for start in starts):
        return ParameterRole.GROUPING
    return (
        ParameterRole.SCALE
        if _scales(users) and not _whole(facts, parameter.name)
        else ParameterRole.SCALAR
    )


def _decides(facts: Facts, node: Node) -> bool:
    """True for a branch or a logical step; a comparison counts when the other side is a literal."""
    if node.op.kind not in _LOGIC:
        return False
    if node.op.kind not in COMPARISONS:
        return True
    return any(facts.values.literal(v) is not None for v in node.op.inputs)


def _bounds(facts: Facts, name: str) -> bool:
    """True when a bound of a loop is computed from it, and it is no offset of the block."""
    bounds = [b for loop in facts.loops for b in (loop.low, loop.high) if b is not None]
    return any(_counts(facts.values.expr(bound), name) for bound in bounds)


def _counts(expr: Expr, name: str) -> bool:
    """True when the parameter stands in a sum, here or inside an atom, that holds no block id."""
    for factors, _ in expr.terms:
        if any(atom.value == name and atom.kind is AtomKind.PARAMETER for atom in factors):
            if not any(a.kind is AtomKind.BLOCK for a in expr.top()):
                return True
    return any(_counts(arg, name) for atom in expr.top() for arg in atom.args)


@lru_cache(maxsize=2)
def tile_extents(facts: Facts) -> frozenset[str]:
    """Compile-time parameters that are extents of tiles."""
    found: set[str] = set()
    for node in facts.graph.nodes:
        for role, value in node.op.operands:
            if role in _SHAPES:
                for item in facts.values.items(value):
                    found |= {
                        a.value
                        for a in facts.values.expr(item).top()
                        if a.kind is AtomKind.PARAMETER
                    }
    return frozenset(found) & facts.constexprs


def _groups(facts: Facts, name: str) -> bool:
    """True when it divides a head index, or bounds the rows of a group of output tiles."""
    for node in facts.graph.of(OpKind.FLOOR_DIV):
        left, right = (facts.values.expr(v) for v in node.op.inputs[:2])
        if right.atom is not None and right.atom.value == name and left.atom is not None:
            if left.atom.kind is AtomKind.MOD:
                return True
    for node in facts.graph.of(OpKind.MINIMUM):
        values = [facts.values.expr(v) for v in node.op.inputs[:2]]
        alone = [v.atom is not None and v.atom.value == name for v in values]
        if any(alone) and any(_less_group(v, name) for v in values):
            return True
    return any(_heads(facts, loop.high, name, loop.induction) for loop in facts.loops)


def _less_group(value: Expr, name: str) -> bool:
    return any(n < 0 and any(a.value == name for a in f) and len(f) > 1 for f, n in value.terms)


def _share(low: Expr, name: str) -> bool:
    """True when a loop begins at the block id times the parameter: so many rows does a block take
    one after the other."""
    for factors, _ in low.terms:
        own = any(a.value == name and a.kind is AtomKind.PARAMETER for a in factors)
        if own and any(a.kind is AtomKind.BLOCK for a in factors):
            return True
    return False


def _heads(facts: Facts, high: str | None, name: str, induction: str | None) -> bool:
    """True for the trip count of a loop whose variable is added to a multiple of the same
    number."""
    atom = facts.values.expr(high).atom if high is not None else None
    if atom is None or atom.value != name or induction is None:
        return False
    step = facts.values.expr(induction).atom
    for access in facts.loads:
        for index in access.index:
            scaled = any(any(a.value == name for a in f) and len(f) > 1 for f, _ in index.terms)
            if step in set(index.top()) and scaled:
                return True
    return False


def _scales(users: list[tuple[Node, str]]) -> bool:
    return any(n.op.kind in (OpKind.MUL, OpKind.DIV, OpKind.FMA) for n, _ in users)


def _whole(facts: Facts, name: str) -> bool:
    """True when a parameter enters addresses or counts."""
    exprs = [e for a in facts.accesses for e in a.index]
    return any(atom.value == name for e in exprs for atom in e.atoms())


def _terms(facts: Facts, name: str) -> list[int]:
    """Of the products in addresses that hold the parameter, how many parameters each has."""
    found = []
    for access in facts.accesses:
        for index in access.index:
            for factors, _ in index.terms:
                if len(factors) > 1 and any(
                    a.value == name and a.kind is AtomKind.PARAMETER for a in factors
                ):
                    found.append(
                        sum(
                            a.kind is AtomKind.PARAMETER and a.value not in tile_extents(facts)
                            for a in factors
                        )
                    )
    return found
