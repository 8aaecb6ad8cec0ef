"""Numbers divided by a scale that the caller gives, and clamped to what few bits can hold."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.patterns.base import Case, NearMiss, Pattern
from extractors.patterns.cases import POINTER, vary
from extractors.patterns.cases_rows_threads import ROW_NORM_THREADS
from kb.analysis.clamps import clamps, opposite
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS, VIEWS, Node
from kb.analysis.quantised import narrowed
from kb.analysis.record_fields import field_of, struct_of
from kb.analysis.symbolic import AtomKind
from kb.evidence import Decision
from kb.ir import ParameterKind
from kb.ops import CONTRACTIONS, REDUCTIONS, OpKind

_LOOKS = VIEWS | CASTS
_TO_OPEN = "given scale before a cast to a type that the caller names"
_OPEN_THREADS = """template <typename T, typename Q>
__global__ void pack(const T* x, Q* out, float by, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) out[at] = (Q)((float)x[at] * by);
}
"""
_BYTES_THREADS = """__device__ int8_t nearest(float x) {
    uint32_t v;
    asm volatile("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(v) : "f"(x));
    return reinterpret_cast<const int8_t&>(v);
}
__global__ void pack(const float* x, int8_t* out, const float* scale, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float by = *scale;
    if (at < n) out[at] = nearest(x[at] / by);
}
"""

GIVEN = """__global__ void pack(const float* x, signed char* out, const float* scale, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float r = 1.f / scale[0];
    if (at < n) out[at] = (signed char)fmaxf(-127.f, fminf(x[at] * r, 127.f));
}
"""
_GIVEN_POINTER = (
    POINTER
    + """
@triton.jit
def pack(x, out, scale, n, T: tl.constexpr):
    at = tl.program_id(0) * T + tl.arange(0, T)
    v = tl.load(x + at, mask=at < n, other=0.0) / tl.load(scale)
    v = tl.minimum(tl.maximum(v, -448.0), 448.0)
    tl.store(out + at, v.to(tl.float8e4nv), mask=at < n)
"""
)
_CLAMPED = vary(
    _GIVEN_POINTER,
    ("tl.minimum(tl.maximum(v, -448.0), 448.0)", "tl.clamp(v, min=-448.0, max=448.0)"),
)
_BY_TYPE = vary(
    _GIVEN_POINTER,
    ("import triton.language as tl\n", """import triton.language as tl
@triton.jit
def bounded(v, dtype):
    if dtype == tl.float8e4nv:
        low = -448.0
        high = 448.0
    elif dtype == tl.float8e5:
        low = -57344.0
        high = 57344.0
    else:
        tl.static_assert(False, "no such type")
    return tl.clamp(v, low, high)
"""),
    ("tl.minimum(tl.maximum(v, -448.0), 448.0)", "bounded(v, out.dtype.element_ty)"),
)  # fmt: skip
_RANGE = vary(
    _GIVEN_POINTER,
    ("scale, n,", "scale, n, low, high,"),
    ("    v = tl.minimum(tl.maximum(v, -448.0), 448.0)\n", ""),
    ("v.to(tl.float8e4nv)", "tl.clamp(v, low, high).to(tl.float8e4nv)"),
)
_SATURATED = vary(_GIVEN_POINTER, ("    v = tl.minimum(tl.maximum(v, -448.0), 448.0)\n", ""))
_EITHER = vary(
    _SATURATED,
    ("v.to(tl.float8e4nv)", "v.to(tl.float8e4b8 if OLD else tl.float8e4nv)"),
    ("T: tl.constexpr", "T: tl.constexpr, OLD: tl.constexpr"),
)
_ZEROED = """__global__ void quantise(const float* x, const float* scale, unsigned short* out, int n, float zero, float most) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    float v = rintf(x[at] / scale[0]) + zero;
    out[at] = (unsigned short)fminf(fmaxf(v, 0.0f), most);
}
"""  # noqa: E501


_LARGEST = """template <typename T> constexpr T most = std::numeric_limits<T>::max();
template <typename T, typename F> __device__ T narrow(const F& x) { static_assert(sizeof(F) == 0); }
template <> __device__ __nv_fp8_e4m3 narrow<__nv_fp8_e4m3, float>(const float& x) {
    return __nv_fp8_e4m3(x);
}
template <typename T>
__global__ void few(const float* x, const float* scale, T* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float r = 1.f / *scale;
    if (at < n) out[at] = narrow<T, float>(fmaxf(-most<T>, fminf(x[at] * r, most<T>)));
}
"""


_UNDER_MASK = """__global__ void put(const float* x, const int* to, const float* scale,
                    __nv_fp8_e4m3* out, int n) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n) return;
    int place = to[at];
    if (place >= 0) out[place] = __nv_fp8_e4m3(x[at] / *scale);
}
"""
_OF_ITS_OWN = """__global__ void pack(const float* x, signed char* out, int n) {
    __shared__ int most[32];
    most[threadIdx.x] = 0;
    __syncthreads();
    float v = x[blockIdx.x * 256 + threadIdx.x];
    atomicMax(&most[threadIdx.x / 8], __float_as_int(fabsf(v)));
    __syncthreads();
    float by = __int_as_float(most[threadIdx.x / 8]) / 127.f;
    out[blockIdx.x * 256 + threadIdx.x] = (signed char)fmaxf(-127.f, fminf(v / by, 127.f));
}
"""


class GivenScale(Pattern):
    """A tile is divided by a number that is loaded or given, or multiplied by its reciprocal, then
    held between a bound and its negative, and stored."""

    name = "given-scale-clamped-to-the-range"
    axis = "quant_scaling"
    source = "Micikevicius et al., FP8 Formats for Deep Learning (2022), section 3: scale, saturate"
    matches = (
        Case(_BYTES_THREADS, "given scale before a cast to few bits"),
        Case(_ZEROED, "given scale, clamped to the range of the type"),
        Case(GIVEN, "given scale, clamped to the range of the type"),
        Case(_CLAMPED, "given scale, clamped to the range of the type"),
        Case(_BY_TYPE, "given scale, clamped to the range of the type"),
        Case(_RANGE, "given scale, clamped to the range of the type"),
        Case(_SATURATED, "given scale before a cast to few bits"),
        Case(_EITHER, "given scale before a cast to few bits"),
        Case(_OPEN_THREADS, _TO_OPEN),
        Case(_GIVEN_POINTER, "given scale, clamped to the range of the type"),
        Case(_LARGEST, "given scale, clamped to the range of the type"),
        Case(_UNDER_MASK, "given scale before a cast to few bits"),
    )
    near_misses = (
        NearMiss(_BYTES_THREADS.replace("x[at] / by", "x[at]"), why="nothing scales"),
        NearMiss(vary(_EITHER, ("float8e4b8 if", "float32 if")), why="whole floats by a flag"),
        NearMiss(_OPEN_THREADS.replace("Q", "T"), why="the type of what is scaled"),
        NearMiss(_OPEN_THREADS.replace(" * by", " + by"), why="shifted, not scaled"),
        NearMiss(
            vary(_LARGEST, ("fmaxf(-most<T>, ", "fmaxf(-most<float>, ")),
            why="the bounds are those of two types",
            value="given scale, clamped to the range of the type",
        ),
        NearMiss(vary(GIVEN, ("x[at] * r", "x[at]")), why="clamped, but nothing is scaled"),
        NearMiss(
            vary(GIVEN, ("-127.f", "0.f")),
            why="one bound is not the other's negative",
            value="given scale, clamped to the range of the type",
        ),
        NearMiss(
            vary(_BY_TYPE, ("low = -57344.0", "low = 0.0")),
            why="one bound is not the other's negative for one of the types",
            value="given scale, clamped to the range of the type",
        ),
        NearMiss(
            vary(_SATURATED, ("v.to(tl.float8e4nv)", "v.to(tl.float16)")),
            why="scaled, but neither clamped nor cast to few bits",
        ),
        NearMiss(
            vary(_RANGE, (").to(tl.float8e4nv)", ")")), why="a number between two others stays one"
        ),
        NearMiss(_UNDER_MASK.replace("*scale)", "scale[at])"), why="elements have their scales"),
        NearMiss(_OF_ITS_OWN, why="scaled by the largest of the numbers themselves"),
        NearMiss(ROW_NORM_THREADS, why="scaled by what the row itself gives"),
        NearMiss(
            vary(GIVEN, ("fmaxf(-127.f, fminf(x[at] * r, 127.f))", "max(x[at] * r)")),
            why="a function of one value is no bound",
        ),
    )

    def find(self, facts: Facts) -> Iterable[Decision]:
        found = given_scales(facts)
        if found:
            yield self.decide(facts, "given scale, clamped to the range of the type", found)
            return
        cast = [
            node
            for narrow, scaled in narrowed(facts)
            if _by_given(facts, scaled)
            for node in (*_read(facts, scaled), *_inverses(facts, scaled), scaled, narrow)
        ]
        if cast:
            yield self.decide(facts, "given scale before a cast to few bits", cast)
        elif open_ := _to_open_type(facts):
            yield self.decide(facts, _TO_OPEN, open_)


def _read(facts: Facts, scaled: Node) -> list[Node]:
    """The load of the number that scales, one for all lanes; none where several make it."""
    sides = scaled.op.inputs[:2]
    pairs = (sides,) if scaled.kind == OpKind.DIV else (sides, sides[::-1])
    for tile, scale in pairs:
        if _scales(facts, tile, scale):
            loads = facts.feeding(scale)
            one = len(loads) == 1 and not any(i.has(AtomKind.LANE) for i in loads[0].index)
            return [a.node for a in loads] if one else []
    return []


def _inverses(facts: Facts, scaled: Node) -> list[Node]:
    """Where the factor of a product is one over a number."""
    made = [facts.graph.producer(facts.graph.plain(v)) for v in scaled.op.inputs[:2]]
    whole = [n for n in made if n is not None and n.kind == OpKind.DIV]
    return [n for n in whole if facts.number(n.op.inputs[0]) == 1]


def _to_open_type(facts: Facts) -> list[Node]:
    """Of threads: loaded numbers that a number of the call multiplies right before they are cast to
    a type parameter that is the type of none of them, and stored; nothing is reduced on the way."""
    found: list[Node] = []
    for store in facts.stores if facts.of_threads and not facts.contractions else ():
        cast = facts.graph.producer(facts.graph.plain(store.value))
        if cast is None or cast.kind not in CASTS:
            continue
        to = facts.types.dtype(cast.result)
        scaled = facts.graph.producer(facts.graph.plain(cast.op.inputs[0]))
        if scaled is None or scaled.kind != OpKind.MUL or not to.startswith("dtypeof("):
            continue
        loads = facts.feeding(scaled.result)
        reduced = facts.graph.roots(scaled.result, *REDUCTIONS)
        if reduced or any(facts.types.dtype(a.value) == to for a in loads):
            continue
        for tile, scale in (scaled.op.inputs[:2], scaled.op.inputs[1::-1]):
            if facts.feeding(tile) and _of_call(facts, scale):
                found += [scaled, cast]
    return found


def _of_call(facts: Facts, scale: str) -> bool:
    """A floating-point number that the caller hands over, perhaps in a struct."""
    core = facts.graph.core(scale)
    name = field_of(facts.graph, core) or core or ""
    entry = facts.kernel.entry
    given = {p.name for p in entry.parameters if p.kind is not ParameterKind.CONSTEXPR}
    return (struct_of(entry, name) or name) in given and facts.types.wide(scale)


def given_scales(facts: Facts) -> list[Node]:
    """Clamps between two bounds, with the product or quotient by a given number below."""
    found: list[Node] = []
    for outer, inner, low, high in clamps(facts):
        scaled = _scaled(facts, inner, (low, high))
        held = opposite(facts, low, high) or _range(facts, outer, low, high)
        if scaled and held and facts.stored_in(outer.result):
            found += [outer, inner, *scaled]
    return found


def _range(facts: Facts, outer: Node, low: str, high: str) -> bool:
    """Two bounds that the caller gives, or zero and one, of what is cast before it is stored."""
    given = {p.name for p in facts.kernel.entry.parameters}
    bounds = {v for v in (low, high) if facts.values.literal(v) != 0}
    return (
        bool(bounds)
        and bounds <= given
        and any(u.kind in CASTS for u in facts.graph.users(outer.result))
    )


def _scaled(facts: Facts, inner: Node, bounds: tuple[str, str]) -> list[Node]:
    """The product or quotient of a tile and a given number right below a clamp."""
    for value in (v for v in inner.op.inputs[:2] if v not in bounds):
        made = _below(facts, facts.graph.producer(facts.graph.through(value, _LOOKS)))
        if made is None or made.op.kind not in (OpKind.MUL, OpKind.DIV):
            continue
        sides = made.op.inputs[:2]
        for tile, scale in (sides, sides[::-1]):
            if _scales(facts, tile, scale):
                above = facts.graph.producer(facts.graph.core(scale))
                once = above is not None and above.op.kind == OpKind.DIV
                return [made, *([above] if above is not None and once else [])]
    return []


def _below(facts: Facts, made: Node | None) -> Node | None:
    """What is rounded, and moved by a zero that is given."""
    for _ in range(3):
        if made is None or made.op.kind not in (OpKind.ADD, OpKind.SUB, OpKind.EXTERN_MATH):
            break
        if made.op.kind == OpKind.EXTERN_MATH and len(made.op.inputs) != 1:
            break
        tiles = [v for v in made.op.inputs[:2] if facts.feeding(v)]
        rest = [v for v in made.op.inputs[:2] if v not in tiles]
        if len(tiles) != 1 or not all(_given(facts, v) for v in rest):
            break
        made = facts.graph.producer(facts.graph.through(tiles[0], _LOOKS))
    return made


def _by_given(facts: Facts, scaled: Node) -> bool:
    """Whether a loaded or computed tile is scaled by a given number."""
    sides = scaled.op.inputs[:2]
    pairs = (sides,) if scaled.kind == OpKind.DIV else (sides, sides[::-1])
    return any(_scales(facts, tile, scale) for tile, scale in pairs)


def _scales(facts: Facts, tile: str, scale: str) -> bool:
    """Whether loaded numbers are scaled by one that is given, not made of numbers of the same
    array."""
    loads = facts.feeding(tile)
    arrays = {a.array for a in loads} - {None}
    made = bool(arrays & {a.array for a in facts.feeding(scale)})
    return bool(loads) and _given(facts, scale) and (not made or _one_place(facts, scale))


def _given(facts: Facts, scale: str) -> bool:
    """A number that one load without lanes gives, or a parameter; perhaps its reciprocal."""
    if isinstance(facts.values.literal(scale), int | float):
        return False
    if facts.types.shape(scale) and not _one_place(facts, scale):
        return False
    if facts.graph.roots(scale, *REDUCTIONS, *CONTRACTIONS):
        return False
    loads = facts.feeding(scale)
    names = {p.name for p in facts.kernel.entry.parameters}
    given = any(v in names for n in facts.graph.upstream(scale) for v in n.op.inputs)
    return bool(loads) or given or scale in names


def _one_place(facts: Facts, scale: str) -> bool:
    """Whether a load, if under a mask of lanes, reads the same place for all of them."""
    made = facts.graph.producer(facts.graph.through(scale, _LOOKS))
    access = facts.access(made) if made is not None and facts.of_threads else None
    return access is not None and all(i.constant is not None for i in access.index)
