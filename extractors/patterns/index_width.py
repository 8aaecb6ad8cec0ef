"""How wide index arithmetic is."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import ATTENTION, POINTER, vary
from extractors.patterns.cases_pointer import PRODUCT_DESCRIPTOR
from extractors.patterns.cases_rows import LAYER_NORM_POINTER, TURN
from extractors.patterns.cases_rows_threads import STARTS
from extractors.patterns.cases_threads import FLASH_THREADS
from kb.analysis.accesses import Mode
from kb.analysis.declared import declared_at, fields_at
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, LOOPS, VIEWS, Node
from kb.analysis.registers import is_address
from kb.evidence import Decision, Lines
from kb.ops import ATOMICS, READS, WRITES, OpKind

ON_REQUEST = "int64 opt-in"
_WIDE = frozenset({"i64", "u64"})
_NARROW = frozenset({"i32", "u32"})
_MOVING = CASTS | COPIES | {OpKind.ADD, OpKind.POINTER_CAST, OpKind.IF, OpKind.SELECT}
_SUMMED = CASTS | COPIES | {OpKind.ADD, OpKind.SUB}
_OFFSETS = _SUMMED | VIEWS | LOOPS | {OpKind.IF, OpKind.POINTER_CAST}
_SETTLING = _SUMMED | {OpKind.FLOOR_DIV}
_COMPUTED = frozenset({OpKind.ADD, OpKind.MUL, OpKind.SUB, OpKind.FLOOR_DIV, OpKind.MOD,
                       OpKind.SHIFT_LEFT, OpKind.BIT_AND, OpKind.BIT_XOR})  # fmt: skip


_SINGLE = (
    POINTER
    + """
@triton.jit
def once(x, out, n):
    top = 0.0
    for i in range(n):
        top = tl.maximum(top, tl.load(x + tl.program_id(0) * n + i))
    tl.store(out + tl.program_id(0), top)
"""
)
_SCALAR = (
    POINTER
    + """
@triton.jit
def count(n, out):
    tl.store(out, tl.load(n) + 1)
