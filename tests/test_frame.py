"""The frame: what is packaged, who may import whom, and what the make targets run."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from setuptools import Distribution

ROOT = Path(__file__).parent.parent
PACKAGES = ("api", "extractors", "generators", "kb", "ontology", "shapes")
GPU_LIBRARIES = {"torch", "triton", "cuda"}
GPU_ROOMS = re.compile(r"generators/\w+/compile\.py|generators/tuner/bench\.py|api/runtime\.py")
GRAPH_LIBRARIES = {"rdflib", "pyshacl"}
GRAPH_ROOMS = re.compile(r"kb/graph/.*\.py|kb/store(_\w+)?\.py|kb/validation\.py")


def settings() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def sources() -> Iterator[Path]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT)


def imported(path: Path) -> set[str]:
    """The top names that a file imports anywhere, in functions too; for `x.y` also `x.y`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        found |= {name.split(".")[0] for name in names}
    return found


def refused(path: Path) -> set[str]:
    """What of our rules a file breaks."""
    used, name, room = imported(path), path.as_posix(), path.parts[0]
    allowed = {
        "api": set(PACKAGES),
        "extractors": {"extractors", "kb", "ontology"},
        "generators": {"generators", "kb", "ontology"},
        "kb": {"kb", "ontology", "shapes"},
    }.get(room, {room})
    wrong = (used & set(PACKAGES)) - allowed
    if not GPU_ROOMS.fullmatch(name):
        wrong |= used & GPU_LIBRARIES
    if not GRAPH_ROOMS.fullmatch(name):
        wrong |= used & GRAPH_LIBRARIES
    return wrong


def test_imports_run_one_way() -> None:
    broken = {path.as_posix(): sorted(wrong) for path in sources() if (wrong := refused(path))}
    assert broken == {}


def test_the_tile_program_needs_the_standard_library_only() -> None:
    assert imported(Path("kb/ir.py")) <= set(sys.stdlib_module_names)


def test_every_file_of_code_or_data_is_in_the_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of code without `__init__.py`, or data of an unlisted kind, would be left out."""
    monkeypatch.chdir(ROOT)
    distribution = Distribution({"script_name": "setup.py"})
    distribution.parse_config_files(["pyproject.toml"])
    build: Any = distribution.get_command_obj("build_py")
    build.ensure_finalized()
    shipped = {Path(module[2]).as_posix() for module in build.find_all_modules()}
    for _, folder, _, names in build.data_files:
        shipped |= {(Path(folder) / name).as_posix() for name in names}
    wanted = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted - shipped == set()


@pytest.mark.parametrize("path", list(sources()), ids=str)
def test_files_stay_readable(path: Path) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.name == "__init__.py":
        assert text.strip() == ""
    assert text.count("\n") <= 400


def test_requirements_pin_every_dependency_exactly() -> None:
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").split()
    pinned = {re.sub(r"[-_.]+", "-", line.split("==")[0]).lower() for line in lines}
    project = settings()["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["cutile"], *extras["cuda-source"], *extras["dev"]]
    names = {re.split(r"[<>=]", line)[0].replace("_", "-").lower() for line in wanted}
    assert lines[0] == "torch==2.13.0"
    assert [
        line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line)
    ] == []
    assert names - pinned == set()


def test_ci_calls_the_command_of_the_readme() -> None:
    script = ROOT / ".ci/run"
    assert os.access(script, os.X_OK)
    assert "make test" in script.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("target", "runs"),
    [
        pytest.param("test", ["pip install", "requirements.txt", "pytest"], id="test"),
        pytest.param("demo", ["pip install", "tilelore demo"], id="demo"),
        pytest.param(
            "check", ["ruff check", "ruff format --check", "mypy", "lint-imports"], id="check"
        ),
    ],
)
def test_make_targets(target: str, runs: list[str]) -> None:
    said = subprocess.run(
        ["make", "--dry-run", "--always-make", target],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert [step for step in runs if step not in said] == []


def test_dialects_differ_by_their_tables() -> None:
    """Outside the tables, reader, emitter and patterns ask what a dialect does, never its name."""
    places = [*ROOT.glob("extractors/*.py"), *ROOT.glob("generators/source/*.py")]
    places += [*ROOT.glob("extractors/patterns/*.py"), *ROOT.glob("kb/analysis/*.py")]
    places += [ROOT / "generators" / "emit.py"]
    for path in places:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"dialect(\.name)? (==|!=) |\.dialect in ", text), path
