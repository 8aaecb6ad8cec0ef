"""How arrays lie in shared memory."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import vary
from extractors.patterns.cases_rows_threads import ADD_THREADS, TURN_THREADS
from extractors.patterns.cases_tensors import FLASH_TENSORS
from extractors.patterns.cases_threads import PRODUCT_THREADS
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Graph, Node
from kb.analysis.register_rows import puts
from kb.analysis.shared import SharedMemory
from kb.analysis.symbolic import sub
from kb.analysis.values import Values
from kb.evidence import Decision
from kb.ops import ATOMICS, OWN_THREAD, OpKind

BANKS = 32
MAX_ELEMENTS = 64
"""Elements of arrays in registers that one is looked for behind, on its way from memory."""

PADDED, SWIZZLED, PLAIN = "padded rows", "xor swizzle", "no padding, no swizzle"
HANDED = "one buffer, laid out by what it is handed to"
SPREAD = "elements of a thread's vector apart, free of bank conflicts"
"""Banks of shared memory. Source: CUDA C++ Programming Guide, shared memory."""

_RANGES = (OpKind.RANGE, OpKind.STATIC_RANGE)
_PLACES = (OpKind.THREAD_ID, OpKind.LANE_ID)
_CARVING = (OpKind.ADD, OpKind.POINTER_CAST)
_LOOKS = CASTS | {OpKind.BITCAST, OpKind.COPY}
_OF_SHARED = (OpKind.MATRIX_LOAD, OpKind.MATRIX_STORE, OpKind.ASYNC_COPY)
"""What reaches shared memory but by loads and stores."""

_BYTES = ("i8", "u8")
_FOUND = (OpKind.OPAQUE, OpKind.LOAD, OpKind.EXTERN_MATH)

_PLAIN = vary(TURN_THREADS, ("tile[T][T + 1]", "tile[T][T]"))
_SWIZZLED = vary(
    _PLAIN,
    ("tile[threadIdx.y][threadIdx.x] =", "tile[threadIdx.y][threadIdx.x ^ threadIdx.y] ="),
    ("tile[threadIdx.x][threadIdx.y]", "tile[threadIdx.x][threadIdx.y ^ threadIdx.x]"),
)

_MATRIX = """__device__ void four(unsigned* r, const half* at) {
    unsigned place = __cvta_generic_to_shared(at);
    asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(place));
}
__global__ void quarter(const half* x, unsigned* out) {
    __shared__ half tile[16 * 64];
    for (int i = threadIdx.x; i < 16 * 64; i += 32) tile[i] = x[i];
    __syncthreads();
    unsigned r[4];
    int row = threadIdx.x % 16;
    four(r, tile + row * 64 + ((threadIdx.x / 16) ^ (row % 8)) * 8);
    for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = r[i];
}
"""
_TURNED_OVER = """__global__ void two(const float* x, float* out, int n) {
    __shared__ float part[2][256];
    int now = 0;
    for (int i = threadIdx.x; i < n; i += 256) {
        part[now][threadIdx.x] = x[i];
        __syncthreads();
        out[i] = part[now][255 - threadIdx.x];
        now ^= 1;
    }
}
"""


_ONE_MORE = """__global__ void rows(const float* x, float* out, int n) {
    extern __shared__ float kept[];
    for (int k = 0; k < 8; ++k) kept[threadIdx.x * 9 + k] = x[k * n + threadIdx.x];
    __syncthreads();
    for (int k = 0; k < 8; ++k) out[threadIdx.x * 8 + k] = kept[(255 - threadIdx.x) * 9 + k];
}
"""
_BUFFER = """__global__ void copy(const float* x, float* out, int n) {
    extern __shared__ char buffer[];
    float* row = reinterpret_cast<float*>(buffer);
    row[threadIdx.x] = x[blockIdx.x * n + threadIdx.x];
    __syncthreads();
    out[blockIdx.x * n + threadIdx.x] = row[n - 1 - threadIdx.x];
}
"""


_SPREAD = """__global__ void columns(const float4* x, float* out, int rows, int n) {
    extern __shared__ float sums[];
    float acc[4] = {0.f, 0.f, 0.f, 0.f}, v[4];
    for (int r = threadIdx.y; r < rows; r += blockDim.y) {
        *reinterpret_cast<float4*>(v) = x[r * n + threadIdx.x];
        for (int j = 0; j < 4; ++j) acc[j] += v[j];
    }
    for (int k = 0; k < 4; ++k) atomicAdd(&sums[threadIdx.x + k * 32], acc[k]);
    __syncthreads();
    out[threadIdx.x] = sums[threadIdx.x];
}
"""


_PAIRS = """__global__ void turn(const half2* x, half2* out, int n) {
    __shared__ half2 tile[32][36];
    for (int r = threadIdx.y; r < 32; r += blockDim.y) tile[r][threadIdx.x] = x[r * n + threadIdx.x];
    __syncthreads();
    for (int r = threadIdx.y; r < 32; r += blockDim.y) out[r * n + threadIdx.x] = tile[threadIdx.x][r];
}
"""  # noqa: E501
_LANES = (2, 4)
"""Elements of the vectors that arrays hold."""


class SharedLayout(Pattern):
    """Rows with some elements more than a tile has, positions mixed by an exclusive or, or the
    elements of a thread's vector as far apart as memory has banks, where a neighbour's lie between
    them."""

    name = "layout-of-shared-arrays"
    axis = "smem_layout"
    source = "Harris, An Efficient Matrix Transpose in CUDA C/C++ (2013); CUTLASS, swizzled layouts"
    matches = (
        Case(TURN_THREADS, "padded rows"),
        Case(PRODUCT_THREADS, "padded rows"),
        Case(_SWIZZLED, "xor swizzle"),
        Case(_MATRIX, "xor swizzle"),
        Case(FLASH_TENSORS, "xor swizzle"),
        Case(_PLAIN, "no padding, no swizzle"),
        Case(_BUFFER, PLAIN),
        Case(_BUFFER.replace("row[threadIdx.x] =", "mma.load(row); row[threadIdx.x] ="), HANDED),
        Case(_SPREAD, SPREAD),
        Case(_ONE_MORE, PADDED),
        Case(_PAIRS, PADDED),
    )
    near_misses = (
        NearMiss(
            vary(TURN_THREADS, ("tile[T][T + 1]", "tile[1][T + 1]")),
            why="one row",
            value="padded rows",
        ),
        NearMiss(
            vary(
                _SWIZZLED,
                ("threadIdx.x ^ threadIdx.y]", "__ffs(threadIdx.x ^ threadIdx.y)]"),
                ("threadIdx.y ^ threadIdx.x]", "__ffs(threadIdx.y ^ threadIdx.x)]"),
            ),
            why="which bit is set says where, no number is mixed into the place",
            value="xor swizzle",
        ),
        NearMiss(
            _ONE_MORE.replace("* 9", "* 8"), why="rows lie one behind the other", value=PADDED
        ),
        NearMiss(_PAIRS.replace("[36]", "[32]"), why="rows are as wide as the tile", value=PADDED),
        NearMiss(
            _BUFFER.replace("row[threadIdx.x] =", "mma.load(row); row[threadIdx.x] ="),
            why="who knows how the buffer is laid out",
            value=PLAIN,
        ),
        NearMiss(ADD_THREADS, why="there is no shared array"),
        NearMiss(
            _SPREAD.replace("threadIdx.x + k * 32", "threadIdx.x * 4 + k"),
            why="as the vector lies in memory",
            value=SPREAD,
        ),
        NearMiss(
            vary(_SPREAD, ("acc[j] += v[j]", "acc[j] += v[0] * j")),
            why="a number of the thread's own per row of the array, no element of its vector",
            value=SPREAD,
        ),
        NearMiss(
            vary(_MATRIX, ("(threadIdx.x / 16) ^ (row % 8)", "(threadIdx.x / 16)")),
            why="matrices are loaded where they lie",
            value="xor swizzle",
        ),
        NearMiss(
            FLASH_TENSORS.replace("composition(Swizzle<3, 3, 3>{}, ", "composition("),
            why="rows lie one behind the other",
            value="xor swizzle",
        ),
        NearMiss(_TURNED_OVER, why="the buffer is chosen, no position", value="xor swizzle"),
        NearMiss(_PLAIN, why="rows are as wide as the tile", value="padded rows"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if facts.program is facts.source:
            return
        shared, values = facts.shared, facts.thread_values
        arrays = shared.allocations
        said = {node: _said(facts, node) for node in arrays if node.op.operand("layout")}
        arrays = [node for node in arrays if said.get(node, PLAIN)]
        padded = [n for n in arrays if said.get(n) == PADDED or self._padded(values, n)]
        padded += [] if padded else _apart_by_one_more(facts, shared)
        mixed = [
            where
            for node in facts.threads.of(OpKind.LOAD, OpKind.STORE, *_OF_SHARED)
            if node.op.kind in _OF_SHARED or shared.holds(node.op)
            for n in self._mixing(facts, node)
            if _of_threads(facts, n)
            for where in (node, n)
        ]
        mixed += [node for node in arrays if said.get(node) == SWIZZLED]
        tensors = (n for n in facts.threads.of(OpKind.COPY) if n.op.attribute("layout"))
        mixed += [n for n in tensors if n.op.attribute("layout") == "swizzle"]
        if padded:
            yield self.decide(facts, PADDED, padded)
        if mixed:
            yield self.decide(facts, SWIZZLED, mixed)
        spread = _spread(facts, shared)
        if spread:
            yield self.decide(facts, SPREAD, spread)
        if arrays and not padded and not mixed and not spread:
            value = HANDED if all(_handed_on(facts, n) for n in arrays) else PLAIN
            yield self.decide(facts, value, [*arrays, *self._carved(facts, shared)])

    def _carved(self, facts: Facts, shared: SharedMemory) -> list[Node]:
        """Where memory whose extent the launch gives is divided into arrays of the block."""
        accesses = facts.threads.of(OpKind.LOAD, OpKind.STORE, *ATOMICS)
        places = dict.fromkeys(place for n in accesses if (place := shared.place(n.op)))
        made = [facts.threads.producer(place) for place in places]
        return [
            node
            for node in made
            if node is not None and node.op.kind in _CARVING
            if not facts.threads.roots(node.result, *OWN_THREAD)
        ]

    def _mixing(self, facts: Facts, node: Node) -> list[Node]:
        """Where an address is mixed by arithmetic; what a call finds in a mixed number is no
        place."""
        pointer = node.op.operand("target") or node.op.operand("pointer") or ""
        above = facts.threads.upstream(pointer, lambda n: n.op.kind in _FOUND)
        return [n for n in above if n.op.kind == OpKind.BIT_XOR]

    def _padded(self, values: Values, node: Node) -> bool:
        """True when the innermost extent of several is a little more than a name or whole banks;
        that of vectors where the array holds vectors."""
        if node.op.operand("layout"):
            return False
        extents = [values.expr(v) for v in values.items(node.op.operand("shape"))]
        if len(extents) > 2 and extents[-1].constant in _LANES:
            extents.pop()
        if all(one.constant == 1 for one in extents[:-1]):
            return False  # One row has no next one to lie beside.
        number = extents[-1].constant
        if number is not None:
            return number > BANKS // 2 and 0 < number % (BANKS // 2) <= 8
        return any(not factors and 0 < count <= 8 for factors, count in extents[-1].terms)


def _said(facts: Facts, node: Node) -> str | None:
    """What a layout that the kernel gives says; None when it does not say how rows lie."""
    graph = facts.threads
    made = graph.producer(graph.through(node.op.operand("layout") or "", VIEWS))
    if made is None or made.op.kind != OpKind.LAYOUT:
        return None
    if made.op.operand("interval_padding_pairs"):
        return PADDED
    phases, width = made.op.operand("max_phase"), made.op.operand("swizzle_byte_width")
    known = graph.producer(phases or width)
    number = known.op.attribute("value") if known is not None else None
    if not isinstance(number, int):
        return None
    return SWIZZLED if number > (1 if phases else 0) else PLAIN


def _handed_on(facts: Facts, array: Node) -> bool:
    """Whether bytes that have no rows of their own are handed to something that is not understood:
    who knows how it lays them out."""
    kind = array.op.results[0].type
    rows = array.op.operand("shape") is not None and (kind is None or kind.dtype not in _BYTES)
    opaque = facts.threads.of(OpKind.OPAQUE)
    return not rows and any(facts.threads.rests_on(v, array) for n in opaque for v in n.op.inputs)


def _of_threads(facts: Facts, mixing: Node) -> bool:
    """True when what is mixed differs from thread to thread; a buffer that turns over does not."""
    return any(facts.threads.roots(value, *_PLACES) for value in mixing.op.inputs)


def _apart_by_one_more(facts: Facts, shared: SharedMemory) -> list[Node]:
    """Stores of a loop over the elements of a row, where the next row begins one further on than
    the loop goes."""
    graph, values, found = facts.threads, facts.thread_values, []
    for node in graph.of(OpKind.STORE):
        loop = node.loop if shared.holds(node.op) else None
        made = graph.producer(loop.op.inputs[0]) if loop and loop.op.inputs else None
        if loop is None or made is None or made.op.kind not in _RANGES:
            continue
        low, high = (made.op.operand(role) for role in ("low", "high"))
        ends = values.expr(low if high is None else high)
        step = values.expr(loop.op.regions[-1].arguments[0].name).atom
        place = values.expr(graph.through(node.op.inputs[0], frozenset({OpKind.POINTER_CAST})))
        if step is None or place.coefficient(step).constant != 1 or ends.constant == 1:
            continue
        rows = [place.coefficient(a) for a in {*place.top()} if a != step]
        more = [sub(row, ends).constant for row in rows if row.constant != 1]
        if 1 in more:
            found.append(node)
    return found


def _spread(facts: Facts, shared: SharedMemory) -> list[Node]:
    """Where the rounds over the elements of a vector that a thread loaded put them into shared
    memory, whole rows of banks apart."""
    graph, values = facts.threads, facts.thread_values
    found = []
    for node in graph.of(OpKind.STORE, *ATOMICS):
        if not node.loops or not shared.holds(node.op):
            continue
        pointer = graph.through(node.op.inputs[0], frozenset({OpKind.POINTER_CAST}))
        place = values.expr(pointer)
        for loop in node.loops:
            counter = next(iter(loop.op.regions[-1].arguments), None)
            step = (
                values.expr(counter.name).atom if counter and loop.op.kind == OpKind.FOR else None
            )
            apart = place.coefficient(step).constant if step is not None else None
            if apart and apart % BANKS == 0 and graph.roots(pointer, *OWN_THREAD):
                if counter is not None and _of_vector(
                    graph, node.op.operand("value"), counter.name
                ):
                    found.append(node)
    return found


def _of_vector(graph: Graph, value: str | None, index: str) -> bool:
    """Whether a number is made of the element, of the given number, of what one load brought, or of
    an array that such elements were put into, each at its own place."""
    elements = graph.node_set(graph.of(OpKind.EXTRACT))
    asked = [(value or "", index)]
    seen = {*asked}
    for below, at in asked:
        for node in graph.upstream(below, lambda n: n.op.kind == OpKind.LOAD, elements):
            if node.op.kind != OpKind.EXTRACT or node.op.operand("index") != at:
                continue
            array = graph.through(node.op.inputs[0], _LOOKS)
            if graph.kind_of(array) == OpKind.LOAD:
                return True
            if graph.kind_of(array) == OpKind.EXTRACT:
                continue
            for put in puts(graph, array or ""):
                step = put.op.operand("value") or "", put.op.operand("index") or ""
                if step[1] != at and step not in seen and len(asked) < MAX_ELEMENTS:
                    seen.add(step)
                    asked.append(step)
    return False
