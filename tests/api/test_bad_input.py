"""Bad input: one clear line (where, what, what next), the documented code, the store as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from kb.store import LocalStore
from tests.api.sample_kernels import KERNEL, UNKNOWN_CALL, UNKNOWN_SEARCH, nested
from tests.api.test_cli import tilelore
from tests.api.test_extract import written

LARGE = "import cuda.tile as ct\n" + "# padding\n" * 500_000
BROKEN = KERNEL.replace("row = ct.bid(0)", "row = = ct.bid(0)")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A knowledge base with one kernel."""
    folder = tmp_path_factory.mktemp("bad")
    path = written(folder, KERNEL, "rows.py")
    assert tilelore("extract", path, "--kb", folder / "kb").exit_code == 0
    return folder / "kb"


def content(base: Path) -> str:
    """Everything in the knowledge base."""
    with LocalStore(base, read_only=True) as store:
        return "".join(store.graph_text(kernel.graph) for kernel in store.kernels())


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        pytest.param("notes.txt", "hello", ["notes.txt", "Python file"], id="not Python by name"),
        pytest.param("image.py", b"\x89PNG\r\n\x1a\n\0\0", ["image.py", "UTF-8"], id="binary"),
        pytest.param("broken.py", BROKEN, ["broken.py:7"], id="a syntax error"),
        pytest.param("plain.py", "x = 1\n", ["plain.py", "no kernel", "decorator"], id="no kernel"),
        pytest.param("large.py", LARGE, ["large.py", "4000000", "Split"], id="5 MB"),
        pytest.param("deep.py", nested(50_000), ["deep.py"], id="deep nesting"),
        pytest.param("empty.py", "", ["empty.py", "no kernel"], id="empty"),
    ],
)
def test_a_file_that_is_no_source(
    base: Path, tmp_path: Path, name: str, text: str | bytes, said: list[str]
) -> None:
    before = content(base)
    done = tilelore("extract", written(tmp_path, text, name), "--kb", base)
    assert done.exit_code == 2
    (line,) = done.stderr.strip().splitlines()
    for word in said:
        assert word in line
    assert "Traceback" not in done.output
    assert content(base) == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(UNKNOWN_CALL, "summon_demon", id="an unknown call"),
        pytest.param(UNKNOWN_SEARCH, "not all configurations", id="a generator beyond evaluation"),
    ],
)
def test_what_is_not_understood_is_kept_and_said(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    done = tilelore("extract", path, "--kb", tmp_path / "kb")
    assert done.exit_code == 0
    assert said in done.stderr
    assert "kernels.py:" in done.stderr


def test_a_folder_goes_on_after_a_bad_file(tmp_path: Path) -> None:
    written(tmp_path, KERNEL, "src/good.py")
    written(tmp_path, BROKEN, "src/bad.py")
    done = tilelore("extract", tmp_path / "src", "--kb", tmp_path / "kb")
    assert done.exit_code == 0
    assert "bad.py:7: error" in done.stderr
    assert "1 added" in done.stderr


@pytest.mark.parametrize(
    ("name", "text", "code", "said"),
    [
        pytest.param("a.dsl", "design_space {\n  softmax_sceme: [1]\n}\n", 2,
                     ["a.dsl:2", "softmax_scheme"], id="an unknown axis"),
        pytest.param("b.dsl", "design_space {\n  softmax_scheme [1]\n}\n", 2, ["b.dsl:2"],
                     id="broken grammar"),
        pytest.param("c.dsl", "tuning_space {\n  tile_m: [48]\n}\nconstraints {\n"
                     "  is_power_of_two(tile_m); hint \"take 64\"\n}\n", 1,
                     ["c.dsl", "tile_m=48", "take 64"], id="a violated constraint"),
        pytest.param("d.ttl", "<http://k> a <https://w3id.org/tilelore/ns#Kernel> .\n",
                     1, ["http://k", "tl:"], id="Turtle that breaks a shape"),
        pytest.param("e.ttl", "<a> <b> .\n", 2, ["e.ttl:1:"], id="broken Turtle"),
        pytest.param("f.dsl", b"\xff\xfe", 2, ["f.dsl", "UTF-8"], id="a binary file"),
    ],
)  # fmt: skip
def test_validate_refuses(
    tmp_path: Path, name: str, text: str | bytes, code: int, said: list[str]
) -> None:
    done = tilelore("validate", written(tmp_path, text, name))
    assert done.exit_code == code, done.output
    for word in said:
        assert word in done.stderr
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["query", "-e", "SELECT ?x WHERE { ?x a "], ["query:1:"], id="a broken query"),
        pytest.param(["query", "-e", "DELETE WHERE { ?s ?p ?o }"], ["DELETE"], id="an update"),
        pytest.param(["query", "dead_tuning_axis"], ["dead_tuning_axes"], id="a misspelt question"),
        pytest.param(["query", "metrics", "-p", "colour=red"], ["colour"], id="no such parameter"),
        pytest.param(["query", "metrics", "-p", "colour"], ["NAME=VALUE"], id="no value"),
        pytest.param(["query", "gone.rq"], ["gone.rq"], id="a query file that is gone"),
        pytest.param(["explain", "ad_rows"], ["add_rows"], id="a misspelt kernel"),
        pytest.param(["transfer", "--from", "nothing", "--to", "conv2d"], ["neither"],
                     id="an unknown donor"),
        pytest.param(["transfer", "--from", "softmax", "--to", "conv2d"], ["softmax", "extract"],
                     id="an operation without kernels"),
        pytest.param(["transfer", "--from", "add_rows", "--to", "layrnorm"], ["layernorm"],
                     id="an unknown target"),
        pytest.param(["explain", "gone.py"], ["gone.py", "no such file"], id="no such kernel file"),
        pytest.param(["generate", "gone.dsl"], ["gone.dsl", "no such file"], id="no such space"),
        pytest.param(["generate", "add_rows", "--set", "tile"], ["AXIS=VALUE"], id="no setting"),
        pytest.param(["kb", "load", "gone.nq"], ["gone.nq"], id="a dump that is gone"),
        pytest.param(["serve", "--writable"], ["--writable"], id="a writable folder"),
    ],
)  # fmt: skip
def test_a_command_that_cannot_be_answered(
    base: Path, arguments: list[str], said: list[str]
) -> None:
    before = content(base)
    done = tilelore(*arguments, "--kb", base)
    assert done.exit_code == 2, done.output
    assert done.stderr.startswith("tilelore: ")
    for word in said:
        assert word in done.stderr
    assert "Traceback" not in done.output
    assert content(base) == before


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["extract"], id="no path"),
        pytest.param(["extract", "x.py", "--format", "yaml"], id="an unknown form"),
        pytest.param(["extrct"], id="an unknown command"),
        pytest.param(["generate", "x", "--dialect", "cobol"], id="an unknown dialect"),
    ],
)
def test_bad_usage_is_two(arguments: list[str]) -> None:
    done = tilelore(*arguments)
    assert done.exit_code == 2
    assert "Traceback" not in done.output


