"""What a helper of another file does is told at the call, and where it stands."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from api.extract import extract_file, extract_many
from api.json_form import extract_document
from api.sources import lone_file
from kb.dsl.from_knowledge import knowledge_document
from kb.dsl.reader import read
from kb.dsl.writer import write
from kb.errors import InputError
from kb.graph.decode import decode
from kb.graph.encode import encode
from kb.graph.terms import vocabulary
from kb.ir_text import to_text

SCHEMA = json.loads((Path(__file__).parents[2] / "api" / "extract.schema.json").read_text())
CUDA = {
    "near.cuh": """__device__ float half_of(float x) {
    float wide = __expf(x);
    return wide * 0.5f;
}
""",
    "k.cu": """#include "near.cuh"
__global__ void k(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = half_of(x[i]);
}
""",
}
TRITON = {
    "near.py": """import triton
import triton.language as tl
@triton.jit
def half_of(x):
    return tl.exp(x) * 0.5
""",
    "k.py": """import triton
import triton.language as tl
from near import half_of
@triton.jit
def k(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(y + i, half_of(v), mask=i < n)
""",
}


def files(folder: Path, texts: dict[str, str]) -> Path:
    for name, text in texts.items():
        (folder / name).write_text(text)
    return folder / list(texts)[-1]


@pytest.mark.parametrize(
    ("texts", "call", "place"),
    [
        pytest.param(CUDA, (4, 4), ("near.cuh", (2, 2)), id="cuda"),
        pytest.param(TRITON, (8, 8), ("near.py", (5, 5)), id="triton"),
    ],
)
def test_both_places_are_told_and_kept(
    tmp_path: Path, texts: dict[str, str], call: tuple[int, int], place: tuple[str, tuple[int, int]]
) -> None:
    (kernel,) = extract_file(files(tmp_path, texts)).kernels
    (told,) = [d for d in kernel.decisions if d.axis == "math_approximation"]
    assert told.lines == (call,)
    assert told.elsewhere == (place,)
    assert told.file is None
    own = [d for d in kernel.decisions if d.axis == "boundary_handling"]
    assert own
    assert not any(d.elsewhere for d in own)
    graph = encode(kernel)
    stored = decode(graph.quads, to_text(kernel.kernel))
    assert told in stored.decisions
    assert told in read(write(knowledge_document(kernel)), vocabulary()).document.decisions
    document = extract_document(extract_many([lone_file(str(tmp_path / list(texts)[-1]))]))
    jsonschema.validate(document, SCHEMA)
    (stated,) = [k for source in document["sources"] for k in source["kernels"]]
    (row,) = [d for d in stated["decisions"] if d["axis"] == told.axis]
    assert row["elsewhere"] == [{"file": place[0], "lines": [list(place[1])]}]


@pytest.mark.parametrize(
    "texts", [pytest.param(CUDA, id="cuda"), pytest.param(TRITON, id="triton")]
)
def test_calls_between_other_files_are_told_too(tmp_path: Path, texts: dict[str, str]) -> None:
    near, home = texts
    further = near.replace("near", "far")
    inner = texts[near].replace("half_of", "deep")
    if near.endswith(".py"):
        head = "import triton\nfrom far import deep\n@triton.jit\ndef half_of(x):\n"
        between, line = f"{head}    return deep(x)\n", 5
    else:
        between, line = (
            '#include "far.cuh"\n__device__ float half_of(float x) {\n    return deep(x);\n}\n',
            3,
        )
    (kernel,) = extract_file(
        files(tmp_path, {further: inner, near: between, home: texts[home]})
    ).kernels
    (told,) = [d for d in kernel.decisions if d.axis == "math_approximation"]
    assert (near, (line, line)) in told.elsewhere
    assert further in told.by_file


def test_a_helper_of_the_same_file_is_no_other_place(tmp_path: Path) -> None:
    alone = CUDA["near.cuh"] + CUDA["k.cu"].replace('#include "near.cuh"', "")
    (kernel,) = extract_file(files(tmp_path, {"k.cu": alone})).kernels
    assert not any(d.elsewhere for d in kernel.decisions)


@pytest.mark.parametrize("words", ["3-4", '"f.cuh"', '"f.cuh" 3-4 "g.cuh"', "true"])
def test_elsewhere_takes_files_with_ranges(tmp_path: Path, words: str) -> None:
    (kernel,) = extract_file(files(tmp_path, CUDA)).kernels
    text = write(knowledge_document(kernel))
    assert 'elsewhere "near.cuh" 2-2' in text
    with pytest.raises(InputError, match="files with ranges"):
        read(text.replace('elsewhere "near.cuh" 2-2', f"elsewhere {words}"), vocabulary())
