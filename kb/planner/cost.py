"""The cost model: `α·memory_traffic + β·latency + γ·register_spill − δ·parallelism`.

The terms are estimates from tile sizes, problem and target, each in seconds so that they add up.
They rank points; they do not predict a time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from kb.errors import InputError
from kb.planner.evaluation import Value
from kb.planner.target import Target

LOAD_LATENCY_CYCLES = 600
"""Cycles of a load from device memory: an assumption about the order; it scales one term."""

CYCLES_PER_SECOND = 1.7e9
"""Order of a data-centre clock: an assumption; it scales the latency term."""

BASE_REGISTERS = 40
"""Registers of addresses and counters beside tiles (estimate)."""


class Shape(StrEnum):
    """The iteration space, which decides how a point's tiles move data."""

    CONTRACTION = "contraction"
    ATTENTION = "attention"
    ROWS = "rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficients:
    """Weights of the terms; `fitted_on` names the measurements behind them, None: unfitted."""

    traffic: float = 1.0
    latency: float = 1.0
    spill: float = 4.0
    parallelism: float = 0.25
    fitted_on: str | None = None


UNFITTED = Coefficients()
"""Starting weights, chosen by hand and fitted on nothing; a ranking made with them says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What one point costs, in seconds; `slots_used` is the share of program slots, 0 to 1."""

    traffic_seconds: float
    latency_seconds: float
    spill_seconds: float
    slots_used: float

    @property
    def parallelism_seconds(self) -> float:
        """Part of the other three that programs running side by side take off."""
        return self.slots_used * (self.traffic_seconds + self.latency_seconds + self.spill_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a point does, from which the terms follow; all counts are for one launch.

    `programs` run `steps` loop iterations each; a program keeps `tile_elements` 32-bit values live
    over `warps` warps, holds `shared_bytes`, and `stages` iterations of loads are in flight.
    """

    bytes_moved: float
    programs: int
    steps: int
    tile_elements: int
    warps: int
    stages: int
    shared_bytes: int


def cost(terms: Terms, coefficients: Coefficients) -> float:
    """One number to order points by; lower is better."""
    return (
        coefficients.traffic * terms.traffic_seconds
        + coefficients.latency * terms.latency_seconds
        + coefficients.spill * terms.spill_seconds
        - coefficients.parallelism * terms.parallelism_seconds
    )


def work_of(shape: Shape, env: Mapping[str, Value]) -> Work | None:
    """What the point in `env` does, or None when a size it depends on is not given."""
    sizes = _Sizes(env)
    match shape:
        case Shape.CONTRACTION:
            return _contraction(sizes)
        case Shape.ATTENTION:
            return _attention(sizes)
        case Shape.ROWS:
            return _rows(sizes)


def terms_of(work: Work, target: Target) -> Terms:
    """The terms of `work` on `target`, from its limits.

    Spill: 32-bit values beyond the registers of a thread go to memory and back once per step.
    Latency: each step waits for a load, less what `stages` and resident programs hide. Slots: the
    share of program slots that hold a program, over all waves (wave quantisation).
    """
    resident = resident_programs(work, target)
    slots = resident * target.limit("sm_count")
    waves = math.ceil(work.programs / slots)
    per_second = target.limit("memory_bytes_per_second")
    hidden = max(1, work.stages) * resident
    cycles = waves * work.steps * LOAD_LATENCY_CYCLES / hidden
    spilled = max(0, registers_per_thread(work) - target.limit("registers_per_thread"))
    spill_bytes = 8.0 * spilled * work.warps * 32 * work.programs * work.steps
    return Terms(
        traffic_seconds=work.bytes_moved / per_second,
        latency_seconds=cycles / CYCLES_PER_SECOND,
        spill_seconds=spill_bytes / per_second,
        slots_used=work.programs / (waves * slots),
    )


def registers_per_thread(work: Work) -> int:
    """Registers that the live tiles ask of each thread (estimate; a compile gives the truth)."""
    return BASE_REGISTERS + math.ceil(work.tile_elements / (32 * work.warps))


def resident_programs(work: Work, target: Target) -> int:
    """Programs that one multiprocessor holds at once, at least 1.

    Source: CUDA C++ Programming Guide, occupancy calculation, without allocation granularity.
    """
    threads = 32 * work.warps
    registers = min(registers_per_thread(work), target.limit("registers_per_thread")) * threads
    fits = [
        target.limit("max_blocks_per_sm"),
        target.limit("max_threads_per_sm") // threads,
        target.limit("registers_per_sm") // registers,
    ]
    if work.shared_bytes:
        fits.append(target.limit("shared_bytes_per_sm") // (work.shared_bytes + 1024))
    return max(1, min(fits))


class _Sizes:
    """Whole numbers of an environment, with the defaults that every shape shares."""

    def __init__(self, env: Mapping[str, Value]) -> None:
        self.env = env

    def has(self, *names: str) -> bool:
        return all(isinstance(self.env.get(name), int) for name in names)

    def get(self, name: str, default: int | None = None) -> int:
        value = self.env.get(name, default)
        if not isinstance(value, int) or value < 1:
            raise InputError(f"`{name}` is {value!r}; the cost model needs a size of at least 1.")
        return value

    @property
    def element(self) -> int:
        return self.get("element_bytes", 2)

    @property
    def warps(self) -> int:
        return self.get("num_warps", 4)

    @property
    def stages(self) -> int:
        return self.get("num_stages", self.get("prefetch_depth", 2))


def _contraction(sizes: _Sizes) -> Work | None:
    """`C[m,n] = sum_k A[m,k] B[k,n]`: every tile reads its rows of A and columns of B once."""
    if not sizes.has("m", "n", "k", "tile_m", "tile_n", "tile_k"):
        return None
    m, n, k = sizes.get("m"), sizes.get("n"), sizes.get("k")
    tile_m, tile_n, tile_k = sizes.get("tile_m"), sizes.get("tile_n"), sizes.get("tile_k")
    rows, columns = math.ceil(m / tile_m), math.ceil(n / tile_n)
    read = rows * columns * (tile_m + tile_n) * k
    return Work(
        bytes_moved=float(sizes.element * (read + m * n)),
        programs=rows * columns,
        steps=math.ceil(k / tile_k),
        tile_elements=tile_m * tile_n,
        warps=sizes.warps,
        stages=sizes.stages,
        shared_bytes=sizes.element * sizes.stages * (tile_m + tile_n) * tile_k,
    )


def _attention(sizes: _Sizes) -> Work | None:
    """Each program keeps a query tile and streams the keys and values of its head."""
    if not sizes.has("batch", "num_heads", "q_len", "head_dim", "tile_m", "tile_n"):
        return None
    heads = sizes.get("batch") * sizes.get("num_heads")
    q_len, depth = sizes.get("q_len"), sizes.get("head_dim")
    k_len = sizes.get("k_len", q_len)
    tile_m, tile_n = sizes.get("tile_m"), sizes.get("tile_n")
    blocks = math.ceil(q_len / tile_m)
    seen = k_len / 2 if sizes.env.get("causal") else float(k_len)
    moved = heads * (2 * q_len * depth + blocks * 2 * seen * depth)
    return Work(
        bytes_moved=sizes.element * moved,
        programs=heads * blocks,
        steps=math.ceil(seen / tile_n),
        tile_elements=tile_m * depth + tile_m * tile_n,
        warps=sizes.warps,
        stages=sizes.stages,
        shared_bytes=sizes.element * (tile_m * depth + 2 * sizes.stages * tile_n * depth),
    )


def _rows(sizes: _Sizes) -> Work | None:
    """Each program reduces whole rows; a row that fits its tile is read once, else twice."""
    if not sizes.has("row_count", "row_length", "tile_n"):
        return None
    rows, length, tile = sizes.get("row_count"), sizes.get("row_length"), sizes.get("tile_n")
    together = sizes.get("rows_per_program", 1)
    steps = math.ceil(length / tile)
    reads = 1 if steps == 1 else 2
    return Work(
        bytes_moved=float(sizes.element * rows * length * (reads + 1)),
        programs=math.ceil(rows / together),
        steps=steps * reads,
        tile_elements=together * tile,
        warps=sizes.warps,
        stages=1,
        shared_bytes=0,
    )
