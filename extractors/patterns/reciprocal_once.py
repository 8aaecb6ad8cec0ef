"""Whether a row is divided element by element, or multiplied by one reciprocal."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_merges import MERGE_LOOP_THREADS
from extractors.patterns.cases_quotients import (
    COEFFICIENT,
    FOLDED,
    KEPT,
    MEAN,
    MEAN_OF_TILE,
    ROWS_DIVIDED,
    RUNNING,
    SCALED_THREADS,
    SHARE,
    STEP_THREADS,
    SWISH,
)
from extractors.patterns.cases_rows import (
    LAYER_NORM_POINTER,
    NORM_BACKWARD,
    ROW_NORM,
    SOFTMAX,
    SOFTMAX_CHUNKS,
)
from extractors.patterns.cases_rows_pointer import SOFTMAX_CHUNKS_POINTER
from extractors.patterns.cases_rows_threads import OWN_ROW_THREADS, SOFTMAX_CHUNKS_THREADS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, LOOPS, VIEWS, Node
from kb.analysis.idioms import is_wide
from kb.analysis.symbolic import AtomKind, Expr
from kb.analysis.thread_quotients import divided_one_by_one, reciprocals
from kb.evidence import Decision
from kb.ops import READS, REDUCTIONS, OpKind

MAX_STEPS = 4
"""Factors between a sum and what divides it."""

_SCALED = frozenset({OpKind.MUL, OpKind.NEG})
_LOOKS = VIEWS | CASTS | {OpKind.FULL, OpKind.SELECT, OpKind.NEG}


_LOADED_FIRST = (
    ("-(k * k * tl.sum(u * v, axis=0)) / n", "k / n * (n * k - tl.sum(u * v, axis=0))"),
)


class ReciprocalOnce(Pattern):
    """1/x or rsqrt(x) of a row is computed once; a wider tile is multiplied by it, and what is
    divided once per row on the way belongs to it. Or the tile is divided."""

    name = "reciprocal-computed-once-multiplied-in-the-loop"
    axis = "division_strength"
    source = "NVIDIA, CUDA C++ Best Practices Guide, division and modulo operations"
    matches = (
        Case(KEPT, "divide per element"),
        Case(vary(KEPT, ("/ (1 - p)", "/ p")), "divide per element"),
        Case(vary(KEPT, ("v / (1 - p)", "v / tl.load(x)")), "divide per element"),
        Case(FOLDED, "one reciprocal per row"),
        Case(LAYER_NORM_POINTER, "one reciprocal per row"),
        Case(MEAN, "true division"),
        Case(COEFFICIENT, "true division"),
        Case(
            vary(COEFFICIENT, ("k * (u + by * v)", "k * (u - (tl.sum(u, axis=0) + by * v) / n)")),
            "divide per element",
        ),
        Case(RUNNING, "divide per element"),
        Case(MEAN_OF_TILE, "true division"),
        Case(SHARE, "one reciprocal per row"),
        Case(vary(MEAN, ("/ n)", "/ (n * T - 1))")), "true division"),
        Case(vary(COEFFICIENT, *_LOADED_FIRST), "true division"),
        Case(
            vary(
                COEFFICIENT,
                ("-(k * k * tl.sum(u * v, axis=0)) / n", "-(1 / n) * k * tl.sum(u * v, axis=0)"),
            ),
            "one reciprocal per row",
        ),
        Case(ROWS_DIVIDED, "true division"),
        Case(SOFTMAX_CHUNKS, "one reciprocal per row"),
        Case(NORM_BACKWARD, "one reciprocal per row"),
        Case(ROW_NORM, "one reciprocal per row"),
        Case(SOFTMAX, "divide per element"),
        Case(SOFTMAX_CHUNKS_POINTER, "one reciprocal per row"),
        Case(
            vary(
                SOFTMAX_CHUNKS_POINTER,
                ("T: tl.constexpr", "T: tl.constexpr, TOP: tl.constexpr"),
                ("1.0 / ", "TOP / "),
            ),
            "one reciprocal per row",
        ),
        Case(SOFTMAX_CHUNKS_THREADS, "one reciprocal per row"),
        Case(MERGE_LOOP_THREADS, "one reciprocal per row"),
        Case(OWN_ROW_THREADS, "divide per element"),
        Case(vary(KEPT, ("/ (1 - p)", "/ (1.0 - v)")), "divide per element"),
        Case(STEP_THREADS, "divide per element"),
        Case(SCALED_THREADS, "one reciprocal per row"),
        Case(
            vary(
                SCALED_THREADS,
                ("by[row] > 0.f ? 1.f / by[row] : 0.f", "by[row] / (by[row] + by[row + 1])"),
            ),
            "one reciprocal per row",
        ),
    )
    near_misses = (
        NearMiss(
            vary(SHARE, ("top / total * v", "top / total")),
            why="one number of the row is divided, and stored",
            value="one reciprocal per row",
        ),
        NearMiss(vary(KEPT, ("/ (1 - p)", "/ 2")), why="a number that is known"),
        NearMiss(
            vary(KEPT, ("v / (1 - p)", "v * (1.0 / (1.0 + tl.exp(v)))")),
            why="a number over every element: part of a sigmoid",
        ),
        NearMiss(
            vary(KEPT, ("/ (1 - p)", "* tl.rsqrt(2.0)")), why="the root of a number that is known"
        ),
        NearMiss(vary(MEAN, ("tl.sum(", "tl.max(")), why="no sum is divided"),
        NearMiss(
            LAYER_NORM_POINTER,
            why="the mean is divided on the way to the reciprocal",
            value="true division",
        ),
        NearMiss(vary(KEPT, ("/ (1 - p)", "- p")), why="nothing is divided"),
        NearMiss(
            OWN_ROW_THREADS.replace("v[i] / top", "v[i] / 448.f"), why="a number that is known"
        ),
        NearMiss(
            vary(COEFFICIENT, (" / n\n", " / 768\n")),
            why="a number that is known",
            value="true division",
        ),
        NearMiss(
            vary(MEAN_OF_TILE, ("tl.minimum(T, n - tl.program_id(0) * T)", "tl.program_id(0)")),
            why="the number of a block is no extent",
        ),
        NearMiss(
            vary(COEFFICIENT, (_LOADED_FIRST[0][0], "k / n"), ("k * (u", "(u")),
            why="what was loaded meets nothing that is reduced",
            value="true division",
        ),
        NearMiss(
            vary(RUNNING, ("tl.cumsum(v, axis=0) / (at + 1)", "v * (1 / (at + 1))")),
            why="no loaded numbers are divided",
            value="divide per element",
        ),
        NearMiss(vary(STEP_THREADS, ("(sqrtf(v[at]) + eps)", "8.f")), why="a number that is known"),
        NearMiss(
            vary(
                STEP_THREADS,
                ("m[at] / (sqrtf(v[at]) + eps)", "m[at] * (1.f / (1.f + expf(-v[at])))"),
            ),
            why="every element has a reciprocal of its own",
        ),
        NearMiss(
            vary(SCALED_THREADS, ("x[row * n + i] * scale", "x[row * n + i] + scale")),
            why="nothing is multiplied by the reciprocal",
            value="one reciprocal per row",
        ),
        NearMiss(SWISH, why="every element has a reciprocal of its own"),
        NearMiss(PRODUCT, why="nothing is divided"),
        NearMiss(PRODUCT_POINTER, why="nothing is divided"),
        NearMiss(PRODUCT_THREADS, why="nothing is divided"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.contractions:
            return
        once: list[Node] = []
        each: list[Node] = []
        for node in facts.graph.of(OpKind.DIV, OpKind.RSQRT):
            if node.op.kind == OpKind.DIV and self._elementwise(facts, node):
                each.append(node)
            elif (
                facts.number(node.op.inputs[0]) is None
                if node.op.kind == OpKind.RSQRT
                else self._one(facts, node)
            ):
                products = self._products(facts, node)
                once += [node, *products] if products else []
            elif self._of_two_sums(facts, node):
                once += [node, *self._products(facts, node)]
        mean = [n for n in facts.graph.of(OpKind.DIV) if self._mean(facts, n)]
        mean += [n for n in each if n not in mean and self._of_a_row(facts, n)]
        told = {n.op.span for n in (*mean, *once)}
        once += [n for n in reciprocals(facts) if n.op.span not in told]
        told = {n.op.span for n in (*mean, *once)}
        each += [n for n in divided_one_by_one(facts) if n.op.span not in told]
        told = {n.op.span for n in (*mean, *once, *each)}
        each += [n for n in _of_tiles(facts) if n.op.span not in told]
        each = [n for n in each if n not in mean]
        if once:
            yield self.decide(facts, "one reciprocal per row", [*mean, *once])
        elif mean:
            yield self.decide(facts, "true division", mean)
        if each:
            yield self.decide(facts, "divide per element", each)

    def _mean(self, facts: Facts, node: Node) -> bool:
        """A sum, or a number that is computed from one, over an extent that the launch gives or
        what is left of it; or a number that was loaded, before it is multiplied."""
        over, under = node.op.inputs[:2]
        if not _counts(facts.values.expr(under)):
            return False
        total = facts.graph.core(over)
        if total is None or self._coefficient(facts, node, total):
            return total is not None
        made = facts.graph.producer(total)
        wide = any(extent != "1" for extent in facts.types.shape(over))
        for _ in range(0 if wide else MAX_STEPS):
            if made is None or made.op.kind not in _SCALED:
                break
            sides = [facts.graph.core(v) for v in made.op.inputs]
            summed = [v for v in sides if facts.graph.roots(v, OpKind.REDUCE_SUM)]
            total = summed[0] if summed else total
            made = facts.graph.producer(total) if summed else None
        kind = facts.graph.kind_of(total)
        carried = kind in LOOPS and not wide and bool(facts.graph.roots(total, OpKind.REDUCE_SUM))
        return kind == OpKind.REDUCE_SUM or carried

    def _coefficient(self, facts: Facts, node: Node, total: str) -> bool:
        """One number of the row that was loaded, whose quotient is a factor of what is reduced."""
        if any(extent != "1" for extent in facts.types.shape(total)):
            return False
        return bool(facts.held_loads(total)) and any(
            user.op.kind == OpKind.MUL
            and any(facts.graph.roots(v, OpKind.REDUCE_SUM) for v in user.op.inputs[:2])
            for user in facts.graph.users(node.result)
        )

    def _one(self, facts: Facts, node: Node) -> bool:
        """The dividend is a number; or one that is given at compile time, over what a reduction
        gave."""
        over = facts.graph.core(node.op.inputs[0])
        reduced = bool(facts.graph.roots(node.op.inputs[1], *REDUCTIONS))
        given = over in facts.constexprs and reduced
        return given or facts.number(node.op.inputs[0]) is not None

    def _elementwise(self, facts: Facts, node: Node) -> bool:
        """A tile over a reduced row of it, or loaded numbers over what the launch gives, perhaps
        computed with, or over the numbers of their places."""
        over, under = node.op.inputs[:2]
        wide = [e for e in facts.types.shape(over) if e != "1"]
        narrow = [e for e in facts.types.shape(under) if e != "1"]
        if len(wide) <= len(narrow):
            counted = facts.graph.roots(under, OpKind.ARANGE) and not facts.graph.roots(
                under, *READS
            )
            return bool(wide and counted and facts.feeding(over))
        made = facts.graph.producer(facts.graph.core(under))
        computed = made is not None and made.op.kind in (OpKind.SUB, OpKind.ADD, OpKind.MUL)
        computed = computed or facts.graph.core(under) in facts.graph.function.parameter_names
        if facts.graph.roots(under, *READS) and not facts.graph.roots(over, *REDUCTIONS):
            per_row = not narrow or facts.types.shape(under)[-1] == "1"
            return per_row and any(is_wide(facts, a.value) for a in facts.feeding(over))
        return bool(facts.graph.roots(under, *REDUCTIONS)) or (
            computed
            and facts.values.literal(under) is None
            and (not facts.graph.roots(over, *REDUCTIONS) or _meets(facts, over, len(wide)))
            and not facts.graph.roots(under, *READS)
            and bool(facts.feeding(over))
        )

    def _of_two_sums(self, facts: Facts, node: Node) -> bool:
        """What a row was reduced to over what it was reduced to, for tiles with more axes."""
        sides = node.op.inputs[:2]
        both = node.op.kind == OpKind.DIV and not facts.of_threads
        return (
            both
            and all(facts.graph.roots(v, *REDUCTIONS) for v in sides)
            and self._of_a_row(facts, node)
        )

    def _of_a_row(self, facts: Facts, node: Node) -> bool:
        """Numbers of rows that are divided before tiles with more axes are multiplied by them."""
        wide = sum(e != "1" for e in facts.types.shape(node.result))
        products = [n for n in self._products(facts, node) if n.op.kind == OpKind.MUL]
        return bool(products) and all(
            sum(e != "1" for e in facts.types.shape(n.result)) > wide for n in products
        )

    def _products(self, facts: Facts, node: Node) -> list[Node]:
        """Multiplications that take the reciprocal in, with a wider side or a reduced one."""
        values, found = [node.result], []
        if _of_elements(facts, node):
            return []
        for value in values:
            for user in facts.graph.users(value):
                if user.op.kind in _LOOKS | {OpKind.VECTOR} and len(values) < 16:
                    values.append(user.result)
                elif user.op.kind == OpKind.YIELD and len(values) < 16:
                    values += facts.graph.onward(user, value)
                elif user.op.kind in (OpKind.MUL, OpKind.FMA):
                    other = [v for v in user.op.inputs[:2] if v != value]
                    if facts.types.dtype(user.result).startswith(("i", "u")):
                        continue
                    if any(facts.graph.roots(v, *READS) for v in other):
                        found.append(user)
        return found


def _of_tiles(facts: Facts) -> list[Node]:
    """Quotients of two tiles that are both computed of loaded elements, one for each element: none
    was reduced, none is narrower, none is a number."""
    if facts.of_threads:
        return []
    widest = max((_axes(facts, a.value) for a in facts.loads), default=0)
    return [
        n
        for n in facts.graph.of(OpKind.DIV)
        if widest
        and all(_of_loads(facts, v) and _axes(facts, v) == widest for v in n.op.inputs[:2])
        and not facts.types.dtype(n.result).startswith(("i", "u"))
    ]


def _of_loads(facts: Facts, value: str) -> bool:
    """Whether a value is made of loads, and of no reduction."""
    return bool(facts.feeding(value)) and not facts.graph.roots(value, *REDUCTIONS)


def _axes(facts: Facts, value: str) -> int:
    return sum(extent != "1" for extent in facts.types.shape(value))


def _of_elements(facts: Facts, node: Node) -> bool:
    """Whether a tile of reciprocals has one for every element that was loaded: nothing is reduced
    on the way, and nothing that is loaded has more axes."""
    wide = sum(e != "1" for e in facts.types.shape(node.result))
    if wide == 0 or facts.graph.roots(node.result, *REDUCTIONS):
        return False
    own = [facts.access(n) for n in facts.graph.roots(node.result, *READS)]
    shapes = [facts.types.shape(a.value) for a in facts.accesses]
    widest = max((sum(e != "1" for e in shape) for shape in shapes), default=0)
    return any(a is not None and facts.types.shape(a.value) for a in own) and widest <= wide


def _meets(facts: Facts, value: str, axes: int) -> bool:
    """Whether loaded elements enter a tile as they are, beside what was reduced."""
    for node in facts.graph.upstream(value, lambda n: n.op.kind in REDUCTIONS):
        access = facts.access(node)
        if access is not None and sum(e != "1" for e in facts.types.shape(access.value)) == axes:
            return True
    return False


def _counts(expr: Expr) -> bool:
    """Extents that the launch gives, multiplied or corrected by a number, or the least of one and
    what is left for a block."""
    given = (AtomKind.PARAMETER, AtomKind.EXTENT)
    if expr.atom is not None and expr.atom.kind is AtomKind.MINIMUM:
        return any(a.kind is AtomKind.BLOCK for one in expr.atom.args for a in one.atoms())
    return expr.constant is None and all(a.kind in given for a in expr.top())