def test_no_knowledge_base_is_said(tmp_path: Path) -> None:
    done = tilelore("query", "metrics", "--kb", tmp_path / "none")
    assert done.exit_code == 2
    assert "no knowledge base" in done.stderr
    assert not (tmp_path / "none").exists()


def test_a_dump_that_breaks_a_shape_is_refused_whole(base: Path, tmp_path: Path) -> None:
    before = content(base)
    graph = "<https://w3id.org/tilelore/graph/bad/k/0000000000000000>"
    kernel = "<https://w3id.org/tilelore/kernel/bad/k/0000000000000000>"
    kind = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
    dump = tmp_path / "bad.nq"
    dump.write_text(f"{kernel} {kind} <https://w3id.org/tilelore/ns#Kernel> {graph} .\n")
    done = tilelore("kb", "load", dump, "--kb", base)
    assert done.exit_code == 1, done.output
    assert "shape" in done.stderr
    assert content(base) == before


def test_output_that_cannot_be_written(base: Path, tmp_path: Path) -> None:
    path = written(tmp_path, KERNEL, "rows.py")
    out = tmp_path / "rows.py" / "k.json"
    done = tilelore("extract", path, "--format", "json", "--out", out)
    assert done.exit_code == 2
    assert "cannot be written" in done.stderr
