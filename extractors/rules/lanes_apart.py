# ruff: noqa: E501
"""Neighbouring lanes of a tile lie a row of the array apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.host.facts import Material
from extractors.host.render import leaves
from extractors.host.values import Expr as HostExpr
from extractors.host.values import Unknown, Value
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.accesses import BULK, Access, Mode
from kb.analysis.facts import Facts
from kb.analysis.graph import Node
from kb.analysis.symbolic import AtomKind, of
from kb.analysis.thread_lanes import apart
from kb.evidence import Finding, Severity

_POINTER = (
    POINTER
    + """
import torch
@triton.jit
def total(x, out, N, K, T: tl.constexpr):
    m, k = tl.program_id(0).to(tl.int64), tl.program_id(1)
    n = tl.arange(0, T)
    v = tl.load(x + m * N * K + n * K + k, mask=n < N, other=0.0)
    tl.store(out + m * K + k, tl.sum(v, axis=0))

def run(x):
    m, n, k = x.shape
    x = x.contiguous()
    out = torch.empty((m, k))
    total[(m, k)](x, out, n, k, triton.next_power_of_2(n))
    return out
"""
)
_TILES = (
    TILE
    + """
import torch
@ct.kernel
def total(x, out, N: int, K: int, T: Int):
    m, k = ct.bid(0), ct.bid(1)
    n = ct.arange(T, dtype=ct.int32)
    v = ct.gather(x, m * N * K + n * K + k)
    ct.scatter(out, m * K + k, ct.sum(v, axis=0))

def run(x):
    m, n, k = x.shape
    x = x.contiguous().view(-1)
    out = torch.empty((m * k,))
    ct.launch(None, (m, k, 1), total, (x, out, n, k, 1024))
    return out
