"""How many bits one thread moves in one access."""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import prod

from extractors.patterns.base import Case, NearMiss, Pattern, Where
from extractors.patterns.cases import PRODUCT_POINTER, vary
from extractors.patterns.cases_rows import COPY
from extractors.patterns.cases_rows_threads import ADD_THREADS
from extractors.patterns.cases_vectors import (
    VECTORS_APART,
    VECTORS_CARRIED,
    VECTORS_CHOSEN,
    VECTORS_COPIED,
    VECTORS_FIELDS,
    VECTORS_GIVEN_GLUON,
    VECTORS_MOVED,
    VECTORS_PROMISED,
    VECTORS_SEEN,
    VECTORS_SIZED,
    VECTORS_TRAITS,
    VECTORS_UNIFORM,
    VECTORS_UNKNOWN,
    VECTORS_WIDE,
    WORD_OF_FLOATS,
)
from kb.analysis.accesses import BULK, Access
from kb.analysis.declared import declared_at
from kb.analysis.facts import Facts
from kb.analysis.graph import Graph, Node
from kb.analysis.layouts import distributed
from kb.analysis.moved import (
    MOVING,
    NUMBERS,
    as_one,
    given_number,
    is_packed,
    taken_apart,
    type_of,
)
from kb.analysis.sized_vectors import counted, elements, sized
from kb.analysis.symbolic import AtomKind, Expr
from kb.evidence import Decision, Lines
from kb.ir import ParameterKind, TileType, TypeKind
from kb.ops import OWN_THREAD, REDUCTIONS, OpKind

_WORDS = frozenset({"16-bit", "32-bit"})  # no wider than one element of many arrays
_NUMBERED = re.compile(r"(?<=\D)\.\d+$")
"""The number that tells a value of a program from others of its name."""

_LOADED = """#include <cub/block/block_load.cuh>
__global__ void count(const int* x, int* out) {
    typedef cub::BlockLoad<int, 128, 4, cub::BLOCK_LOAD_VECTORIZE> Loader;
    __shared__ typename Loader::TempStorage room;
    int own[4];
    Loader(room).Load(x + blockIdx.x * 512, own);
    out[blockIdx.x * blockDim.x + threadIdx.x] = own[0] + own[3];
}
"""
_BYTES = """template <typename T, int N> struct alignas(16) Pack { T data[N]; };
template <typename T> struct packed { using P = Pack<T, 16 / sizeof(T)>; };
template <typename T>
__global__ void move(const T* x, T* out, int n) {
    using P = typename packed<T>::P;
    for (int at = threadIdx.x; at < n; at += blockDim.x)
        reinterpret_cast<P*>(out)[at] = reinterpret_cast<const P*>(x)[at];
}
"""
_FILLED = """__global__ void fill(int* out, int value, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = value;
}
"""
_CALLED = _LOADED.replace("typedef cub::BlockLoad<", "typedef other::BlockMove<")

_CAST = frozenset({OpKind.POINTER_CAST, OpKind.COPY})
_FLOATS = frozenset({"f16", "bf16", "f32"})


