"""How the gold is compared: what counts as a match of each kind, and that disputes are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.gold import claims, decisions, overview, spaces
from benchmarks.gold.entries import Reader, load, overlap, ranges
from kb.evidence import Finding, Lines, Severity
from kb.space import Constraint, GuardedPoints, Origin, Tuning

GOLD = Path(__file__).resolve().parents[2] / "benchmarks" / "gold"
OWN = ("own.yaml", "own_second.yaml", "own_third.yaml")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("67, 114-118", [(67, 67), (114, 118)], id="a list of ranges"),
        pytest.param([3, 9], [(3, 9)], id="a pair"),
        pytest.param(None, [], id="no lines given"),
    ],
)
def test_ranges(text: object, expected: list[Lines]) -> None:
    assert ranges(text) == expected


def test_overlap_needs_a_common_line() -> None:
    assert overlap([(1, 3)], [(3, 5)])
    assert not overlap([(1, 3)], [(4, 5)])


def test_an_entry_of_another_version_is_not_read(tmp_path: Path) -> None:
    """Lines of one version say nothing of another, in a folder of packages neither."""
    text = (
        "import triton\nimport triton.language as tl\n@triton.jit\ndef k(x):\n    tl.store(x, 1)\n"
    )
    for package in ("vllm", "llm.c"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "k.py").write_text(text)
    reader = Reader(tmp_path)
    given = {"file": "k.py", "kernel": "k"}
    assert reader.kernel({"package": "llm.c", "version": "f1e2ace6"} | given)
    assert reader.kernel({"package": "vllm", "version": "f1e2ace6"} | given) is None


@pytest.mark.parametrize("lines", ["4-6", [4, 6]])
def test_of_overloads_the_one_at_the_lines_is_meant(tmp_path: Path, lines: object) -> None:
    folder = tmp_path / "llm.c"
    folder.mkdir()
    text = "__global__ void k({}* x) {{\n  x[threadIdx.x] = 1;\n}}\n"
    (folder / "k.cu").write_text(text.format("float") + text.format("int"))
    entry = {"package": "llm.c", "version": "1", "file": "k.cu", "kernel": "k", "lines": lines}
    found = Reader(tmp_path).kernel(entry)
    assert found is not None
    assert found.lines == (4, 6)


def constraint(expression: str, line: int) -> Constraint:
    return Constraint(expression=expression, origin=Origin.IMPLIED, lines=(line, line))


@pytest.mark.parametrize(
    ("text", "ours", "same"),
    [
        pytest.param("anything", constraint("M == N", 7), True, id="a common line"),
        pytest.param(
            "TILE_M is a power of two", constraint("is_power_of_two(TILE_M)", 90), True,
            id="one parameter, one relation",
        ),
        pytest.param(
            "TILE_M is a power of two", constraint("TILE_M >= 16", 90), False,
            id="one parameter, another relation",
        ),
        pytest.param(
            "TILE_M is a power of two", constraint("is_power_of_two(TILE_N)", 90), False,
            id="another parameter",
        ),
        pytest.param(
            "W has n_cols elements", constraint("W.shape[-1] == X.shape[-1]", 90), True,
            id="one size in prose",
        ),
        pytest.param(
            "W has n_cols elements", constraint("W.stride[-1] == 1", 90), False, id="no size",
        ),
        pytest.param(
            "tiles are powers of two", constraint("is_power_of_two(T)", 90), True,
            id="every tile",
        ),
        pytest.param(
            "half of the head is a power of two", constraint("is_power_of_two(T)", 90), False,
            id="no tile",
        ),
    ],
)  # fmt: skip
def test_constraint(text: str, ours: Constraint, same: bool) -> None:
    assert claims._same_constraint(text, [(7, 7)], ours) is same


@pytest.mark.parametrize(
    ("message", "line", "same"),
    [
        pytest.param("`num_ctas` never takes effect", 7, True, id="line and name"),
        pytest.param("`num_ctas` never takes effect", 90, False, id="no common line"),
        pytest.param("`TILE_M` has one value", 7, False, id="another name"),
    ],
)
def test_finding(message: str, line: int, same: bool) -> None:
    ours = Finding(rule="r", severity=Severity.NOTE, message=message, lines=((line, line),))
    assert claims._same_finding("num_ctas is dead", [(7, 7)], ours) is same


@pytest.mark.parametrize(
    "space",
    [
        pytest.param({"configs": [{"M": 64, "occ": 2}, {"M": 128, "occ": 2}]}, id="configurations"),
        pytest.param({"grid": {"M": [64, 128], "occ": [2]}}, id="a grid"),
        pytest.param({"configs": ["(64) occ2", "(128) occ2"]}, id="shorthand"),
        pytest.param({"configs": ["(64)", "(128)"], "common": {"occ": 2}}, id="what is common"),
    ],
)
def test_points(space: dict[str, object]) -> None:
    points = ((("occ", 2), ("M", 64)), (("occ", 2), ("M", 128)))
    tuning = Tuning(mechanism="autotune", spaces=(GuardedPoints(when="always", points=points),))
    assert spaces._gold([space]) == spaces._ours(tuning)


def test_every_dispute_names_a_reason_and_a_kernel_of_the_gold() -> None:
    listed = json.loads((GOLD / "disputed.json").read_text(encoding="utf-8"))
    assert listed
    for item in listed:
        assert item["side"] in ("miss", "extra")
        first, last = item["lines"]
        assert first <= last
        assert len(item["reason"]) > 10


@pytest.mark.parametrize("name", OWN)
def test_own_gold_is_well_formed(name: str) -> None:
    entries = load(GOLD / "own" / name)
    assert entries
    for entry in entries:
        first, last = ranges(entry["lines"])[0]
        assert first < last
        for item in entry["decisions"]:
            assert item["axis"]
            assert item["value"]
            assert ranges(item["lines"])


def test_what_is_disputed_stays_in_the_strict_figures() -> None:
    row = decisions.Row("p", "k", "axis", "v", [(1, 1)], False, False, disputed=True)
    found = decisions.Row("p", "k", "axis", "v", [(2, 2)], False, True)
    total = decisions.summary([row, found], [])
    assert (total["recall"], total["recall_undisputed"]) == (0.5, 1.0)


def test_every_gold_of_our_own_is_in_the_overview_with_its_first_reading() -> None:
    listed = [name for names in overview.own(GOLD).values() for name in names]
    assert sorted(listed) == sorted(path.stem for path in (GOLD / "own").glob("*.yaml"))
    for name in listed:
        assert overview.first_reading(GOLD, name)["gold"] > 0


def test_the_overview_weighs_golds_by_their_decisions() -> None:
    lines = overview.overview({}, GOLD)
    language, names = next(iter(overview.own(GOLD).items()))
    parts = [overview.first_reading(GOLD, name) for name in names]
    recall = sum(part["found"] for part in parts) / sum(part["gold"] for part in parts)
    row = next(line for line in lines if line.startswith(f"| {language}, all |"))
    assert f"| {overview.share(recall)} |" in row
