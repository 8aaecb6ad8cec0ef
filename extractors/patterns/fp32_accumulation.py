"""In which precision sums are kept, and where the result is narrowed."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns import cases_sums as sums
from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import ATTENTION, PRODUCT, PRODUCT_POINTER, vary
from extractors.patterns.cases_counters import COUNTED, COUNTED_ROWS
from extractors.patterns.cases_merges import GATED_THREADS, MERGE_PAIR_THREADS
from extractors.patterns.cases_rows import COPY, NORM_BACKWARD, SOFTMAX
from extractors.patterns.cases_rows_pointer import COPY_POINTER
from extractors.patterns.cases_rows_threads import COPY_THREADS, NORM_BACKWARD_THREADS
from extractors.patterns.cases_threads import SUM_AS_STORED_THREADS, SUM_IN_SHARED_THREADS
from extractors.patterns.cases_vectors import PEERS_THREADS
from extractors.patterns.product_summed import BY_FLAG
from extractors.patterns.shared_sums import kept_sums
from kb.analysis.declared import arrays_at
from kb.analysis.facts import Facts
from kb.analysis.filled_sums import fill_of, filled
from kb.analysis.graph import CASTS, COPIES, VIEWS, Node
from kb.analysis.held_sums import accumulators, held_sums, summed_elements
from kb.analysis.idioms import begun as first_value
from kb.analysis.loops import Role, updates
from kb.analysis.merging import Form, merge_of
from kb.analysis.row_sums import added_wide
from kb.dialects.registry import reductions_widen
from kb.dtypes import is_float, parts
from kb.evidence import Decision
from kb.ops import READS, OpKind

PRODUCT_WIDE = vary(PRODUCT, ("tile=ct.astype(acc, out.dtype)", "tile=acc"))
_BY_CALLER = vary(
    PRODUCT_POINTER,
    ("TM: tl.constexpr,", "KIND: tl.constexpr, TM: tl.constexpr,"),
    ("dtype=tl.float32", "dtype=KIND"),
    ("acc.to(tl.float16)", "acc"),
)
_BY_TYPE = vary(
    PRODUCT,
    ("dtype=ct.float32", "dtype=ct.float32 if a.dtype == ct.float32 else ct.float16"),
)
_WHOLE_NUMBERS = vary(PRODUCT_POINTER, ("dtype=tl.float32", "dtype=tl.int32"))
_PROMOTED = "fp32 by promotion in the reduction"
_CHOICES = frozenset({OpKind.IF, OpKind.IF_EXPRESSION})


class Fp32Accumulation(Pattern):
    """Accumulators begin as 32-bit floats, reductions read 32-bit floats; one cast narrows the
    result."""

    name = "fp32-accumulation-of-low-precision-mma"
    axis = "accum_dtype"
    source = "NVIDIA, PTX ISA, mma: f32 accumulators for f16, bf16 and fp8 operands"
    matches = (
        Case(SUM_AS_STORED_THREADS, "storage dtype"),
        Case(SUM_IN_SHARED_THREADS, "fp32"),
        Case(sums.MAXIMUM_THREADS, "fp32"),
        Case(PRODUCT, "fp32, one narrowing cast before the store"),
        Case(NORM_BACKWARD, "fp32, one narrowing cast before the store"),
        Case(PRODUCT_WIDE, "fp32"),
        Case(ATTENTION, "fp32, one narrowing cast before the store"),
        Case(SOFTMAX, "fp32, one narrowing cast before the store"),
        Case(sums.SOFTMAX_BARE, _PROMOTED),
        Case(vary(PRODUCT, ("dtype=ct.float32", "dtype=ct.float16")), "fp16"),
        Case(_BY_CALLER, "type given by the caller"),
        Case(_BY_TYPE, "fp32 or another type, by a condition"),
        Case(BY_FLAG, "type given by the caller"),
        Case(_WHOLE_NUMBERS, "int32"),
        Case(COUNTED, "int32"),
        Case(vary(COUNTED, ("total = 0", "total = tl.float32(0)")), _PROMOTED),
        Case(NORM_BACKWARD_THREADS, "fp32, one narrowing cast before the store"),
        Case(MERGE_PAIR_THREADS, "fp32"),
        Case(PEERS_THREADS, "fp32"),
        Case(sums.FILTERED_THREADS, "fp32"),
    )
    near_misses = (
        NearMiss(COUNTED_ROWS, why="how many rows were added up, beside their sum", value="int32"),
        NearMiss(
            vary(SUM_AS_STORED_THREADS, ("T sum = 0", "float sum = 0.f")),
            why="the sum is wider than what is stored",
            value="storage dtype",
        ),
        NearMiss(
            sums.STORED_BESIDE_THREADS,
            why="what is rounded is no sum",
            value="fp32, one narrowing cast before the store",
        ),
        NearMiss(
            vary(sums.MAXIMUM_THREADS, ("float", "int"), ("-1e30f", "0"), ("fmaxf(", "max(")),
            why="the largest of whole numbers",
        ),
        NearMiss(PEERS_THREADS, why="packs of floats are carried", value="storage dtype"),
        NearMiss(GATED_THREADS, why="a softplus: no parts are weighed and added"),
        NearMiss(
            vary(_WHOLE_NUMBERS, ("tl.dot(x, y)", "tl.dot(x, y, out_dtype=tl.float32)")),
            why="the product says its type",
            value="int32",
        ),
        NearMiss(
            vary(_BY_CALLER, ("dtype=KIND", "dtype=tl.float32")),
            why="the type is written in the kernel",
            value="type given by the caller",
        ),
        NearMiss(PRODUCT, why="one type", value="fp32 or another type, by a condition"),
        NearMiss(COUNTED, why="whole numbers stay whole", value=_PROMOTED),
        NearMiss(
            sums.FILTERED_THREADS.replace("y[i] +=", "y[i] ="), why="the last product is kept"
        ),
        NearMiss(COPY, why="nothing is summed"),
        NearMiss(COPY_POINTER, why="nothing is summed"),
        NearMiss(COPY_THREADS, why="nothing is summed"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        places: dict[str, list[Node]] = {}
        for product in facts.contractions:
            dtype = facts.types.dtype(product.result)
            ways = (self._begin(facts, product), self._carry(facts, product))
            begin = list(dict.fromkeys(n for n in ways if n is not None))
            if self._given(facts, [product, *begin]):
                dtype = _GIVEN
            elif begin and not product.op.operand("out_dtype"):
                whole = facts.types.dtype(begin[0].result)
                dtype = whole if whole in _WHOLE else dtype
            added = self._added(facts, product)
            places.setdefault(dtype, []).append(product)
            held = facts.types.dtype(added[0].result) if added and dtype not in _HELD else dtype
            places.setdefault(held, []).extend([*begin, *added])
        for dtype, nodes in self._sums(facts):
            places.setdefault(dtype, []).extend(nodes)
        promoted = [dtype for dtype in places if self._promoted(facts, dtype)]
        if promoted:
            places[promoted[0]] += places.pop("f32", [])
        if not facts.contractions and any(map(is_float, places)):
            places = {d: nodes for d, nodes in places.items() if d not in _WHOLE}
        casts = self._narrowing(facts)
        elsewhere = facts.contractions or not _SUMMED.isdisjoint(places)
        if casts and ("f32" in places or not elsewhere):
            wide = places.pop("f32", [])
            where = [*wide, *casts] if wide else [*self._widened(facts), *casts]
            value = "fp32, one narrowing cast before the store"
            yield self.decide(facts, value, [*where, *arrays_at(facts, facts.contractions)])
        for dtype, nodes in places.items():
            if dtype in _NAMES:
                yield self.decide(facts, _NAMES[dtype], nodes)
            elif "f32" in parts(dtype):
                yield self.decide(facts, _CHOSEN, [*nodes, *self._choices(facts, nodes)])
            elif dtype in promoted:
                yield self.decide(facts, _PROMOTED, nodes)

    def _choices(self, facts: Facts, nodes: list[Node]) -> list[Node]:
        """What chooses the type of a fill or of a cast."""
        made = [facts.graph.producer(n.op.operand("dtype")) for n in nodes]
        return [n for n in made if n is not None and n.op.kind in _CHOICES]

    def _given(self, facts: Facts, nodes: list[Node]) -> bool:
        """A product or the fill of its accumulator that takes its type from a parameter."""
        operands = (n.op.operand(role) for n in nodes for role in ("out_dtype", "dtype"))
        return any(facts.graph.core(v) in facts.constexprs for v in operands if v is not None)

    def _factor(self, facts: Facts, value: str | None) -> str | None:
        """Of a product with a loaded tile, the computed factor."""
        node = facts.graph.producer(value)
        if node is None or node.op.kind != OpKind.MUL:
            return value
        computed = [v for v in node.op.inputs[:2] if not facts.held_loads(v)]
        cast = [v for v in node.op.inputs[:2] if facts.graph.kind_of(v) in CASTS]
        return next(iter(cast or computed), value)

    def _promoted(self, facts: Facts, dtype: str) -> bool:
        """Reductions of some dialects widen 16-bit floats that no cast has widened before."""
        narrow = dtype.startswith("dtypeof") and reductions_widen(facts.kernel.dialect)
        return narrow and not facts.contractions

    def _widened(self, facts: Facts) -> list[Node]:
        """Casts to 32-bit floats of what was loaded, in kernels that only compute elementwise."""
        return [
            n
            for n in facts.graph.of(*CASTS)
            if facts.types.dtype(n.result) == "f32" and facts.feeding(n.result)
        ]

    def _begin(self, facts: Facts, product: Node) -> Node | None:
        """Where the accumulator of a product is filled."""
        acc = product.op.operand("acc") or ""
        if fill := fill_of(facts, acc):
            return fill
        begun = self._number(facts, first_value(facts, acc)) if facts.of_threads and acc else None
        return begun[1] if begun else None

    def _added(self, facts: Facts, product: Node) -> list[Node]:
        """Of a product that is added to a carried value, perhaps scaled first, the addition."""
        carried = {
            facts.graph.core(state.next)
            for loop in facts.loops
            for state in loop.of(Role.ACCUMULATOR)
        }
        found: list[Node] = []
        for value in (values := [product.result]):
            for user in facts.graph.users(value):
                values += [user.result] if user.op.kind == OpKind.MUL else []
                found += [user] if user.op.kind == OpKind.ADD and user.result in carried else []
        return found

    def _carry(self, facts: Facts, product: Node) -> Node | None:
        """Of a product that is added to a carried value, the fill of that value."""
        added = {n.result for n in self._added(facts, product)}
        for state, sum_of in accumulators(facts):
            if sum_of is product or facts.graph.core(state.next) in added:
                return fill_of(facts, state.init)
        return None

    def _sums(self, facts: Facts) -> Iterable[tuple[str, list[Node]]]:
        """Reductions outside attention, with the casts below them, and carried sums."""
        if facts.contractions:
            return
        if added := added_wide(facts):
            yield "f32", added
        given = self._of_given_type(facts)
        stops = READS if facts.of_threads else READS | CASTS
        for node in facts.reductions:
            taken = facts.graph.core(node.op.inputs[0]) in given
            if taken or any(facts.graph.rests_on(v, node) for v in given):
                yield _GIVEN, [node]
                continue
            dtype = facts.types.dtype(node.op.inputs[0])
            above = facts.graph.upstream(node.op.inputs[0], lambda n: n.op.kind in stops)
            casts = [n for n in above if n.op.kind in CASTS]
            whole = dtype.startswith(("i", "u"))
            casts = [c for c in casts if facts.types.dtype(c.result)[:1] not in _SHORT or whole]
            widened = [n for n in casts if facts.types.dtype(n.result) == "f32"]
            dtype = "i32" if self._counts(facts, node, dtype) else dtype
            yield "f32" if widened else dtype, [*casts, *self._own(facts, node), node]
        for node in self._begun_in_shared(facts):
            made = facts.threads.producer(node.op.operand("value"))
            if made is not None and (kept := _written(made)) in ("f32", "f64"):
                yield kept, [node]
        for role, node in held_sums(facts):
            if role is not Role.RUNNING_MAXIMUM and _written(node) in ("f32", "f64"):
                yield _written(node), [node]
        for node in summed_elements(facts):
            if _written(node) in ("f32", "f64"):
                yield _written(node), [node]
        merge = merge_of(facts)
        if merge is not None and merge.form is Form.PAIRWISE:
            yield facts.types.dtype(merge.totals[0].result), [*merge.totals, *merge.weighted]
        yield from self._of_loops(facts, given)

    def _of_loops(self, facts: Facts, given: set[str]) -> Iterable[tuple[str, list[Node]]]:
        """Sums that loops carry, with what they begin with, and what maxima begin with."""
        for loop in facts.loops:
            for state in loop.of(Role.SUM, Role.RUNNING_SUM, Role.RUNNING_MAXIMUM):
                begun = filled(facts, state.init)
                if state.role is Role.RUNNING_MAXIMUM:
                    yield from (("f32", [n]) for n in begun[:1] if facts.types.wide(n.result))
                    low = facts.graph.producer(first_value(facts, state.init))
                    if low is not None and low.op.kind in (OpKind.CONST, OpKind.NEG):
                        if facts.of_threads and is_float(_written(low)):
                            yield _written(low), [low]
                    continue
                steps = updates(facts.graph, state.argument, state.next)
                added = [n for n in steps if n.op.kind in (OpKind.ADD, OpKind.FMA)][:1]
                if state.result in given:
                    yield _GIVEN, [*begun, *added]
                elif begun:
                    yield facts.types.dtype(begun[0].result), [*begun, *added]
                elif begin := self._number(facts, first_value(facts, state.init)):
                    yield begin[0], [begin[1], *added]
                elif (
                    added
                    and facts.of_threads
                    and facts.types.dtype(added[0].result) not in ("f32", "f64")
                    and (own := self._as_stored(facts, first_value(facts, state.init)))
                ):
                    yield _STORED, [own, *added]
                elif added and _literal(facts, first_value(facts, state.init)):
                    made = facts.graph.producer(first_value(facts, state.init))
                    yield "f32", [*([made] if made is not None else []), *added]
                elif added and facts.of_threads:
                    wide = facts.types.dtype(added[0].result)
                    first = facts.graph.producer(first_value(facts, state.init))
                    called = [loop.node] if added[0].op.span.call else []
                    if wide in ("f32", "f64"):
                        yield wide, [*([first] if first is not None else []), *added, *called]

    def _begun_in_shared(self, facts: Facts) -> list[Node]:
        """Sums kept in shared memory, with the stores of the number that they begin with."""
        kept = kept_sums(facts)
        if not kept:
            return []
        graph, shared = facts.threads, facts.shared
        places = {shared.place(n.op) for n in kept if n.op.kind != OpKind.ADD}
        stores = [n for n in graph.of(OpKind.STORE) if shared.place(n.op) in places]
        return [*(n for n in stores if graph.kind_of(n.op.operand("value")) == OpKind.CONST), *kept]

    def _of_given_type(self, facts: Facts) -> set[str]:
        """Carried sums that are filled with zeros of a type that a parameter names."""
        return {
            state.result
            for loop in ([] if facts.of_threads else facts.loops)
            for state in loop.of(Role.SUM, Role.RUNNING_SUM)
            if self._given(facts, filled(facts, state.init))
        }

    def _as_stored(self, facts: Facts, begin: str) -> Node | None:
        """What a sum begins with that has the type of the elements of an array."""
        dtype = facts.types.dtype(begin)
        stored = {p.annotation.partition(" ")[0] for p in facts.kernel.entry.parameters}
        return facts.graph.producer(begin) if dtype in stored and dtype[:1] == "d" else None

    def _counts(self, facts: Facts, node: Node, dtype: str) -> bool:
        """A sum over elements of unknown type that a loop adds to a whole number."""
        numbers = {c.argument: facts.values.literal(c.init) for x in facts.loops for c in x.carried}
        begun = [
            numbers.get(facts.graph.core(v) or v)
            for user in facts.graph.users(node.result)
            if user.op.kind == OpKind.ADD
            for v in user.op.inputs[:2]
        ]
        whole = any(isinstance(n, int) and not isinstance(n, bool) for n in begun)
        return dtype.startswith("dtypeof") and whole

    def _own(self, facts: Facts, total: Node) -> list[Node]:
        """What a thread adds up before a sum over threads, with the number that it begins with."""
        if not facts.of_threads:
            return []
        found: list[Node] = []
        for value in (values := [total.op.inputs[0]]):
            made = facts.graph.producer(facts.graph.core(value))
            if made is None or made in found or len(found) > MAX_TERMS:
                continue
            if made.op.kind == OpKind.VECTOR and not found:
                values += made.op.inputs
            elif made.op.kind in (OpKind.ADD, OpKind.FMA):
                values += made.op.inputs if made.op.kind == OpKind.ADD else made.op.inputs[2:]
                found.append(made)
            elif made.op.kind == OpKind.CONST and found:
                found.append(made)
        return found

    def _number(self, facts: Facts, value: str) -> tuple[str, Node] | None:
        """A literal with a type of its own, or with one around it, which a sum begins with."""
        node = facts.graph.producer(facts.graph.through(value, COPIES))
        if node is None or facts.graph.kind_of(facts.graph.core(value)) != OpKind.CONST:
            return None
        dtype = facts.types.dtype(node.result) if node.op.kind in CASTS else _written(node)
        return (dtype, node) if is_float(dtype) else None

    def _narrowing(self, facts: Facts) -> list[Node]:
        """Casts right before a store that narrow a 32-bit float."""
        found = []
        for store in facts.stores:
            value = facts.graph.through(store.value, VIEWS)
            if not facts.contractions and not facts.reductions:
                value = self._factor(facts, value)
            node = facts.graph.producer(value)
            if (
                node is not None
                and node.op.kind in CASTS
                and facts.types.dtype(node.op.inputs[0]) == "f32"
            ):
                if facts.types.dtype(node.result) != "f32":
                    found.append(node)
        return found


MAX_TERMS = 16
"""Additions of one thread that are followed to the number that they begin with."""

_GIVEN = "type given by the caller"
_STORED = "type of the arrays"
_CHOSEN = "fp32 or another type, by a condition"
_WHOLE = frozenset({"i32", "i64"})
_SHORT = {"i", "u"}
_HELD = _WHOLE | {_GIVEN}
"""Types of products that what adds them up shows: a matrix product without one may be of whole
numbers."""
_SUMMED = frozenset({_STORED, _GIVEN, "f16", "bf16", "f64"})
"""Types of sums; what else is computed beside them says nothing of how they are kept."""
_NAMES = {
    _GIVEN: _GIVEN, _STORED: "storage dtype",
    "f32": "fp32", "f16": "fp16", "bf16": "bf16", "f64": "fp64", "i32": "int32", "i64": "int64",
}  # fmt: skip


def _literal(facts: Facts, value: str) -> bool:
    """A number with a fraction that a tile dialect holds in 32 bits."""
    return isinstance(facts.values.literal(value), float) and not facts.of_threads


def _written(node: Node) -> str:
    """The type that a literal has by itself."""
    kind = node.op.results[0].type
    return kind.dtype if kind is not None else ""
