"""One result that a kernel works out in two ways, by a flag or by what it finds at run time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, POINTER, PRODUCT, TILE, vary
from extractors.patterns.cases_rows import ADD_POINTER
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, Node
from kb.evidence import Decision
from kb.ops import COMPARISONS, CONTRACTIONS, READS, REDUCTIONS, OpKind

_TELLING = CONTRACTIONS | REDUCTIONS | {
    OpKind.EXP, OpKind.EXP2, OpKind.LOG, OpKind.LOG2, OpKind.SQRT, OpKind.RSQRT, OpKind.TANH,
    OpKind.ERF, OpKind.SIGMOID, OpKind.SOFTMAX, OpKind.EXTERN_MATH, OpKind.CUMSUM, OpKind.SORT,
    OpKind.TOPK, OpKind.HISTOGRAM,
}  # fmt: skip
"""Steps that tell one way of computing from another."""
_ALIKE = {
    OpKind.EXP2: "exp", "exp2": "exp", "fast_expf": "exp", "exp10": "exp", "expm1": "exp",
    OpKind.LOG2: "log", "log1p": "log", "log10": "log", "fast_logf": "log", "fast_log2f": "log",
    "fast_tanhf": "tanh", "fast_sinf": "sin", "fast_cosf": "cos",
    "fast_dividef": "div", "div_rn": "div", "div_rz": "div", "div_ru": "div", "div_rd": "div",
}  # fmt: skip
"""Steps that are one function but for the base, a shift or how exact they are."""
_PLAIN = frozenset({"div"})
_MAKING = COMPARISONS | CASTS | {
    OpKind.INLINE_ASM, OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV, OpKind.SELECT,
}  # fmt: skip
"""Written instructions, and steps of the language that stand for them on another way."""

_KL = (
    POINTER
    + """
@triton.jit
def divergence(x, y, out, n, WAY: tl.constexpr, T: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, T)
    p = tl.load(x + at)
    q = tl.load(y + at)
    if WAY == 0:
        top = tl.max(q, axis=0)
        loss = tl.exp(q - top) * (q - p)
    else:
        mean = tl.exp(p) + tl.exp(q)
        loss = q - tl.log(mean)
    tl.store(out + at, loss)
"""
)
_CURVES = (
    POINTER
    + """
@triton.jit
def gate(x, out, TANH: tl.constexpr, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at)
    if TANH:
        y = 0.5 * v * (1.0 + tl.extra.libdevice.tanh(v))
    else:
        y = 0.5 * v * (1.0 + tl.erf(v))
    tl.store(out + at, y)
"""
)
_POWERS = (
    TILE
    + """
@ct.kernel
def inverse(a, out, T: Int):
    m = ct.load(a, index=(0, 0), shape=(T, T))
    size = ct.max(ct.sum(m, axis=1))
    if size < 1.0:
        found = ct.mma(m, m, m)
    else:
        found = m
        for k in range(T):
            row = ct.sum(found * m, axis=0)
            found = found + row
    ct.store(out, index=(0, 0), tile=found)
"""
)
_WRITTEN = (
    POINTER
    + """
@triton.jit
def narrow(x, out, PTX: tl.constexpr, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at)
    if PTX:
        y = tl.inline_asm_elementwise(
            "cvt.rn.satfinite.e2m1x2.f32 $0, $1, $1;", "=r,r", [v], dtype=tl.int32,
            is_pure=True, pack=1,
        )
    else:
        y = (v > 0.25).to(tl.int32) + (v > 0.75).to(tl.int32)
    tl.store(out + at, y)
