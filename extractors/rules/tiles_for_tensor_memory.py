"""GPUs without tensor memory take the configurations of those that have it."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from extractors.host.conditions import parts
from extractors.host.configurations import searched_at
from extractors.host.devices import targets_of
from extractors.host.events import Case as Branch
from extractors.host.events import SearchRecord, TargetProfile
from extractors.host.facts import Material
from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import SEARCHED_PRODUCT
from extractors.rules.configuration_exceeds_target import TENSOR_MEMORY
from kb.analysis.facts import Facts
from kb.evidence import Finding, Severity

GROUP = 128
"""Threads of a warp group, which holds the result of one product. Source: PTX ISA, wgmma."""

REGISTERS = 255
"""32-bit registers of a thread on every target. Source: CUDA C++ Programming Guide, technical
specifications per compute capability."""

MANY = 3
"""Where at least one in so many configurations is too large, the search has little to choose."""

_BRANCHED = vary(
    SEARCHED_PRODUCT,
    ("TM=128, TN=128, TK=32, num_ctas=1", "TM=64, TN=64, TK=32, num_ctas=1"),
    (
        "        yield SimpleNamespace(TM=128, TN=128, TK=32, num_ctas=2)\n    else:\n",
        "    else:\n        yield SimpleNamespace(TM=128, TN=128, TK=32, num_ctas=1)\n",
    ),
    ("TM=256, TN=128, TK=64, num_ctas=2", "TM=256, TN=256, TK=64, num_ctas=1"),
)


class TilesForTensorMemory(Rule):
    """A space that branches by target gives one without tensor memory the configurations of one
    that has it, and the result of a product is there more than a warp group has registers for."""

    name = "tiles-for-tensor-memory"
    dialects = ("cutile",)
    matches = (
        Case(_BRANCHED, "sm_90"),
        Case(vary(_BRANCHED, ("capability()[0] < 9", "capability() == (12, 0)")), "sm_80"),
    )
    near_misses = (
        NearMiss(
            vary(_BRANCHED, ("[0] < 9", "[0] != 10")), why="every target without it has small tiles"
        ),
        NearMiss(
            vary(_BRANCHED, ("TK=64, num_ctas=1", "TK=64, num_ctas=4")),
            why="four blocks share the tile",
        ),
        NearMiss(
            vary(
                _BRANCHED,
                (
                    "        yield SimpleNamespace(TM=128, TN=128, TK=32, num_ctas=1)",
                    "        for k in (16, 32, 64):\n"
                    "            yield SimpleNamespace(TM=128, TN=128, TK=k, num_ctas=1)",
                ),
            ),
            why="most configurations fit: the search takes one of them",
        ),
        NearMiss(
            vary(_BRANCHED, ("TM=256, TN=256", "TM=128, TN=128")),
            why="half of the registers hold the result",
        ),
    )  # fmt: skip
    seen = (Seen("tilegym", "tilegym/ops/cutile/matmul.py", "_matmul_kernel", 47),)

    def find(self, subject: Subject) -> Iterator[Finding]:
        material, facts = subject.host.material, subject.facts
        if material is None or facts.kernel.dialect not in self.dialects:
            return  # elsewhere the number of warps that share the result is part of the space
        for search in material.searches:
            for branch in search.cases:
                without = _mixed(branch)
                large = [
                    row
                    for row in map(dict, branch.points)
                    if _words(facts, row) > GROUP * REGISTERS
                ]
                if without and MANY * len(large) >= len(branch.points) > 0:
                    yield self._finding(subject, material, search, branch, without, large)

    def _finding(
        self,
        subject: Subject,
        material: Material,
        search: SearchRecord,
        branch: Branch,
        without: list[TargetProfile],
        large: list[dict[str, object]],
    ) -> Finding:
        names = ", ".join(target.name for target in without)
        shown = ", ".join(f"{name}={value}" for name, value in large[0].items())
        words = _words(subject.facts, large[0])
        return self.finding(
            subject,
            f"{names} {'take' if len(without) > 1 else 'takes'} the branch of targets with tensor "
            f"memory; of its {len(branch.points)} configurations {len(large)} "
            f"{'have' if len(large) > 1 else 'has'} a product of {words} fp32 elements in a block "
            f"({shown}{', …' if len(large) > 1 else ''}): {-(-words // GROUP)} registers for each "
            f"thread of a warp group, which has {REGISTERS} for all that it holds, and spills",
            "give the targets without tensor memory a branch of their own, with smaller tiles",
            searched_at(material, search),
            Severity.WARNING,
        )


def _mixed(branch: Branch) -> list[TargetProfile]:
    """The targets of a branch that keep accumulators in registers, where the branch was chosen by
    the target and others keep them in tensor memory."""
    asked = [part for cond, _ in branch.conds for part in parts(cond) if part.op == "sym"]
    if not any(str(part.args[0]).startswith("capability") for part in asked):
        return []
    targets = targets_of(branch.conds)
    without = [t for t in targets if not TENSOR_MEMORY <= t.capability < (12, 0)]
    return without if len(without) < len(targets) else []


def _words(facts: Facts, row: dict[str, object]) -> int:
    """Elements of the largest fp32 result of a product that one block holds; 0 where its extents
    are not all in the space."""
    shared = row.get("num_ctas", 1)
    most = 0
    for product in facts.contractions:
        value = product.result
        sizes = [int(e) if e.isdigit() else row.get(e) for e in facts.types.shape(value)[-2:]]
        numbers = [size for size in sizes if isinstance(size, int)]
        if len(numbers) == len(sizes) == 2 and facts.types.dtype(value) == "f32":
            most = max(most, prod(numbers))
    return most // shared if isinstance(shared, int) and shared > 0 else most
