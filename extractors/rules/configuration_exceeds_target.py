"""A configuration that no GPU of its branch can run as it stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import takewhile

from extractors.host.configurations import searched_at
from extractors.host.devices import targets_of
from extractors.host.events import SearchRecord, TargetProfile
from extractors.host.facts import Material
from extractors.host.spaces import passed
from extractors.patterns.cases import vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.rules.cases import AUTOTUNED, AUTOTUNED_PRODUCT, SEARCHED_PRODUCT
from kb.analysis.footprint import Footprint, footprint
from kb.evidence import Finding

MAX_THREADS = 1024
"""Threads of a block on every target. Source: CUDA C++ Programming Guide, technical
specifications per compute capability."""

REGISTERS = 255
"""32-bit registers of a thread on every target; same source."""

TENSOR_MEMORY = (10, 0)
"""Targets from here to 11.x keep accumulators of matrix products in tensor memory. Source: PTX ISA,
tcgen05."""


class ConfigurationExceedsTarget(Rule):
    """A point of a space that asks for more threads, for clusters, for shared memory or registers
    than any target has on which its branch is taken, or for a tile that is no power of two."""

    name = "configuration-exceeds-target"
    matches = (
        Case(SEARCHED_PRODUCT, "num_ctas"),
        Case(vary(AUTOTUNED, ("(4, 8)", "(4, 64)")), "2048 threads"),
        Case(vary(AUTOTUNED, ("(64, 128)", "(64, 96)")), "power of two"),
        Case(
            vary(
                AUTOTUNED,
                ("other=0.0)", "other=0.0).to(tl.float32) * 2.0"),
                ("t in (64, 128)", "t in (64, 65536)"),
            ),
            "registers of each",
        ),
        Case(vary(AUTOTUNED_PRODUCT, ('"TK": 32}', '"TK": 1024}, num_stages=5')), "shared memory"),
    )
    near_misses = (
        NearMiss(AUTOTUNED, why="256 threads and tiles that are powers of two"),
        NearMiss(
            vary(AUTOTUNED, ("other=0.0)", "other=0.0).to(tl.float32) * 2.0"),
                 ("t in (64, 128)", "t in (64, 8192)")),
            why="64 values for each of 128 threads",
        ),
        NearMiss(
            vary(AUTOTUNED, ("other=0.0)", "other=0.0).to(tl.float32) * 2.0"),
                 ("t in (64, 128)", "t in (64, 65536)"),
                 ('key=["n"],', 'key=["n"], prune_configs_by={"early_config_prune": keep},'),
                 ("@triton.autotune", "def keep(configs, named, **more):\n"
                  "    return [c for c in configs if c.kwargs['T'] < 9999]\n\n@triton.autotune")),
            why="a function leaves configurations out before they are timed",
        ),
        NearMiss(
            vary(AUTOTUNED, ("other=0.0)", "other=0.0).to(tl.float32) * 2.0"),
                 ("t in (64, 128)", "t in ((64, 65536) if wide() else (64, 128))"),
                 ("@triton.autotune", "from devices import wide\n@triton.autotune")),
            why="what is asked may be so on devices of another vendor alone",
        ),
        NearMiss(AUTOTUNED_PRODUCT, why="its operands in flight fit everywhere"),
        NearMiss(
            vary(SEARCHED_PRODUCT, ("TK=32, num_ctas=2", "TK=32, num_ctas=1")),
            why="clusters only where there are some",
        ),
    )  # fmt: skip

    seen = (
        Seen(
            "tilegym",
            "tilegym/suites/flashinfer/cutile/gemm/ragged_block_scaled_bmm.py",
            "_ragged_block_scaled_bmm_kernel",
            400,
        ),
    )

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        if material is None or not material.searches:
            return
        needs = footprint(subject.facts)
        pruned = replace(needs, tiles=())  # what prunes may well leave out tiles that spill
        for search in material.searches:
            held = needs if search.prune is None else pruned
            yield from self._search(subject, material, search, held)

    def _search(
        self, subject: Subject, material: Material, search: SearchRecord, needs: Footprint
    ) -> Iterator[Finding]:
        fixed = _constants(material)
        told: dict[str, list[dict[str, object]]] = {}
        for case in search.cases:
            targets = targets_of(case.conds)
            # A condition that leaves every target may be met on devices of another vendor alone.
            told_all = not case.conds or len(targets) < len(targets_of(()))
            held = needs if told_all else replace(needs, tiles=())
            for point in case.points:
                row = dict(point)
                found = (_excess(held, {**fixed, **row}, target) for target in targets)
                reasons = list(takewhile(bool, found))
                if targets and len(reasons) == len(targets):
                    told.setdefault(reasons[-1], []).append(row)
        for reason, rows in told.items():
            shown = ", ".join(f"{name}={value}" for name, value in rows[0].items())
            more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
            yield self.finding(
                subject,
                f"no target of its branch can hold the configuration {shown}{more}: {reason}",
                "drop it, or guard it by the targets that can",
                searched_at(material, search),
            )


def _constants(material: Material) -> dict[str, object]:
    """Parameters that every launch passes the same number for."""
    found: dict[str, object] = {}
    for name, _ in material.signature.params:
        values = {passed(material, launch, name) for launch in material.launches}
        row = values.pop() if len(values) == 1 else None
        if row is not None and len(row) == 1 and isinstance(row[0], int):
            found[name] = row[0]
    return found


def _excess(needs: Footprint, row: dict[str, object], target: TargetProfile) -> str:
    """Why a target cannot hold a configuration, empty when nothing speaks against it."""
    warps, stages, clusters = (_whole(row, n) for n in ("num_warps", "num_stages", "num_ctas"))
    if warps is not None and 32 * warps > MAX_THREADS:
        return f"{warps} warps are {32 * warps} threads, and a block has at most {MAX_THREADS}"
    if clusters is not None and clusters > 1 and target.capability < (9, 0):
        return f"num_ctas={clusters} is a cluster, and clusters begin with capability 9.0"
    for name in needs.powers:
        size = _whole(row, name)
        if size is not None and (size < 1 or size & (size - 1)):
            return f"{name}={size} is the extent of a tile and no power of two"
    shared = needs.shared_bytes(row, stages)
    if shared is not None and shared > target.shared_bytes:
        return (
            f"the operands of its matrix products in flight need at least {shared} bytes of "
            f"shared memory even with {8 * needs.element_bytes}-bit elements; {target.name} has "
            f"{target.shared_bytes}"
        )
    held = needs.accumulator_words(row)
    if (
        held is not None
        and warps is not None
        and not (TENSOR_MEMORY <= target.capability < (12, 0))
    ):
        each = -(-held // (32 * warps))
        if each > REGISTERS:
            return f"its accumulators alone take {each} registers per thread; there are {REGISTERS}"
    tile = needs.tile_words(row)
    if tile is not None and warps is not None and tile > 32 * warps * REGISTERS:
        return (
            f"a tile of {tile} fp32 values takes {-(-tile // (32 * warps))} registers of each of "
            f"its {32 * warps} threads, and there are {REGISTERS}"
        )
    return ""


def _whole(row: dict[str, object], name: str) -> int | None:
    value = row.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
