"""Extraction: the JSON form against its schema, packages, loaders that stay at home, many files."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from api.extract import extract_file, extract_many
from api.json_form import extract_document
from api.sources import lone_file, source_files
from kb.dsl.from_knowledge import knowledge_document
from kb.dsl.program import document_program
from kb.dsl.reader import read
from kb.dsl.writer import write
from kb.errors import InputError, SyntaxProblem
from kb.evidence import Severity
from kb.graph.terms import vocabulary
from kb.space import Origin
from tests.api.sample_kernels import HELPER_IN_PACKAGE, KERNEL, TRITON, UNKNOWN_CALL, UNKNOWN_SEARCH

SCHEMA = json.loads((Path(__file__).parents[2] / "api" / "extract.schema.json").read_text())


def written(folder: Path, text: str | bytes, name: str = "kernels.py") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(KERNEL, id="cutile"),
        pytest.param(TRITON, id="triton"),
        pytest.param(UNKNOWN_CALL, id="a call without operation"),
        pytest.param(UNKNOWN_SEARCH, id="a search that cannot be evaluated"),
        pytest.param("x = 1\n", id="no kernel"),
        pytest.param("def f(:\n", id="a syntax error"),
        pytest.param(b"\xff\xfe\x00", id="binary"),
    ],
)
def test_the_json_follows_the_schema(tmp_path: Path, text: str | bytes) -> None:
    document = extract_document(extract_many([lone_file(str(written(tmp_path, text)))]))
    jsonschema.validate(document, SCHEMA)
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_a_kernel_is_told_in_full(tmp_path: Path) -> None:
    (kernel,) = extract_file(written(tmp_path, KERNEL)).kernels
    assert kernel.kernel.name == "add_rows"
    assert kernel.lines == (6, 11)
    assert kernel.opaque == 0
    roles = {parameter.name: parameter.role.value for parameter in kernel.parameters}
    assert roles["left"] == "input"
    assert roles["out"] == "output"
    assert roles["TILE"] == "tile size"
    assert ("left.shape[1] % 128 == 0", Origin.STATED) in {
        (constraint.expression, constraint.origin) for constraint in kernel.constraints
    }
    assert [launch.host_function for launch in kernel.launches] == ["add"]
    assert len({d.axis for d in kernel.decisions}) >= 3


def test_what_is_not_understood_is_said_with_its_line(tmp_path: Path) -> None:
    found = extract_file(written(tmp_path, UNKNOWN_CALL))
    (note,) = [n for n in found.diagnostics if n.severity is Severity.WARNING]
    assert "summon_demon" in note.message
    assert note.lines == (10, 10)
    assert found.kernels[0].opaque == 1


def test_a_search_that_cannot_be_evaluated_is_marked_incomplete(tmp_path: Path) -> None:
    found = extract_file(written(tmp_path, UNKNOWN_SEARCH))
    spaces = found.kernels[0].tuning.spaces
    assert any(not space.complete and space.reason for space in spaces)
    (note,) = [n for n in found.diagnostics if "not all configurations" in n.message]
    assert note.lines


def test_the_source_is_never_run(tmp_path: Path) -> None:
    trap = tmp_path / "ran"
    text = f"import pathlib\npathlib.Path({str(trap)!r}).touch()\n" + KERNEL
    extract_file(written(tmp_path, text))
    assert not trap.exists()


def test_a_package_is_told_from_its_root_and_siblings_are_read(tmp_path: Path) -> None:
    written(tmp_path, "", "pack/__init__.py")
    written(tmp_path, "WIDTH = 256\n", "pack/sizes.py")
    path = written(tmp_path, HELPER_IN_PACKAGE, "pack/fills.py")
    found = extract_file(path)
    assert found.source.path == "pack/fills.py"
    assert "256" in str(found.kernels[0].kernel)


def test_a_loader_does_not_leave_its_folder(tmp_path: Path) -> None:
    written(tmp_path, "", "inside/pack/__init__.py")
    written(tmp_path, "WIDTH = 4096\n", "outside/sizes.py")
    (tmp_path / "inside/pack/sizes.py").symlink_to(tmp_path / "outside/sizes.py")
    path = written(tmp_path, HELPER_IN_PACKAGE, "inside/pack/fills.py")
    assert "4096" not in str(extract_file(path).kernels[0].kernel)


def test_the_distribution_of_a_file_is_known(tmp_path: Path) -> None:
    written(tmp_path, "", "pack/__init__.py")
    path = written(tmp_path, KERNEL, "pack/rows.py")
    written(tmp_path, "pack/__init__.py,,\npack/rows.py,,\n", "pack-2.0.dist-info/RECORD")
    metadata = "Metadata-Version: 2.4\nName: pack\nVersion: 2.0\nLicense-Expression: MIT\n"
    written(tmp_path, metadata, "pack-2.0.dist-info/METADATA")
    source = extract_file(path).source
    assert (source.package, source.licence) == ("pack==2.0", "MIT")


def test_many_files_come_back_in_order_and_alike(tmp_path: Path) -> None:
    for index in range(5):
        written(tmp_path, KERNEL.replace("add_rows", f"add_{index}"), f"k{index}.py")
    written(tmp_path, "import cuda.tile\ndef broken(:\n", "k5.py")
    files = source_files([str(tmp_path)])
    steps: list[int] = []
    several = extract_many(files, jobs=2, progress=lambda done, total, name: steps.append(done))
    assert several == extract_many(files, jobs=1)
    assert [k.kernel.name for s in several for k in s.kernels] == [f"add_{i}" for i in range(5)]
    assert several[5].diagnostics[0].severity is Severity.ERROR
    assert steps == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        pytest.param(b"a" * 5_000_000, InputError, "4000000", id="too large"),
        pytest.param("def f(:\n", SyntaxProblem, "kernels.py:1:", id="syntax"),
        pytest.param(b"x = '\xff'\n", InputError, "UTF-8", id="not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_raises(
    tmp_path: Path, text: str | bytes, error: type[InputError], said: str
) -> None:
    with pytest.raises(error) as raised:
        extract_file(written(tmp_path, text))
    assert said in raised.value.text


@pytest.mark.parametrize("text", [KERNEL, TRITON, UNKNOWN_CALL, UNKNOWN_SEARCH])
def test_the_dsl_of_a_kernel_reads_back(tmp_path: Path, text: str) -> None:
    (kernel,) = extract_file(written(tmp_path, text)).kernels
    document = knowledge_document(kernel)
    again = read(write(document), vocabulary(), where="kernel.dsl")
    assert again.document == document
    assert again.notes == ()
    assert document_program(again.document) == kernel.kernel
