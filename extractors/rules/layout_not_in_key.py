"""A search is remembered without the strides of an array that the host takes in any layout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from extractors.host.conditions import parts
from extractors.host.events import CheckRecord, LaunchRecord, NormaliseRecord
from extractors.host.facts import Material
from extractors.host.tuning import key_values
from extractors.host.values import Expr, Value
from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import AUTOTUNED_PRODUCT
from kb.evidence import Finding, Severity

_ANY = vary(
    AUTOTUNED_PRODUCT,
    ("    assert a.stride(1) == 1 and b.stride(1) == 1\n", ""),
    ("sa, sb, so", "sa, sk, sb, so"),
    ("k[None, :], mask", "k[None, :] * sk, mask"),
    ("a.stride(0), b", "a.stride(0), a.stride(1), b"),
)


class LayoutNotInKey(Rule):
    """A decorator's search is keyed by sizes, and the kernel takes both the outer and the innermost
    stride of an array at run time: a transposed array gets the tiles found for one that is not."""

    name = "layout-not-in-key"
    dialects = ("triton",)
    matches = (Case(_ANY, "`a`"),)
    near_misses = (
        NearMiss(AUTOTUNED_PRODUCT, why="the innermost stride is one"),
        NearMiss(
            vary(_ANY, ("    M, K = a.shape", "    assert a.is_contiguous()\n    M, K = a.shape")),
            why="the host refuses other layouts",
        ),
        NearMiss(
            vary(_ANY, ("k[None, :] * sk, mask", "k[None, :], mask")),
            why="the kernel takes the innermost axis for contiguous",
        ),
        NearMiss(
            vary(_ANY, ('key=["W", ', 'key=["sk", "W", ')), why="the innermost stride is in the key"
        ),
        NearMiss(
            vary(_ANY, ("    M, K = a.shape", "    a = a.contiguous()\n    M, K = a.shape")),
            why="the host makes the array contiguous",
        ),
    )
    seen = (
        Seen("liger-kernel", "liger_kernel/ops/experimental/mm_int8int2.py", "matmul_kernel", 210),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        for search in material.searches if material is not None else ():
            key = key_values(search)
            points = [point for case in search.cases for point in case.points]
            if material is None or search.kind == "exhaustive_search" or not key or len(points) < 2:
                continue
            kept = {str(part) for part in key}
            written = {access.array for access in subject.facts.stores}
            free = {
                array: names
                for array, names in _free(material, kept).items()
                if array not in written and all(map(subject.facts.graph.users, names))
            }
            if free:
                names = ", ".join(f"`{array}`" for array in free)
                strides = ", ".join(f"`{name}`" for pair in free.values() for name in pair)
                yield self.finding(
                    subject,
                    f"{names}: the host takes any layout, and the key of the search leaves out the "
                    f"strides {strides}: the winner for one layout is used for another",
                    "add the innermost strides to the key, or a flag for a transposed array",
                    [search.lines],
                    Severity.NOTE,
                )


def _free(material: Material, kept: set[str]) -> dict[str, list[str]]:
    """Arrays, by the parameter that takes them, of which a launch hands over two strides or more,
    the innermost one too, none of them in the key, and that nothing made contiguous."""
    found: dict[str, list[str]] = {}
    for launch in material.sites():
        given = dict(launch.args)
        smooth = {e.tensor for e in material.before(launch) if isinstance(e, NormaliseRecord)}
        smooth |= set(_asked(material, launch))
        strides: dict[Value, list[tuple[str, Value]]] = {}
        for name, value in launch.args:
            if isinstance(value, Expr) and value.op == "stride":
                strides.setdefault(value.args[0], []).append((name, value.args[1]))
        for tensor, pairs in strides.items():
            names = [name for name, _ in pairs]
            array = next((name for name, value in given.items() if value == tensor), None)
            made = material.machine.tensors.get(tensor)
            if array is None or tensor in smooth or (made is not None and made.dims is not None):
                continue  # the host made it: it has one layout
            if _all_axes(material, tensor, pairs) and not kept & set(names):
                found.setdefault(array, names)
    return found


def _asked(material: Material, launch: LaunchRecord) -> Iterator[Value]:
    """Arrays whose layout a check or a branch on the way to the launch speaks of."""
    checks = [e.cond for e in material.of_root(launch) if isinstance(e, CheckRecord)]
    for cond in (*checks, *(guard.cond for guard in launch.path.guards)):
        for part in parts(cond):
            asks = part.op == "attr" and part.args[1] in ("is_contiguous", "T", "mT")
            if asks or part.op in ("stride", "strides"):
                yield part.args[0]


def _all_axes(material: Material, tensor: Value, pairs: list[tuple[str, Value]]) -> bool:
    """Whether strides are those of all axes of an array, two or more, or of its last two."""
    axes = sorted(axis for _, axis in pairs if isinstance(axis, int))
    fact = material.machine.tensors.get(tensor)
    rank = fact.rank if fact is not None else None
    rank = material.machine.ranks.get(tensor) if rank is None else rank
    whole = rank == len(axes) > 1 and axes == list(range(len(axes)))
    return axes == [-2, -1] or whole
