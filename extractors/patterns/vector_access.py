"""How many bits one thread moves in one access."""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import prod

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import ADD_POINTER, COPY
from extractors.patterns.cases_rows_threads import ADD_THREADS
from kb.analysis.accesses import BULK, Access
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, COPIES, Graph, Node
from kb.analysis.layouts import distributed
from kb.analysis.symbolic import AtomKind, Expr
from kb.evidence import Decision
from kb.ir import TileType, TypeKind
from kb.ops import OWN_THREAD, REDUCTIONS, OpKind

_BITS = {"f64": 64, "i64": 64, "u64": 64, "f32": 32, "i32": 32, "u32": 32, "f16": 16, "bf16": 16,
         "i16": 16, "u16": 16, "i8": 8, "u8": 8, "f8e4m3": 8, "f8e5m2": 8}  # fmt: skip
_WORDS = frozenset({"16-bit", "32-bit"})  # no wider than one element of many arrays
_MOVING = CASTS | COPIES | {OpKind.ADD, OpKind.POINTER_CAST}
_TAKING = CASTS | {OpKind.MINIMUM, OpKind.MAXIMUM, OpKind.INSERT, OpKind.IF_EXPRESSION}
_NUMBERED = re.compile(r"(?<=\D)\.\d+$")
"""The number that tells a value of a program from others of its name."""

_WIDE = """__global__ void plus(const float4* x, const float4* y, float4* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) {
        float4 v = x[at], w = y[at];
        out[at] = make_float4(v.x + w.x, v.y + w.y, v.z + w.z, v.w + w.w);
    }
}
"""
_CHOSEN = """template <typename T, int N> struct Pack {
    T data[N];
    __device__ void load(const T* p) { for (int i = 0; i < N; ++i) data[i] = p[i]; }
    __device__ void store(T* p) { for (int i = 0; i < N; ++i) p[i] = data[i]; }
    __device__ T& operator[](int i) { return data[i]; }
};
template <int W>
__global__ void twice(const float* x, float* out, int n) {
    int at = (blockIdx.x * blockDim.x + threadIdx.x) * W;
    Pack<float, W> v;
    v.load(x + at);
    for (int k = 0; k < W; ++k) v[k] = v[k] + v[k];
    v.store(out + at);
}
"""
_MOVED = vary(
    _CHOSEN,
    (
        "    __device__ T& operator",
        "    static __device__ void copy(T* to, const T* from) {\n"
        "        for (int i = 0; i < N; ++i) to[i] = from[i];\n    }\n    __device__ T& operator",
    ),
    ("    Pack<float, W> v;\n    v.load(x + at);\n", ""),
    ("    for (int k = 0; k < W; ++k) v[k] = v[k] + v[k];\n", ""),
    ("    v.store(out + at);\n", "    Pack<float, W>::copy(out + at, x + at);\n"),
)
_APART = """__global__ void halves(const float4* x, float* out, float* sums, int n) {
    float sum = 0.f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float4 v = x[blockIdx.x * n + i];
        const float own[4] = {v.x, v.y, v.z, v.w};
        for (int k = 0; k < 4; ++k) {
            out[(blockIdx.x * n + i) * 4 + k] = own[k] / 2.f;
            sum += own[k];
        }
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}
"""
_COPIED = """__global__ void stage(const float* x, float* out, int n) {
    __shared__ float part[1024];
    unsigned to = __cvta_generic_to_shared(part + threadIdx.x * 4);
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %0, 0;\\n"
                 " @p cp.async.cg.shared.global [%1], [%2], 16; }"
                 ::"r"((int)(threadIdx.x * 4 < n)), "r"(to), "l"(x + threadIdx.x * 4));
    asm volatile("cp.async.wait_all;");
    __syncthreads();
    out[threadIdx.x] = part[threadIdx.x];
}
"""
_SIZED = """template <typename T, int W> __global__ void stage(const T* x, T* out) {
    __shared__ T part[1024];
    __pipeline_memcpy_async(part + threadIdx.x * W, x + threadIdx.x * W, sizeof(T) * W);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    for (int k = 0; k < W; ++k) out[threadIdx.x * W + k] = part[threadIdx.x * W + k] * (T)2;
}
"""
_TRAITS = """template <typename T, int N> struct Vec {
    using Whole = typename Bytes<N * sizeof(T)>::Type;
    using Held = union { Whole all; T each[N]; };
    Held data;
    __device__ void read(const void* from, const size_t at) {
        this->data.all = static_cast<const Whole*>(from)[at];
    }
    __device__ void write(void* to, const size_t at) {
        static_cast<Whole*>(to)[at] = this->data.all;
    }
};
template <typename T, int N> __global__ void twice(const void* x, void* out) {
    Vec<T, N> v;
    v.read(x, blockIdx.x * blockDim.x + threadIdx.x);
    for (int k = 0; k < N; ++k) v.data.each[k] = v.data.each[k] + v.data.each[k];
    v.write(out, blockIdx.x * blockDim.x + threadIdx.x);
}
"""
_CARRIED = """template <typename T, typename V> __global__ void bound(T* x, int n) {
    constexpr int W = sizeof(V) / sizeof(T);
    int at = (blockIdx.x * blockDim.x + threadIdx.x) * W;
    T own[W];
    *reinterpret_cast<V*>(own) = *reinterpret_cast<V*>(x + at);
    for (int k = 0; k < W; ++k) own[k] = own[k] > (T)n ? (T)n : own[k];
    *reinterpret_cast<V*>(x + at) = *reinterpret_cast<V*>(own);
}
"""
_UNKNOWN = """#include "packs.cuh"
template <int W>
__global__ void twice(Pack<float, W>* x, Pack<float, W>* out, float rate) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    Pack<float, W> v = x[at];
    v *= rate;
    out[at] = v;
}
"""
_FIELDS = """template <typename P> __global__ void clip(P given) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < given.count; i += gridDim.x * blockDim.x)
        given.out[i] = fminf(static_cast<float>(given.x[i]), 6.f);
}
"""  # noqa: E501
_GIVEN_GLUON = """from triton.experimental import gluon
from triton.experimental.gluon import language as gl

@gluon.jit
def copy(x, out, n, T: gl.constexpr):
    place: gl.constexpr = gl.BlockedLayout([4], [32], [8], [0])
    at = gl.program_id(0) * T + gl.arange(0, T, layout=place)
    gl.store(out + at, gl.load(x + at, mask=at < n), mask=at < n)
"""
_PROMISED = vary(
    ADD_POINTER,
    ("    inside = at < n\n", "    at = tl.max_contiguous(tl.multiple_of(at, T), T)\n    inside = at < n\n"),  # noqa: E501
)  # fmt: skip