"""
)

_THREADS = """
__global__ void twice(const float* x, float* out, int n) {
  for (int k = 0; k < 4; ++k) {
    int at = (blockIdx.x * 256 + threadIdx.x) * 4 + k;
    out[at] = 2.0f * x[at];
  }
}
"""


class LanesApart(Rule):
    """Every lane of each tile that is read is multiplied with an extent of the problem before it is
    added to the address: neighbouring lanes are that many elements apart, and each reads a sector
    of its own."""

    name = "lanes-apart"
    dialects = ("cuda", "cutile", "triton")
    matches = (
        Case(_POINTER, "`x`"),
        Case(_TILES, "`x`"),
        Case(_THREADS, "4 elements apart"),
        Case(
            vary(
                _THREADS,
                ("__global__", "template <int W> __global__"),
                ("* 4", "* W"),
                ("k < 4", "k < W"),
            ),
            "W elements apart",
        ),
    )
    near_misses = (
        NearMiss(
            vary(_THREADS, ("threadIdx.x) * 4 + k", "threadIdx.x) + k * n")),
            why="neighbouring threads take neighbouring elements in each round",
        ),
        NearMiss(
            vary(_THREADS, ("for (int k = 0; k < 4; ++k) {", "{"), ("threadIdx.x) * 4 + k",
                 "threadIdx.x) * 4"), ("out[at] = 2.0f * x[at];",
                 "*(float4*)(out + at) = *(const float4*)(x + at);")),
            why="each thread moves all of its elements at once",
        ),
        NearMiss(
            vary(_THREADS, ("  for (int k", "  if (n % 4 == 0) {\n    int at = (blockIdx.x * 256 + threadIdx.x) * 4;\n"
                  "    *(float4*)(out + at) = *(const float4*)(x + at);\n    return;\n  }\n  for (int k")),
            why="the rest of what is moved in vectors",
        ),
        NearMiss(
            vary(_THREADS, ("const float* x", "const float* x, const int* order"),
                 ("threadIdx.x) * 4 + k", "order[threadIdx.x]) * 4")),
            why="where the elements lie is read from memory",
        ),
        NearMiss(
            vary(_POINTER, ("n * K + k", "k * N + n")), why="lanes lie side by side"
        ),
        NearMiss(
            vary(
                _POINTER,
                ("tl.program_id(1)\n", "tl.arange(0, 16)\n"),
                ("n * K + k, mask=n < N", "n[:, None] * K + k[None, :], mask=n[:, None] < N"),
            ),
            why="lanes of the other axis lie side by side",
        ),
        NearMiss(
            vary(_POINTER, ("tl.sum(v, axis=0)", "tl.sum(v * tl.load(w + n), axis=0)"),
                 ("def total(x, out", "def total(x, w, out"),
                 ("(x, out, n, k, tri", "(x, x, out, n, k, tri")),
            why="others lie side by side",
        ),
        NearMiss(
            vary(_POINTER, ("(x, out, n, k, triton", "(x, out, n, x.stride(1), triton")),
            why="a stride, which may be 1",
        ),
        NearMiss(vary(_POINTER, ("(x, out, n, k, triton", "(x, out, n, 1, triton")), why="it is 1"),
    )  # fmt: skip
    seen = (Seen("flag-gems", "flag_gems/ops/argmin.py", "argmin_kernel", 183),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material, facts = subject.host.material, subject.facts
        if facts.of_threads:
            yield from self._threads(subject)
            return
        if material is None or not material.launches:
            return
        found: dict[str, list[Access]] = {}
        apart: dict[str, None] = {}
        for access in facts.accesses:
            names = sorted(_factors(facts, access)) if access.array is not None else []
            extents = [name for name in names if _extent(material, facts, name)]
            if extents and access.array is not None:
                found.setdefault(access.array, []).append(access)
                apart.update(dict.fromkeys(extents))
            elif not access.is_store and _tile(access):
                return  # what is read beside may be most of what is moved
        if found:
            arrays = ", ".join(f"`{name}`" for name in found)
            by = ", ".join(f"`{name}`" for name in apart)
            yield self.finding(
                subject,
                f"neighbouring lanes of {arrays} lie {by} elements apart: where that is more than "
                "1, each lane takes a memory transaction of its own for one element",
                "give lanes to the innermost axis, several of its places in one block",
                [
                    place
                    for row in found.values()
                    for access in row
                    for place in _made(facts, access, apart)
                ],
                Severity.NOTE,
            )

    def _threads(self, subject: Subject) -> Iterator[Finding]:
        """Threads of a warp that each have elements of their own, side by side for the thread and
        not for the warp."""
        found: dict[str, list[Access]] = {}
        told: dict[str, None] = {}
        for one in apart(subject.facts):
            if one.access.array is not None:
                found.setdefault(one.access.array, []).append(one.access)
                told[one.elements] = None
        if found:
            arrays = ", ".join(f"`{name}`" for name in found)
            by = " or ".join(told)
            unless = "" if all(one.isdigit() for one in told) else ", where that is more than 1,"
            yield self.finding(
                subject,
                f"neighbouring threads of {arrays} lie {by} elements apart and move fewer at "
                f"once: a load or store of a warp{unless} touches more memory than it moves",
                "let neighbouring threads take neighbouring elements, or let each thread move all "
                "of its elements in one vector",
                [access for row in found.values() for access in row],
                Severity.NOTE,
            )


def _made(facts: Facts, access: Access, extents: Iterable[str]) -> list[Access | Node]:
    """An access, and where its lanes are multiplied."""
    users = [node for name in extents for node in facts.graph.users(name)]
    return [
        access,
        *(
            node
            for node in users
            if facts.values.expr(node.result).has(AtomKind.LANE)
            and any(facts.graph.rests_on(value, node) for value in access.address)
        ),
    ]


def _tile(access: Access) -> bool:
    """Whether an access is of more than one element."""
    return access.mode in BULK or any(index.has(AtomKind.LANE) for index in access.index)


def _factors(facts: Facts, access: Access) -> set[str]:
    """Parameters that every lane of an access is multiplied with; none where some lanes lie side
    by side, or anything about them is not known."""
    if access.mode not in (Mode.POINTER, Mode.ELEMENT) or len(access.index) != 1:
        return set()
    index = access.index[0]
    if index.has(AtomKind.LOADED, AtomKind.OPAQUE, AtomKind.CHOICE):
        return set()
    found: list[set[str]] = []
    for factors, _ in index.terms:
        if not any(of(atom).has(AtomKind.LANE) for atom in factors):
            continue
        if not any(atom.kind is AtomKind.LANE for atom in factors):
            return set()
        found.append({atom.value for atom in factors if atom.kind is AtomKind.PARAMETER})
    return set.intersection(*found) if found else set()


def _extent(material: Material, facts: Facts, name: str) -> bool:
    """Whether every launch hands over an extent of the problem, or a product of such."""
    values = [dict(launch.args).get(name) for launch in material.launches]
    known = _of_sizes if not _of_rows(facts, name) else _or_unknown
    return all(value is not None and all(map(known, leaves(value))) for value in values)


def _of_rows(facts: Facts, name: str) -> bool:
    """Whether a parameter is multiplied with another size: the two are the length of a row."""
    terms = (factors for a in facts.accesses for index in a.index for factors, _ in index.terms)
    sizes = ({a.value for a in term if a.kind is AtomKind.PARAMETER} for term in terms)
    return any(name in named and len(named - facts.tile_extents) > 1 for named in sizes)


def _or_unknown(value: Value) -> bool:
    return isinstance(value, Unknown) or _of_sizes(value)


def _of_sizes(value: Value) -> bool:
    if not isinstance(value, HostExpr):
        return False
    if value.op in ("*", "//"):
        return all(isinstance(one, int) or _of_sizes(one) for one in value.args)
    if value.op == "attr":
        return value.args[1] == "numel"
    return value.op in ("dim", "call")
