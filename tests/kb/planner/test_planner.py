"""Constraints refuse with reasons, the cost model orders, the ranking loses no point."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kb.errors import ConstraintViolated, InputError, SyntaxProblem, UnknownName
from kb.evidence import AxisKind
from kb.graph.terms import targets, vocabulary
from kb.planner.constraints import (
    check,
    compile_constraint,
    constraints_for,
    environment,
    interpolate,
    open_names,
    refusals,
)
from kb.planner.cost import UNFITTED, Shape, Terms, Work, cost, resident_programs, terms_of, work_of
from kb.planner.evaluation import Value
from kb.planner.rank import Ranking, rank
from kb.planner.target import Target
from kb.space import Axis, Constraint, DesignSpace, GuardedPoints, Origin, Tuning

SMALL = Target(
    name="small",
    label="Small GPU",
    arch="sm_86",
    limits=(
        ("l2_bytes", 1_000_000),
        ("max_blocks_per_sm", 16),
        ("max_threads_per_sm", 1536),
        ("memory_bytes_per_second", 500_000_000_000),
        ("registers_per_sm", 65536),
        ("registers_per_thread", 255),
        ("shared_bytes_per_block", 101_376),
        ("shared_bytes_per_sm", 102_400),
        ("sm_count", 28),
    ),
)
SHARED = Constraint(
    expression="2 * num_stages * (tile_m + tile_n) * tile_k <= target.shared_bytes_per_block",
    origin=Origin.STATED,
    because="{num_stages} stages take {2 * num_stages * (tile_m + tile_n) * tile_k} bytes; "
    "{target.name} allows {target.shared_bytes_per_block}",
    hint="lower num_stages or tile_k",
)
REGISTERS = Constraint(expression="registers <= target.registers_per_thread", origin=Origin.STATED)
GEMM: dict[str, Value] = {"m": 4096, "n": 4096, "k": 4096}


def gemm_space(**values: tuple[int, ...]) -> DesignSpace:
    axes = {
        "tile_m": (64, 128),
        "tile_n": (64, 128),
        "tile_k": (64,),
        "num_stages": (2, 4),
        "num_warps": (4,),
        **values,
    }
    return DesignSpace(
        name="gemm",
        operation="gemm",
        axes=tuple(Axis(name=n, kind=AxisKind.TUNING, values=v) for n, v in axes.items()),
        constraints=(SHARED, REGISTERS),
    )


def test_a_refusal_says_why_and_what_to_try() -> None:
    point = (("tile_m", 128), ("tile_n", 128), ("tile_k", 64), ("num_stages", 4))
    env = environment({}, SMALL, point)
    (refusal,) = refusals([compile_constraint(SHARED)], env)
    assert refusal.text == (
        "4 stages take 131072 bytes; Small GPU allows 101376. Try: lower num_stages or tile_k."
    )
    with pytest.raises(ConstraintViolated, match="131072 bytes") as caught:
        check([compile_constraint(SHARED)], env, where="x.dsl")
    assert caught.value.exit_code == 1


def test_what_is_not_known_yet_does_not_apply() -> None:
    rules = [compile_constraint(REGISTERS)]
    assert refusals(rules, environment({}, SMALL)) == ()
    assert open_names(rules, environment({}, SMALL)) == ("registers",)
    assert refusals(rules, environment({"registers": 300}, SMALL))


@pytest.mark.parametrize(
    ("expression", "because"),
    [
        pytest.param("1 // zero == 0", "by zero", id="division by zero"),
        pytest.param("zero < name", "needs a number", id="types"),
    ],
)
def test_what_cannot_be_computed_is_refused(expression: str, because: str) -> None:
    rule = compile_constraint(Constraint(expression=expression, origin=Origin.STATED))
    (refusal,) = refusals([rule], {"zero": 0, "name": "x"})
    assert because in refusal.because


def test_a_broken_constraint_is_named() -> None:
    with pytest.raises(SyntaxProblem, match="constraint `a <=`"):
        compile_constraint(Constraint(expression="a <=", origin=Origin.STATED))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("{a} and {a + 1}", "3 and 4", id="expressions"),
        pytest.param("{target.name}", "Small GPU", id="record"),
        pytest.param("{a / 2}", "1.5", id="float"),
        pytest.param("{b} stays", "{b} stays", id="unknown"),
        pytest.param("{a +} stays", "{a +} stays", id="no expression"),
        pytest.param("no braces", "no braces", id="plain"),
    ],
)
def test_interpolation(text: str, expected: str) -> None:
    assert interpolate(text, environment({"a": 3}, SMALL)) == expected


def test_names_of_source_answer_to_names_of_constraints() -> None:
    env = environment({"a": 1}, SMALL, (("TILE_M", 64),), aliases=(("TILE_M", "tile"),))
    assert (env["TILE_M"], env["tile_m"], env["tile"]) == (64, 64, 64)


def test_ontology_constraints_reach_the_planner() -> None:
    found = {c.expression for c in constraints_for("layernorm", ("num_warps",), vocabulary())}
    assert "eps > 0" in found
    assert "is_power_of_two(num_warps)" in found
    assert "tile_d == head_dim" not in found
    assert all(compile_constraint(c.as_constraint()) for c in vocabulary().constraints)


def test_every_target_of_the_ontology_has_what_the_cost_model_asks() -> None:
    work = work_of(Shape.ROWS, {"row_count": 64, "row_length": 1024, "tile_n": 1024})
    assert work is not None
    assert len(targets()) >= 6
    for target in targets().values():
        assert terms_of(work, target).traffic_seconds > 0
        assert isinstance(target.record()["capability"], tuple)


def test_capability_comes_from_the_architecture() -> None:
    assert SMALL.record()["capability"] == (8, 6)
    assert replace(SMALL, arch="sm_120").record()["capability"] == (12, 0)
    with pytest.raises(UnknownName, match="no limit `tensor_cores`"):
        SMALL.limit("tensor_cores")


def test_no_point_vanishes() -> None:
    ranking = rank(gemm_space(), GEMM, SMALL)
    assert len(ranking.kept) + len(ranking.refused) == 8
    assert [dict(refused.point)["num_stages"] for refused in ranking.refused] == [4]
    assert ranking.not_applied == ("registers",)
    costs = [entry.cost for entry in ranking.kept]
    assert costs == sorted(costs, key=lambda value: value or 0.0)
    assert "unfitted" in ranking.notes[-1]


@pytest.mark.parametrize(
    ("space", "problem", "better", "worse"),
    [
        pytest.param(
            gemm_space(num_stages=(2,)),
            GEMM,
            {"tile_m": 128, "tile_n": 128},
            {"tile_m": 64, "tile_n": 64},
            id="larger tiles move less",
        ),
        pytest.param(
            gemm_space(tile_m=(128, 256), tile_n=(256,), num_warps=(4, 8), num_stages=(2,)),
            GEMM,
            {"tile_m": 128, "num_warps": 8},
            {"tile_m": 256, "num_warps": 4},
            id="spills cost",
        ),
        pytest.param(
            gemm_space(num_stages=(2,)),
            {"m": 128, "n": 128, "k": 4096},
            {"tile_m": 64, "tile_n": 64},
            {"tile_m": 128, "tile_n": 128},
            id="a small problem wants many programs",
        ),
    ],
)
def test_cost_orders_as_it_should(
    space: DesignSpace, problem: dict[str, Value], better: dict[str, int], worse: dict[str, int]
) -> None:
    kept = rank(replace(space, constraints=()), problem, SMALL).kept
    order = [dict(entry.point) for entry in kept]
    first = next(i for i, point in enumerate(order) if better.items() <= point.items())
    last = next(i for i, point in enumerate(order) if worse.items() <= point.items())
    assert first < last


def test_rows_that_fit_are_read_once() -> None:
    sizes: dict[str, Value] = {"row_count": 4096, "row_length": 4096}
    resident = work_of(Shape.ROWS, {**sizes, "tile_n": 4096})
    chunked = work_of(Shape.ROWS, {**sizes, "tile_n": 1024})
    assert resident is not None
    assert chunked is not None
    assert resident.bytes_moved * 3 == chunked.bytes_moved * 2


def test_attention_reads_keys_once_per_query_tile() -> None:
    sizes: dict[str, Value] = {"batch": 1, "num_heads": 8, "q_len": 2048, "head_dim": 64}
    full = work_of(Shape.ATTENTION, {**sizes, "tile_m": 128, "tile_n": 64})
    causal = work_of(Shape.ATTENTION, {**sizes, "tile_m": 128, "tile_n": 64, "causal": True})
    assert full is not None
    assert causal is not None
    assert full.programs == 128
    assert full.bytes_moved == 2 * 8 * (2 * 2048 * 64 + 16 * 2 * 2048 * 64)
    assert causal.steps * 2 == full.steps


def test_terms_are_added_with_their_signs() -> None:
    terms = Terms(traffic_seconds=1.0, latency_seconds=2.0, spill_seconds=3.0, slots_used=0.5)
    weights = replace(UNFITTED, traffic=1.0, latency=10.0, spill=100.0, parallelism=2.0)
    assert cost(terms, weights) == 1.0 + 20.0 + 300.0 - 2.0 * 0.5 * 6.0


def test_shared_memory_bounds_residency() -> None:
    work = Work(
        bytes_moved=1.0,
        programs=1,
        steps=1,
        tile_elements=1024,
        warps=4,
        stages=1,
        shared_bytes=40_000,
    )
    assert resident_programs(work, SMALL) == 2
    assert resident_programs(replace(work, shared_bytes=0), SMALL) == 10


TUNING = Tuning(
    spaces=(
        GuardedPoints(when="capability[0] < 9", points=((("tile_m", 64),),)),
        GuardedPoints(when="capability[0] >= 9", points=((("tile_m", 256),), (("tile_m", 128),))),
        GuardedPoints(when="dtype == 'f8'", points=((("tile_m", 32),),)),
    )
)


@pytest.mark.parametrize(
    ("arch", "tiles"),
    [
        pytest.param("sm_86", [64, 32], id="one guard holds, one cannot be decided"),
        pytest.param("sm_90", [256, 128, 32], id="the other"),
    ],
)
def test_guards_choose_the_points(arch: str, tiles: list[int]) -> None:
    ranking = rank(gemm_space(), {}, replace(SMALL, arch=arch), tuning=TUNING)
    assert [dict(entry.point)["tile_m"] for entry in ranking.kept] == tiles
    assert "the problem lacks sizes" in ranking.notes[0]


def test_design_values_take_part_in_constraints() -> None:
    space = DesignSpace(
        name="s",
        operation="fmha",
        axes=(
            Axis(name="softmax_scheme", kind=AxisKind.DESIGN, values=("online", "naive")),
            Axis(name="tile_m", kind=AxisKind.TUNING, values=(64,)),
        ),
        constraints=(
            Constraint(
                expression='softmax_scheme != "online" or tile_m >= 128', origin=Origin.STATED
            ),
        ),
    )
    ranking: Ranking = rank(space, {}, SMALL)
    assert ranking.kept == ()
    assert len(ranking.refused) == 1


def test_too_many_points_are_refused() -> None:
    many = tuple(range(1, 1000))
    with pytest.raises(InputError, match="at most 100000"):
        rank(gemm_space(tile_m=many, tile_n=many), GEMM, SMALL)