class VectorAccess(Pattern):
    """The elements of one load or store of a thread; or a promise that lets the compiler choose."""

    name = "vector-width-of-an-access"
    axis = "vector_width"
    source = "NVIDIA, CUDA C++ Programming Guide, device memory accesses: 1 to 16 bytes per access"
    matches = (
        Case(_WIDE, "128-bit"),
        Case(vary(_WIDE, ("float4", "float2"), (", v.z + w.z, v.w + w.w", "")), "64-bit"),
        Case(_CHOSEN, "W elements"),
        Case(ADD_THREADS, "scalar"),
        Case(_COPIED, "128-bit"),
        Case(_SIZED, "W elements"),
        Case(_APART, "128-bit"),
        Case(_APART, "scalar"),
        Case(_MOVED, "W elements"),
        Case(_TRAITS, "several elements"),
        Case(_CARRIED, "W elements"),
        Case(_FIELDS, "scalar"),
        Case(_PROMISED, "compiler, by proven divisibility"),
        Case(_GIVEN_GLUON, "4 elements of a layout"),
        Case(_GIVEN_GLUON.replace("[4]", "[1]"), "1 elements of a layout"),
    )
    near_misses = (
        NearMiss(_WIDE, why="four elements move together", value="scalar"),
        NearMiss(
            vary(_APART, ("            out[(blockIdx.x * n + i) * 4 + k] = own[k] / 2.f;\n", "")),
            why="one number of a row beside its vectors",
            value="scalar",
        ),
        NearMiss(_CARRIED, why="vectors of an open type move", value="scalar"),
        NearMiss(ADD_THREADS, why="one element moves", value="128-bit"),
        NearMiss(
            vary(
                _SIZED,
                ("int W>", "typename U>"),
                ("const T* x, T* out", "const T* x, T* out, int W"),
            ),
            why="how many elements move is known at run time alone",
            value="W elements",
        ),
        NearMiss(
            vary(_FIELDS, ("fminf(static_cast<float>(given.x[i]), 6.f)", "given.x[i]")),
            why="nothing tells what an element is",
        ),
        NearMiss(_UNKNOWN, why="the header that says what moves is not there"),
        NearMiss(
            _MOVED.replace("to[i] = from[i]", "to[i] = from[i] + from[i]"),
            why="a loop that doubles element by element",
            value="W elements",
        ),
        NearMiss(
            _TRAITS.replace("v.data.each[k] = v.data.each[k] + v.data.each[k]", "v.data.all += k"),
            why="nothing says that what moves has elements",
        ),
        NearMiss(PRODUCT_POINTER, why="nothing is promised of the positions"),
        NearMiss(
            _GIVEN_GLUON.replace("gl.BlockedLayout([4], [32], [8], [0])", "gl.AutoLayout()"),
            why="the compiler finds a layout",
        ),
        NearMiss(COPY, why="tiles of views carry no such promise"),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        if not facts.of_threads:
            promises = facts.graph.of(OpKind.MULTIPLE_OF, OpKind.MAX_CONTIGUOUS)
            if promises:
                yield self.decide(facts, "compiler, by proven divisibility", promises)
            yield from self._of_layouts(facts)
            return
        found: dict[str, list[Node]] = {}
        for node in facts.threads.of(OpKind.LOAD, OpKind.STORE, OpKind.ASYNC_COPY):
            copied = node.op.kind == OpKind.ASYNC_COPY
            value = _copied(facts, node) if copied else self._value(self._moved(facts, node))
            if node.op.attribute("space") != "shared" and value:
                found.setdefault(value, []).append(node)
        wide = {value: nodes for value, nodes in found.items() if value != "scalar"}
        if not wide and self._unknown(facts):
            packed = [n for n in facts.threads.of(OpKind.LOAD, OpKind.STORE) if _packed(facts, n)]
            if packed:
                yield self.decide(facts, "several elements", packed)
            return
        if wide:
            beside = _streamed(facts, found.get("scalar", []), wide)
            wide = {value: [*_seen_wide(facts, nodes), *nodes] for value, nodes in wide.items()}
            found = {**wide, "scalar": beside} if beside else wide
        for value, nodes in found.items():
            walked = _walked(facts, nodes) if value == "scalar" else []
            yield self.decide(facts, value, [*nodes, *walked])

    def _of_layouts(self, facts: Facts) -> Iterable[Decision]:
        """The run of elements that a layout gives every thread of a tile that is moved."""
        graph, found = facts.graph, dict[str, list[Node]]()
        for access in facts.accesses:
            if access.mode in BULK or len(facts.types.shape(access.value)) == 0:
                continue
            address = access.node.op.operand("pointer") or ""
            for node in graph.upstream(address, lambda n: n.op.operand("layout") is not None):
                layout = distributed(graph, node.op.operand("layout"))
                runs = layout.op.operand("size_per_thread") if layout is not None else None
                if layout is None or runs is None:
                    continue
                extents = [str(facts.values.expr(v)) for v in facts.values.items(runs)]
                each = [extent for extent in extents if extent != "1"]
                value = " * ".join(name if name.isdigit() else "several" for name in each) or "1"
                number = facts.values.expr(facts.values.items(runs)[-1]).atom
                if len(each) == 1 and number is not None and number.value in facts.constexprs:
                    value = number.value
                where = found.setdefault(f"{value} elements of a layout", [])
                where += [layout, *_given(graph, runs)]
        for value, nodes in found.items():
            yield self.decide(facts, value, dict.fromkeys(nodes))

    def _unknown(self, facts: Facts) -> bool:
        """Whether the loads of threads at places of their own move what nobody knows the type of:
        these may be the vectors."""
        loads = [n for n in facts.threads.of(OpKind.LOAD) if n.op.attribute("space") != "shared"]
        return any(
            self._moved(facts, n) is None and facts.threads.roots(n.op.inputs[0], *OWN_THREAD)
            for n in loads
        )

    def _moved(self, facts: Facts, node: Node) -> TileType | None:
        """The type of what is loaded or stored; None when nobody knows what the pointer points
        at."""
        if node.op.kind == OpKind.LOAD:
            moved = node.op.results[0].type or _as_one(facts, node)
            return _taken_apart(facts, node, moved)
        at = _type_of(facts, node.op.operand("pointer") or "")
        moved = _type_of(facts, node.op.operand("value") or "")
        several = moved is not None and moved.kind == TypeKind.TILE and moved.shape
        if at is not None and at.dtype == TileType(at.kind).dtype and not several:
            return None
        return _taken_apart(facts, node, moved)

    def _value(self, moved: TileType | None) -> str:
        if moved is None or moved.kind not in (TypeKind.TILE, TypeKind.SCALAR):
            return ""
        extents = [extent for extent in moved.shape if extent != "1"]
        if "?" in extents:
            return ""
        if not extents:
            return "scalar"
        if moved.dtype in _BITS and all(extent.isdigit() for extent in extents):
            return f"{prod(map(int, extents)) * _BITS[moved.dtype]}-bit"
        names = [_NUMBERED.sub("", extent) for extent in extents]
        if any(name.startswith(".") for name in names):
            return "several elements"
        return f"{' * '.join(names)} elements"


def _given(graph: Graph, runs: str) -> list[Node]:
    """Where a kernel computes the run of elements itself."""
    return [n for n in graph.upstream(runs) if n.op.kind not in (OpKind.CONST, OpKind.LIST)]


def _taken_apart(facts: Facts, node: Node, moved: TileType | None) -> TileType | None:
    """What moves: a register array, where its bits move as one number of a type of its own."""
    graph = facts.threads
    if moved is None or moved.shape:
        return moved
    if node.op.kind == OpKind.LOAD:
        casts = [n for n in graph.users(node.result) if n.op.kind == OpKind.BITCAST]
        kinds = [n.op.results[0].type for n in casts]
    else:
        made = graph.producer(node.op.operand("value"))
        casts = [made] if made is not None and made.op.kind == OpKind.BITCAST else []
        kinds = [_type_of(facts, n.op.inputs[0]) for n in casts]
    return next((k for k in kinds if k is not None and k.kind == TypeKind.TILE and k.shape), moved)


def _as_one(facts: Facts, node: Node) -> TileType | None:
    """One number, where what is loaded is converted to one, compared with one, or put among those
    that a thread holds."""
    users = facts.threads.users(node.result)
    for user in users:
        owner = user.parent if user.op.kind == OpKind.YIELD else None
        if owner is not None and owner.op.kind == OpKind.IF_EXPRESSION:
            user = owner
        kind = user.op.results[0].type if user.op.results else None
        if kind is None or user.op.kind not in _TAKING:
            continue
        held = user.op.kind == OpKind.INSERT and len(kind.shape) == 1
        if kind.kind == TypeKind.SCALAR or held:
            return TileType(TypeKind.SCALAR)
    return None


def _type_of(facts: Facts, value: str) -> TileType | None:
    made = facts.threads.producer(value)
    rows = made.op.results if made is not None else ()
    return next((row.type for row in rows if row.name == value), None)


def _packed(facts: Facts, node: Node) -> bool:
    """Whether what moves under a type of its own, known where the kernel is compiled, is a field
    whose elements another field names."""
    graph = facts.threads
    address = graph.upstream(node.op.inputs[0], lambda n: n.op.kind not in _MOVING)
    shared = node.op.attribute("space") == "shared"
    if shared or not any(n.op.kind == OpKind.POINTER_CAST for n in address):
        return False
    if node.op.kind == OpKind.STORE:
        field = graph.producer(node.op.operand("value"))
        if field is None or field.op.kind != OpKind.ATTRIBUTE:
            return False
        above = graph.upstream(field.op.inputs[0])
        return any(n.op.kind == OpKind.INSERT and n.op.operand("index") for n in above)
    users = graph.users(node.result)
    if not any(n.op.kind == OpKind.INSERT and n.op.attribute("name") for n in users):
        return False
    below = graph.downstream(node.result, 400)
    return any(n.op.kind == OpKind.EXTRACT and n.op.operand("index") for n in below)


def _seen_wide(facts: Facts, nodes: list[Node]) -> list[Node]:
    """Where the addresses of wide accesses become those of vectors."""
    graph = facts.threads
    found: dict[Node, None] = {}
    for node in nodes:
        address = node.op.operand("pointer") or next(iter(node.op.inputs), "")
        for cast in graph.upstream(address, lambda n: n.op.kind not in _MOVING):
            kind = cast.op.results[0].type if cast.op.kind == OpKind.POINTER_CAST else None
            if kind is not None and any(extent != "1" for extent in kind.shape):
                found[cast] = None
    return list(found)


def _streamed(facts: Facts, nodes: list[Node], wide: dict[str, list[Node]]) -> list[Node]:
    """Accesses of which neighbouring threads make those of neighbouring elements, where what they
    move is moved in vectors, too, on its way in or out, or where no vector has more than a word:
    not the numbers that a row, or a group of threads, has once."""
    along = {a.node.op.span for a in facts.accesses if any(map(_neighbours, a.index))}
    nodes = [n for n in nodes if n.op.span in along]
    if all(value in _WORDS for value in wide):
        return nodes
    vectors = {n.op.span for many in wide.values() for n in many}
    asked = {n.op.span for n in nodes}
    moved = [a for a in facts.accesses if a.node.op.span in vectors]
    linked = {
        own.node.op.span
        for own in facts.accesses
        if own.node.op.span in asked
        if any(_passes(facts, own, other) for other in moved)
    }
    return [n for n in nodes if n.op.span in linked]


def _passes(facts: Facts, one: Access, other: Access) -> bool:
    """Whether what one access loads is in what the other one stores, element by element: no sum and
    nothing that other threads left in shared memory, in between."""
    load, store = (other, one) if one.is_store else (one, other)
    if load.is_store or not store.is_store or not facts.graph.rests_on(store.value, load.node):
        return False
    shared = {n.op.span for n in facts.threads.of(OpKind.LOAD) if _is_shared(n)}

    def gathered(node: Node) -> bool:
        left = node.op.kind == OpKind.COPY and node.op.span in shared
        return left or node.op.kind in REDUCTIONS

    return bool(facts.graph.made_from([store.value or ""], (load.node,), gathered))


def _is_shared(node: Node) -> bool:
    return node.op.attribute("space") == "shared"


def _walked(facts: Facts, nodes: list[Node]) -> list[Node]:
    """The loops in which every thread begins at its own element."""
    loops = dict.fromkeys(n.loop for n in nodes if n.loop is not None)
    return [x for x in loops if any(facts.threads.roots(v, *OWN_THREAD) for v in x.op.inputs)]


def _neighbours(index: Expr) -> bool:
    """True for a place that grows with the own thread of its row of threads, undivided."""
    return any(
        (atom.kind is AtomKind.LANE and atom.value == "-1")
        or (atom.kind is AtomKind.MOD and any(map(_neighbours, atom.args[:1])))
        for atom in index.top()
    )


def _copied(facts: Facts, node: Node) -> str:
    """The bits of a copy past the registers, or the elements where their type is open; empty when
    nothing says how many, or lanes of a whole tile copy together."""
    made = facts.threads.producer(node.op.operand("bytes"))
    if made is not None and made.op.kind == OpKind.MUL:
        for size, several in (made.op.inputs[:2], made.op.inputs[1::-1]):
            width = facts.threads.producer(facts.threads.core(size))
            number = facts.thread_values.expr(several).atom
            if width is not None and width.op.kind == OpKind.SIZE_OF and number is not None:
                return f"{number.value} elements" if number.value in facts.constexprs else ""
    count = made.op.attribute("value") if made is not None else None
    return f"{8 * count}-bit" if isinstance(count, int) else ""