class VectorAccess(Pattern):
    """The elements of one load or store of a thread; or a promise that lets the compiler choose."""

    name = "vector-width-of-an-access"
    axis = "vector_width"
    source = "NVIDIA, CUDA C++ Programming Guide, device memory accesses: 1 to 16 bytes per access"
    matches = (
        Case(VECTORS_WIDE, "128-bit"),
        Case(vary(VECTORS_WIDE, ("float4", "float2"), (", v.z + w.z, v.w + w.w", "")), "64-bit"),
        Case(VECTORS_CHOSEN, "W elements"),
        Case(ADD_THREADS, "scalar"),
        Case(WORD_OF_FLOATS, "64-bit"),
        Case(VECTORS_COPIED, "128-bit"),
        Case(VECTORS_SIZED, "W elements"),
        Case(VECTORS_APART, "128-bit"),
        Case(VECTORS_APART, "scalar"),
        Case(VECTORS_MOVED, "W elements"),
        Case(VECTORS_TRAITS, "several elements"),
        Case(VECTORS_SEEN, "several elements"),
        Case(VECTORS_CARRIED, "W elements"),
        Case(VECTORS_FIELDS, "scalar"),
        Case(VECTORS_PROMISED, "compiler, by proven divisibility"),
        Case(_LOADED, "128-bit"),
        Case(_BYTES, "128-bit"),
        Case(_FILLED, "scalar"),
        Case(VECTORS_GIVEN_GLUON, "4 elements of a layout"),
        Case(VECTORS_GIVEN_GLUON.replace("[4]", "[1]"), "1 elements of a layout"),
        Case(VECTORS_GIVEN_GLUON.replace("[4]", "[T, 1]"), "T elements of a layout"),
    )
    near_misses = (
        NearMiss(
            WORD_OF_FLOATS.replace("__nv_bfloat16* out", "unsigned long long* out"),
            why="words where words lie",
            value="64-bit",
        ),
        NearMiss(VECTORS_WIDE, why="four elements move together", value="scalar"),
        NearMiss(
            vary(
                VECTORS_APART,
                ("            out[(blockIdx.x * n + i) * 4 + k] = own[k] / 2.f;\n", ""),
            ),
            why="one number of a row beside its vectors",
            value="scalar",
        ),
        NearMiss(VECTORS_CARRIED, why="vectors of an open type move", value="scalar"),
        NearMiss(ADD_THREADS, why="one element moves", value="128-bit"),
        NearMiss(VECTORS_UNIFORM, why="one number for all threads"),
        NearMiss(
            vary(
                VECTORS_SIZED,
                ("int W>", "typename U>"),
                ("const T* x, T* out", "const T* x, T* out, int W"),
            ),
            why="how many elements move is known at run time alone",
            value="W elements",
        ),
        NearMiss(
            vary(VECTORS_FIELDS, ("fminf(static_cast<float>(given.x[i]), 6.f)", "given.x[i]")),
            why="nothing tells what an element is",
        ),
        NearMiss(VECTORS_UNKNOWN, why="the header that says what moves is not there"),
        NearMiss(
            VECTORS_MOVED.replace("to[i] = from[i]", "to[i] = from[i] + from[i]"),
            why="a loop that doubles element by element",
            value="W elements",
        ),
        NearMiss(
            VECTORS_TRAITS.replace(
                "v.data.each[k] = v.data.each[k] + v.data.each[k]", "v.data.all += k"
            ),
            why="nothing says that what moves has elements",
        ),
        NearMiss(
            vary(_BYTES, ("16 / sizeof(T)", "16 / sizeof(int)")),
            why="the size of another type says how many",
            value="128-bit",
        ),
        NearMiss(
            _FILLED.replace("out, int value", "out, Pair value"),
            why="nothing tells what a struct that is handed in holds",
            value="scalar",
        ),
        NearMiss(_CALLED, why="a call that nobody can read moves the array"),
        NearMiss(
            _LOADED.replace(", own)", ", own, 500, 0)"),
            why="under a count the elements are loaded one by one",
            value="128-bit",
        ),
        NearMiss(PRODUCT_POINTER, why="nothing is promised of the positions"),
        NearMiss(
            VECTORS_GIVEN_GLUON.replace("gl.BlockedLayout([4], [32], [8], [0])", "gl.AutoLayout()"),
            why="the compiler finds a layout",
        ),
        NearMiss(
            VECTORS_GIVEN_GLUON.replace("([4], [32]", "([], [32]"), why="the layout gives no run"
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
            moved = None if copied else self._moved(facts, node)
            bits = node.op.attribute("bits") or next(iter(sized(facts.threads, moved) or ()), 0)
            bits = bits or _joined(facts, node, moved)
            told = f"{bits}-bit" if bits else self._value(moved)
            value = _copied(facts, node) if copied else told
            if node.op.attribute("space") != "shared" and value:
                found.setdefault(value, []).extend([*counted(facts.threads, moved), node])
        wide = {value: nodes for value, nodes in found.items() if value != "scalar"}
        if not wide and _moved_elsewhere(facts):
            return
        if not wide and self._unknown(facts):
            packed = [n for n in facts.threads.of(OpKind.LOAD, OpKind.STORE) if is_packed(facts, n)]
            if packed:
                where: list[Where] = [*packed, *_named(facts, packed)]
                yield self.decide(facts, "several elements", where)
            return
        if wide:
            beside = _streamed(facts, found.get("scalar", []), wide)
            wide = {v: [*_seen_wide(facts, v, nodes), *nodes] for v, nodes in wide.items()}
            found = {**wide, "scalar": beside} if beside else wide
        for value, nodes in found.items():
            walked = _walked(facts, nodes) if value == "scalar" else []
            if value != "scalar" or any(_of_own_thread(facts, n) for n in nodes):
                named = _named(facts, nodes) if value != "scalar" else []
                yield self.decide(facts, value, dict.fromkeys([*nodes, *walked, *named]))

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
                names = [_named_run(facts, v) for v in facts.values.items(runs)]
                if not names:
                    continue
                value = " * ".join(name for name in names if name != "1") or "1"
                where = found.setdefault(f"{value} elements of a layout", [])
                where += [layout, *_given(graph, runs)]
        for value, nodes in found.items():
            yield self.decide(facts, value, dict.fromkeys(nodes))

    def _unknown(self, facts: Facts) -> bool:
        """Whether threads load, at places of their own, what may be vectors, of no known type."""
        loads = [n for n in facts.threads.of(OpKind.LOAD) if n.op.attribute("space") != "shared"]
        return any(self._moved(facts, n) is None and _of_own_thread(facts, n) for n in loads)

    def _moved(self, facts: Facts, node: Node) -> TileType | None:
        """The type of what moves; None when nobody knows what the pointer points at."""
        if node.op.kind == OpKind.LOAD:
            moved = node.op.results[0].type or as_one(facts, node)
            return taken_apart(facts, node, moved)
        at = type_of(facts, node.op.operand("pointer") or "")
        moved = type_of(facts, node.op.operand("value") or "")
        several = moved is not None and moved.kind == TypeKind.TILE and moved.shape
        if at is not None and at.dtype == TileType(at.kind).dtype and not several:
            return None
        if moved is None and given_number(facts, node.op.operand("value")):
            moved = TileType(TypeKind.SCALAR)
        return taken_apart(facts, node, moved)

    def _value(self, moved: TileType | None) -> str:
        if moved is None or moved.kind not in (TypeKind.TILE, TypeKind.SCALAR):
            return ""
        extents = [extent for extent in moved.shape if extent != "1"]
        if "?" in extents:
            return ""
        if not extents:
            return "scalar"
        if moved.dtype in NUMBERS and all(extent.isdigit() for extent in extents):
            return f"{prod(map(int, extents)) * NUMBERS[moved.dtype]}-bit"
        names = [_NUMBERED.sub("", extent) for extent in extents]
        if any(not name or name.startswith(".") for name in names):
            return "several elements"
        return f"{' * '.join(names)} elements"


def _joined(facts: Facts, node: Node, moved: TileType | None) -> int:
    """The bits of a word that is moved to or from where shorter floats lie; 0 for anything else."""
    pointer = facts.threads.through(node.op.operand("pointer") or "", _CAST)
    at = type_of(facts, pointer or "")
    if at is None or moved is None or moved.kind != TypeKind.SCALAR or at.dtype not in _FLOATS:
        return 0
    wide = NUMBERS.get(moved.dtype, 0) if moved.dtype not in _FLOATS else 0
    return wide if wide > NUMBERS[at.dtype] else 0


def _moved_elsewhere(facts: Facts) -> bool:
    """Whether a call that nobody can read takes an array of the kernel: it may move the data."""
    graph = facts.threads
    arrays = {p.name for p in graph.function.parameters if p.kind is ParameterKind.ARRAY}
    return any(graph.core(v) in arrays for n in graph.of(OpKind.OPAQUE) for v in n.op.inputs)


def _named_run(facts: Facts, extent: str) -> str:
    """The number, or the compile-time parameter, that a run of elements is; else `several`."""
    run = facts.values.expr(extent)
    known = run.atom is not None and run.atom.value in facts.constexprs
    return str(run) if known or run.constant is not None else "several"


def _given(graph: Graph, runs: str) -> list[Node]:
    """Where a kernel computes the run of elements itself."""
    return [n for n in graph.upstream(runs) if n.op.kind not in (OpKind.CONST, OpKind.LIST)]


def _seen_wide(facts: Facts, value: str, nodes: list[Node]) -> list[Node]:
    """Where the addresses of wide accesses become those of vectors; where elements are counted."""
    graph = facts.threads
    found = dict.fromkeys(elements(graph, value, nodes))
    for node in nodes:
        address = node.op.operand("pointer") or next(iter(node.op.inputs), "")
        for cast in graph.upstream(address, lambda n: n.op.kind not in MOVING):
            kind = cast.op.results[0].type if cast.op.kind == OpKind.POINTER_CAST else None
            if kind is not None and any(extent != "1" for extent in kind.shape):
                found[cast] = None
    return list(found)


def _named(facts: Facts, nodes: list[Node]) -> list[Lines]:
    """Where the types of vectors get their names, and the numbers in them theirs."""
    home = facts.kernel.entry.span.path
    seen = dict.fromkeys(nodes)
    for node in nodes:
        address = node.op.operand("pointer") or next(iter(node.op.inputs), "")
        above = facts.threads.upstream(address, lambda n: n.op.kind not in MOVING)
        seen.update((n, None) for n in above if n.op.kind == OpKind.POINTER_CAST)
    return [lines for node in seen for lines in declared_at(node, home)]


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


def _of_own_thread(facts: Facts, node: Node) -> bool:
    """Whether an access is at a place of the thread's own."""
    return bool(facts.threads.roots(node.op.inputs[0], *OWN_THREAD))


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