"""
)
_FAST = vary(
    _CURVES,
    ("y = 0.5 * v * (1.0 + tl.extra.libdevice.tanh(v))",
     "y = tl.extra.libdevice.fast_dividef(v, 1.0 + tl.exp2(v))"),
    ("y = 0.5 * v * (1.0 + tl.erf(v))", "y = v / (1.0 + tl.extra.libdevice.exp(v))"),
)  # fmt: skip
_SHIFTED = vary(
    _FAST,
    ("fast_dividef(v, 1.0 + tl.exp2(v))", "fast_log2f(1.0 + tl.exp2(v)) * 0.693"),
    ("v / (1.0 + tl.extra.libdevice.exp(v))", "tl.extra.libdevice.log1p(tl.exp(v))"),
)


class ResultInTwoWays(Pattern):
    """Both sides of a branch compute one value with products, sums or functions, of other kinds on
    one than on the other, or by written instructions on one and by the language on the other, and
    the value is stored, or what is made of it."""

    name = "one-result-in-two-ways"
    axis = "algorithm_selection"
    source = "Rice, The Algorithm Selection Problem (1976)"
    matches = (
        Case(_KL, "variant by a compile-time parameter"),
        Case(_POWERS, "variant at run time"),
        Case(_CURVES, "variant by a compile-time parameter"),
        Case(_WRITTEN, "variant by a compile-time parameter"),
    )
    near_misses = (
        NearMiss(
            vary(_KL, ("        loss = q - tl.log(mean)", "        loss = q - p")),
            why="one side only adds",
        ),
        NearMiss(
            vary(
                _KL,
                ("        mean = tl.exp(p) + tl.exp(q)\n", "        top = tl.max(p, axis=0)\n"),
                ("q - tl.log(mean)", "tl.exp(p - top) * p"),
            ),
            why="the same steps on another operand",
        ),
        NearMiss(
            vary(_KL, ("tl.exp(q - top)", "(q - top)"), ("tl.exp(p) + tl.exp(q)", "p + q")),
            why="a function more or less",
        ),
        NearMiss(vary(_KL, ("tl.store(out + at, loss)", "tl.store(out + at, p)")), why="unused"),
        NearMiss(vary(_CURVES, ("tl.extra.libdevice.tanh(v)", "tl.erf(2.0 * v)")), why="one curve"),
        NearMiss(
            vary(
                _WRITTEN, ("(v > 0.25).to(tl.int32) + (v > 0.75).to(tl.int32)", "tl.load(out + at)")
            ),
            why="nothing is computed on the other side",
        ),
        NearMiss(_FAST, why="one function, less exact"),
        NearMiss(_SHIFTED, why="the same functions to another base"),
        NearMiss(ADD_POINTER, why="one way"),
        NearMiss(PRODUCT, why="one way"),
        NearMiss(ATTENTION, why="branches mask scores and choose bounds"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.of_threads:
            return  # branches of threads are selects where no loop is in them
        found: dict[bool, list[Node]] = {}
        flags: dict[str, None] = {}
        for branch in facts.graph.of(OpKind.IF):
            steps = next(_two_ways(facts, branch), ())
            if steps:
                given = _flags(facts, branch)
                flags |= dict.fromkeys(given)
                found.setdefault(bool(given), []).extend(steps)
        for compiled, steps in found.items():
            value = "variant by a compile-time parameter" if compiled else "variant at run time"
            heads = [n.head for n in steps if n.op.kind == OpKind.IF]
            rest = [n for n in steps if n.op.kind != OpKind.IF]
            subject = ", ".join(sorted(flags)) if compiled else None
            yield self.decide(facts, value, [*heads, *rest], subject)


def _two_ways(facts: Facts, branch: Node) -> Iterator[list[Node]]:
    """The branch with the steps of both ways to a value that it gives."""
    ends = [region.terminator for region in branch.op.regions]
    if len(ends) != 2 or any(end is None or end.kind != OpKind.YIELD for end in ends):
        return
    for place, result in enumerate(branch.op.results):
        ways = [
            _steps(facts, branch, side, end.inputs[place])
            for side, end in enumerate(ends)
            if end is not None and place < len(end.inputs)
        ]
        kinds = [{_function(n) for n in way} - _PLAIN for way in ways]
        if len(kinds) == 2 and all(kinds) and kinds[0] != kinds[1]:
            several = max(map(len, ways)) > 1 or any(kind & CONTRACTIONS for kind in kinds)
            several = several or not (kinds[0] & kinds[1] or (kinds[0] | kinds[1]) & REDUCTIONS)
            if several and _kept(facts, result.name):
                yield [branch, *ways[0], *ways[1]]
        yield from _by_instructions(facts, branch, place, result.name)


def _function(step: Node) -> str:
    """What a telling step computes, whatever its base and however exact it is."""
    if step.op.kind != OpKind.EXTERN_MATH:
        return _ALIKE.get(step.op.kind, step.op.kind)
    name = str(step.op.attribute("spelling")).replace("::", ".").rpartition(".")[2]
    return _ALIKE.get(name, name)


def _by_instructions(facts: Facts, branch: Node, place: int, result: str) -> Iterator[list[Node]]:
    """The branch with what makes a value on both of its sides, where written instructions do on one
    of them alone, by a compile-time parameter."""
    ways = []
    for side, region in enumerate(branch.op.regions):
        end = region.terminator
        value = end.inputs[place] if end is not None and place < len(end.inputs) else ""
        above = facts.graph.upstream(value, lambda n: n.op.kind in READS)
        ways.append([n for n in above if n.op.kind in _MAKING and _on(n, branch, side)])
    written = [any(n.op.kind == OpKind.INLINE_ASM for n in way) for way in ways]
    whole = all(ways) and _kept(facts, result) and bool(_flags(facts, branch))
    if whole and sorted(written) == [False, True]:
        yield [branch, *ways[0], *ways[1]]


def _steps(facts: Facts, branch: Node, side: int, value: str) -> list[Node]:
    """The telling steps of one side of a branch that a value is made of."""
    return [node for node in facts.graph.roots(value, *_TELLING) if _on(node, branch, side)]


def _on(node: Node, branch: Node, side: int) -> bool:
    return any(n.parent is branch and n.branch == side for n in (node, *node.around()))


def _kept(facts: Facts, value: str) -> bool:
    """Whether a value, or what is made of it, is stored."""
    made = facts.graph.producer(value)
    return made is not None and any(facts.graph.rests_on(s.value, made) for s in facts.stores)


def _flags(facts: Facts, branch: Node) -> set[str]:
    """The compile-time parameters that a branch asks, where it asks nothing else."""
    above = facts.graph.upstream(branch.op.inputs[0])
    read = {branch.op.inputs[0], *(value for node in above for value in node.op.inputs)}
    given = {p.name for p in facts.kernel.entry.parameters} & read
    found = any(n.op.kind in READS or n.op.kind == OpKind.BLOCK_ID for n in above)
    return set() if found or given - facts.constexprs else given