"""
)
_SCALARS_THREADS = """__global__ void once(float* x) {
    x[0] = x[0] + 1.f;
}
"""
_ROW_THREADS = """__global__ void copy(const float* x, float* out, int n) {
    int row = blockIdx.x;
    out[(size_t)row * n + threadIdx.x] = x[(size_t)row * n + threadIdx.x];
}
"""
_COUNTED_THREADS = """__global__ void twice(const float* x, float* out, size_t n) {
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) out[i] = x[i] + x[i];
}
"""
_VECTORS_THREADS = """__global__ void twice(float* x, int n, int bytes) {
    for (int item = blockIdx.x; item < n; item += gridDim.x) {
        const long long row = item / 8;
        char* to = (char*)x + 4 * (row * bytes + threadIdx.x);
        *(float*)to = *(float*)to * 2.f;
    }
}
"""


_EITHER_THREADS = """template <bool SECOND> __global__ void fill(float* x, int n) {
    int row = blockIdx.x, at = threadIdx.x;
    float* to;
    if constexpr (SECOND) to = x + (row * n + at);
    else to = x + (row + at * n);
    *to = 1.f;
}
"""


class IndexWidth(Pattern):
    """Positions are counted in 32 bits, or widened before they are multiplied."""

    name = "32-bit-index-arithmetic"
    axis = "index_width"
    source = "NVIDIA, CUDA C++ Best Practices Guide: 64-bit integer arithmetic is emulated"
    matches = (
        Case(ATTENTION, "int32"),
        Case(LAYER_NORM_POINTER, "int64 opt-in"),
        Case(vary(TURN, ("turn(x, ", "turn(x: ct.IndexedWithInt64, ")), "int64 opt-in"),
        Case(FLASH_THREADS, "int32"),
        Case(vary(_SINGLE, ("x, out, n", "x, out, n: tl.int64")), "int64 opt-in"),
        Case(_SINGLE, "int32"),
        Case(PRODUCT_DESCRIPTOR, "int32"),
        Case(_ROW_THREADS, "int64 opt-in"),
        Case(_ROW_THREADS.replace("(size_t)row * n", "(size_t)(row * n)"), "int32"),
        Case(_COUNTED_THREADS, "int64 opt-in"),
        Case(STARTS, "int64 opt-in"),
        Case(STARTS.replace("long long", "int"), "int32"),
        Case(_EITHER_THREADS, "int32"),
        Case(_COUNTED_THREADS.replace("size_t", "int"), "int32"),
        Case(_VECTORS_THREADS, "int64 opt-in"),
        Case(_VECTORS_THREADS.replace("long long", "int"), "int32"),
        Case(_ROW_THREADS.replace("(size_t)row * n", "(int)((size_t)row * n)"), "int32"),
    )
    near_misses = (
        NearMiss(TURN, why="tiles are addressed by block ids, no position is computed"),
        NearMiss(_SCALAR, why="one number is read and written, no position is computed"),
        NearMiss(_SCALARS_THREADS, why="one number is read and written, no position is computed"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.of_threads:
            yield from self._of_threads(facts)
            return
        wide = [n for n in facts.graph.of(*CASTS) if self._widens(facts, n)]
        wide += [n for n in self._lanes(facts) if facts.types.dtype(n.result) in _WIDE]
        asked = [p.name for p in facts.kernel.entry.parameters if p.annotation == "indexed_i64"]
        factors = self._factors(facts)
        given = [p.name for p in facts.kernel.entry.parameters if p.annotation == "i64"]
        given = [name for name in given if name in factors]
        if wide or asked or given:
            wide += [n for name in given for n in factors[name]]
            yield self.decide(facts, ON_REQUEST, [*wide, *facts.declared(*asked, *given)])
            return
        lanes = [n for n in self._lanes(facts) if facts.types.dtype(n.result) in ("i32", "u32")]
        if lanes:
            ids = [n for n in facts.graph.of(OpKind.BLOCK_ID) if self._placed(facts, n)]
            where = [*lanes, *ids, *self._positions(facts), *self._narrowed(facts)]
            where += [n for products in factors.values() for n in products]
            yield self.decide(facts, "int32", where)
        elif self._narrowed(facts) or self._coordinates(facts):
            yield self.decide(facts, "int32", [*self._narrowed(facts), *self._coordinates(facts)])
        elif not any(facts.types.shape(a.value) for a in facts.accesses):
            pointers = [a for a in facts.accesses if a.mode is Mode.POINTER]
            ids = [n for n in facts.graph.of(OpKind.BLOCK_ID) if self._placed(facts, n)]
            if pointers and ids:
                scaled = [n for products in factors.values() for n in products]
                yield self.decide(facts, "int32", [*ids, *scaled])

    def _of_threads(self, facts: Facts) -> Iterable[Decision]:
        """Of a thread, the additions that move a pointer, by the type that their offset was
        computed in; a result that is widened afterwards was computed narrow."""
        graph = facts.threads
        found: dict[bool, dict[Node, None]] = {}
        offsets: dict[Node, tuple[str, list[Node]]] = {}
        for access in (n for n in graph.nodes if n.op.kind in READS | WRITES | ATOMICS):
            address = access.op.operand("pointer") or next(iter(access.op.inputs), "")
            held = [v for v in access.op.inputs[1:] if is_address(graph, v)]
            steps = [
                node
                for value in (address, *held)
                for node in graph.upstream(value, lambda n: n.op.kind not in _MOVING)
            ]
            for node in steps if access.op.attribute("space") != "shared" else ():
                if node not in offsets:
                    offsets[node] = self._offset(facts, node)
                dtype, made = offsets[node]
                if dtype in _WIDE | _NARROW:
                    found.setdefault(dtype in _WIDE, {}).update(dict.fromkeys((node, *made)))
        if found:
            value = "int64 opt-in" if True in found else "int32"
            moved = found[max(found)]
            where: list[Where] = [*moved, *_of_blocks(facts, moved, wide=max(found))]
            yield self.decide(facts, value, [*where, *_declared(facts, moved, wide=max(found))])

    def _offset(self, facts: Facts, node: Node) -> tuple[str, list[Node]]:
        """The type that the offset of a moved pointer was computed in, and where."""
        if node.op.kind != OpKind.ADD or len(node.op.inputs) < 2:
            return "", []
        below = facts.threads.upstream(node.op.inputs[1], _settles)
        made = facts.threads.producer(facts.threads.through(node.op.inputs[1], CASTS))
        products = [n for n in below if n.op.kind == OpKind.MUL or _narrows(n)]
        if not products and made is None:
            return _counted(facts, facts.threads.through(node.op.inputs[1], CASTS) or "")
        products += [n for p in products for n in _scaled(facts, p)]
        own = [made] if made is not None and made.op.kind in _COMPUTED else []
        over = [n for n in own if n.op.kind == OpKind.FLOOR_DIV]
        told = [*products, *over] if products else own
        dtypes = {n: row.type.dtype for n in told for row in n.op.results if row.type}
        known = [dtype for dtype in dtypes.values() if dtype in _WIDE | _NARROW]
        dtype = max(known, key=lambda dtype: dtype in _WIDE, default="")
        dtypes = {n: own for n, own in dtypes.items() if own in _WIDE | _NARROW}
        settling = [n for n, own in dtypes.items() if (own in _WIDE) == (dtype in _WIDE)]
        if dtype not in _WIDE:
            return dtype, settling
        return dtype, [*_widened(facts, settling), *_of_loops(facts, settling), *settling]

    def _lanes(self, facts: Facts) -> list[Node]:
        return facts.graph.of(OpKind.ARANGE)

    def _factors(self, facts: Facts) -> dict[str, list[Node]]:
        """The products in addresses, by the number that positions are multiplied with: where an
        offset of 32 bits would overflow first."""
        names = {p.name for p in facts.kernel.entry.parameters}
        found: dict[str, list[Node]] = {}
        seen: set[Node] = set()
        pointers = dict.fromkeys(a.node.op.operand("pointer") for a in facts.accesses)
        for pointer in pointers:
            for node in facts.graph.upstream(pointer or "", lambda n: n.op.kind not in _OFFSETS):
                if node.op.kind == OpKind.MUL and node not in seen:
                    seen.add(node)
                    for value in node.op.inputs[:2]:
                        if (factor := facts.graph.core(value)) in names:
                            found.setdefault(factor or "", []).append(node)
        return found

    def _positions(self, facts: Facts) -> list[Node]:
        """The additions that complete linear positions."""
        found = []
        for access in facts.accesses:
            for value in facts.values.items(access.node.op.operand("index")):
                node = facts.graph.producer(facts.graph.core(value))
                if node is not None and node.op.kind == OpKind.ADD and facts.types.shape(value):
                    found.append(node)
        return found

    def _coordinates(self, facts: Facts) -> list[Node]:
        """The products that say where a tile of a descriptor begins."""
        return [
            node
            for access in facts.accesses
            if access.mode is Mode.DESCRIPTOR
            for value in facts.values.items(access.node.op.operand("offsets"))
            for node in facts.graph.upstream(value, lambda n: n.op.kind not in _SUMMED)
            if node.op.kind == OpKind.MUL
        ]

    def _widens(self, facts: Facts, node: Node) -> bool:
        """A cast to 64 bits whose result reaches an address."""
        return facts.types.named(node.op.operand("dtype")) in _WIDE and self._placed(facts, node)

    def _narrowed(self, facts: Facts) -> list[Node]:
        """Casts of coordinates to 32 bits."""
        return [
            n
            for n in facts.graph.of(*CASTS)
            if facts.types.named(n.op.operand("dtype")) in ("i32", "u32") and self._placed(facts, n)
        ]

    def _placed(self, facts: Facts, node: Node) -> bool:
        return any(
            facts.graph.rests_on(value, node)
            for access in facts.accesses
            for role, value in access.node.op.operands
            if role in ("pointer", "index", "offsets", "mask")
        )


def _scaled(facts: Facts, product: Node) -> list[Node]:
    """The products that a number of elements, or of bytes, multiplies: what a position in vectors
    is made of."""
    for value, times in (product.op.inputs[:2], product.op.inputs[1::-1]):
        if facts.number(times) is not None:
            below = facts.threads.upstream(value, lambda n: n.op.kind not in _SUMMED or _narrows(n))
            return [n for n in below if n.op.kind == OpKind.MUL]
    return []


def _of_loops(facts: Facts, products: Iterable[Node]) -> list[Node]:
    """The loops that count in 64 bits what wide products multiply, with the casts that begin it."""
    found: list[Node] = []
    for value in (v for p in products for v in p.op.inputs[:2]):
        dtype, made = _counted(facts, facts.threads.through(value, CASTS | COPIES) or "")
        found += made if dtype in _WIDE else []
    return found


def _of_blocks(facts: Facts, moved: Iterable[Node], *, wide: bool) -> list[Node]:
    """Where the number of the block, times so many, becomes a position of the same width that
    pointers are moved by."""
    graph = facts.threads
    width = _WIDE if wide else _NARROW
    products = [
        n
        for n in graph.of(OpKind.MUL)
        if any(graph.kind_of(graph.core(v)) == OpKind.BLOCK_ID for v in n.op.inputs[:2])
        and any(r.type and r.type.dtype in width for r in n.op.results)
    ]
    values = [v for n in moved for v in n.op.inputs] if products else []
    return [n for n in products if any(graph.rests_on(v, n) for v in values)]


def _declared(facts: Facts, moved: Iterable[Node], *, wide: bool) -> list[Lines]:
    """Where the numbers of that width are declared which positions are made of by products:
    parameters of the kernel, and fields of structs that it is given."""
    graph, width = facts.threads, _WIDE if wide else _NARROW
    own = {p.name for p in graph.function.parameters if p.annotation in width}
    home, found = facts.kernel.entry.span.path, list[Lines]()
    for value in dict.fromkeys(v for n in moved if n.op.kind == OpKind.MUL for v in n.op.inputs):
        core = graph.through(value, CASTS | COPIES) or ""
        made = graph.producer(core)
        fields = fields_at(graph.function, own & {core}, home)
        found += fields or facts.declared(*own & {core})
        if made is not None and made.op.kind == OpKind.ATTRIBUTE:
            if any(row.type and row.type.dtype in width for row in made.op.results):
                found += declared_at(made, home)
    return found


def _counted(facts: Facts, value: str) -> tuple[str, list[Node]]:
    """The type of the variable that a loop counts with, and the loop."""
    loop, region, place = facts.threads.arguments.get(value, (None, 0, -1))
    if loop is None or loop.op.kind != OpKind.FOR or place != 0:
        return "", []
    kind = loop.op.regions[region].arguments[0].type
    if kind is None:
        return "", []
    made = facts.threads.producer(loop.op.inputs[0])
    begin = made.op.operand("low") if made is not None else None
    wide = kind.dtype in _WIDE and begin is not None
    return kind.dtype, [*(_wide_casts(facts, begin) if wide and begin else []), loop]


def _widened(facts: Facts, products: list[Node]) -> list[Node]:
    """The casts that make factors wide."""
    return [n for p in products for value in p.op.inputs for n in _wide_casts(facts, value)]


def _wide_casts(facts: Facts, value: str) -> list[Node]:
    """The casts to 64 bits that give a value, perhaps through copies."""
    above = facts.threads.upstream(value, lambda n: n.op.kind not in CASTS | COPIES)
    casts = [n for n in above if n.op.kind in CASTS]
    return [n for n in casts if any(r.type and r.type.dtype in _WIDE for r in n.op.results)]


def _narrows(node: Node) -> bool:
    """A cast to 32 bits: whatever was computed before, the position is kept in them."""
    rows = node.op.results
    return node.op.kind in CASTS and any(r.type and r.type.dtype in _NARROW for r in rows)


def _settles(node: Node) -> bool:
    """Where the type of a position is settled: no sum goes further down, and no position in
    vectors that is a quotient of one in elements."""
    return node.op.kind not in _SETTLING or _narrows(node)
