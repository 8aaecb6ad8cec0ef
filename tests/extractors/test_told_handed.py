"""What the program shows under a flag is told with the lines where the host decides it."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.extract import extract_source
from api.sources import SourceFile
from extractors.detect import detect
from extractors.told_optional import FLAG
from extractors.told_together import told_together
from kb.evidence import Decision
from tests.extractors.rules.support import subject

_KERNEL = """
import torch
import triton
import triton.language as tl

@triton.jit
def rows(x, part, out, n, SPLIT: tl.constexpr, WIDE: tl.constexpr, T: tl.constexpr):
    row = tl.program_id(0)
    if WIDE:
        row = row.to(tl.int64)
    at = tl.arange(0, T)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0)
    if SPLIT > 1:
        tl.store(part + row * n + at, v, mask=at < n)
    else:
        tl.store(out + row * n + at, v, mask=at < n)
"""
_HOST = """
def host(x, parts):
    out = torch.empty_like(x)
    n = x.shape[1]
    if parts > 1:
        part = torch.empty_like(x)
    else:
        part = out
    rows[(x.shape[0],)](
        x,
        part,
        out,
        n,
        SPLIT=parts,
        WIDE=x.numel() > 2**31 - 1,
        T=1024,
    )
    return out
"""
_ALWAYS = _HOST.replace("        part = out\n", "        part = torch.empty_like(x)\n").replace(
    "    if parts > 1:\n        part = torch.empty_like(x)\n    else:\n        part", "    part"
).replace("        part = torch", "    part = torch")  # fmt: skip
_RAGGED = _KERNEL.replace(
    "        row = row.to(tl.int64)\n", "        row = tl.load(part + row).to(tl.int64)\n"
)
_FIXED = _HOST.replace("x.numel() > 2**31 - 1", "True")


def _told(text: str) -> tuple[Decision, ...]:
    found = subject(text)
    return told_together(detect(found.facts.kernel, found.host), found.host)


def _written(text: str, piece: str) -> set[int]:
    return {at for at, line in enumerate(text.splitlines(), 1) if piece in line}


@pytest.mark.parametrize(
    ("host", "piece", "expected"),
    [
        pytest.param(_HOST, "part = ", True, id="one of two arrays"),
        pytest.param(_ALWAYS, "part = ", False, id="always an array of its own"),
    ],
)
def test_what_stands_in(host: str, piece: str, expected: bool) -> None:
    text = _KERNEL + host
    lines = {at[0] for d in _told(text) if d.pattern == FLAG for at in d.lines}
    assert (_written(text, piece) <= lines) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(_KERNEL + _HOST, True, id="a test of the host"),
        pytest.param(_KERNEL + _FIXED, False, id="written at the launch"),
        pytest.param(_RAGGED + _HOST, False, id="the branch reads, too"),
    ],
)
def test_the_flag_of_wide_positions(text: str, expected: bool) -> None:
    lines = {at[0] for d in _told(text) if d.axis == "index_width" for at in d.lines}
    assert (_written(text, "        WIDE=") <= lines) is expected


_STAGED = """
import triton
import triton.language as tl

@triton.jit
def product(a, b, out, K, num_stages: tl.constexpr, T: tl.constexpr):
    r = tl.arange(0, T)
    acc = tl.zeros((T, T), dtype=tl.float32)
    for k in range(0, K, T):
        left = tl.load(a + r[:, None] * K + k + r[None, :])
        acc += tl.dot(left, tl.load(b + (k + r[:, None]) * T + r[None, :]))
    tl.store(out + r[:, None] * T + r[None, :], acc)

def host(a, b, out):
    product[(1,)](
        a, b, out, a.shape[1],
        2,
        64,
    )
"""
_BY_NAME = _STAGED.replace("        2,\n        64,\n", "        num_stages=2, T=64,\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(_STAGED, True, id="by its place"),
        pytest.param(_BY_NAME, False, id="by its name: an option, too"),
    ],
)
def test_a_depth_that_the_compiler_does_not_get(text: str, expected: bool) -> None:
    told = [d for d in _told(text) if d.axis == "prefetch_depth" and d.value == "compiler-inferred"]
    lines = {at[0] for d in told for at in d.lines}
    assert bool(_written(text, "        2,") & lines) is expected


_WIDE = """
def wide(x):
    if x.numel() > 2**31 - 1:
        return True
    return False
"""
_ASKED = "from pkg.near import wide\n" + _KERNEL + _HOST.replace("x.numel() > 2**31 - 1", "wide(x)")


@pytest.mark.parametrize(
    ("main", "places"),
    [
        pytest.param(_ASKED, (("pkg/near.py", (3, 3)), ("pkg/near.py", (4, 4)),
                              ("pkg/near.py", (5, 5))), id="asked of another module"),
        pytest.param("from pkg.near import wide\n" + _KERNEL + _HOST, (), id="asked here"),
    ],
)  # fmt: skip
def test_the_flag_of_another_module(
    main: str, places: tuple[tuple[str, tuple[int, int]], ...], tmp_path: Path
) -> None:
    folder = tmp_path / "pkg"
    folder.mkdir()
    for name, text in (("__init__", ""), ("near", _WIDE), ("main", main)):
        (folder / f"{name}.py").write_text(text)
    file = SourceFile(path=folder / "main.py", root=tmp_path, shown="pkg/main.py")
    found = [d for k in extract_source(file).kernels for d in k.decisions]
    assert [d.elsewhere for d in found if d.axis == "index_width"] == [places]
