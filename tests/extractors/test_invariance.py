"""Names, the order of independent statements, and helpers in or out change no decision."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from platformdirs import user_cache_path

from benchmarks.invariance import rewriting, spellings
from extractors.detect import detect
from extractors.modules import ModuleText
from extractors.patterns import cases, cases_rows
from extractors.read import read

KERNELS = {
    "attention": cases.ATTENTION,
    "attention, mask everywhere": cases.ATTENTION_EVERY,
    "attention with statistics": cases.ATTENTION_LSE,
    "attention by pointers": cases.ATTENTION_POINTER,
    "gradients of keys": cases.BACKWARD_KEYS,
    "product": cases.PRODUCT,
    "persistent product": cases.PRODUCT_PERSISTENT,
    "product by pointers": cases.PRODUCT_POINTER,
    "row norm": cases_rows.ROW_NORM,
    "row norm in chunks": cases_rows.ROW_NORM_CHUNKS,
    "persistent norm": cases_rows.NORM_PERSISTENT,
    "gradient of a norm": cases_rows.NORM_BACKWARD,
    "layer norm by pointers": cases_rows.LAYER_NORM_POINTER,
    "softmax": cases_rows.SOFTMAX,
    "softmax in chunks": cases_rows.SOFTMAX_CHUNKS,
    "transpose": cases_rows.TURN,
}
CHANGES: dict[str, Callable[[str], str]] = {
    "renamed": rewriting.rename,
    "renamed otherwise": lambda text: rewriting.rename(text, seed=7),
    "reordered": rewriting.reorder,
    "reordered otherwise": lambda text: rewriting.reorder(text, seed=11),
    "outlined": rewriting.outline,
    "inlined": rewriting.inline,
    **spellings.CHANGES,
    "all at once": lambda text: rewriting.rename(
        rewriting.outline(rewriting.reorder(text, seed=3)), seed=5
    ),
}
STRUCTURE = "code_structure"
"""The one axis that says whether a helper holds the body; outlining changes exactly that."""

CORPUS = Path(os.environ.get("TILELORE_CACHE") or user_cache_path("tilelore")) / "corpora"
REAL = "tilegym/ops/cutile/attention.py"

Seen = Counter[tuple[str, str, str]]


@cache
def seen(text: str) -> tuple[list[Seen], list[str | None]]:
    """Decisions and operation of every kernel, in the order in which the kernels stand."""
    kernels = read(ModuleText("", "kernel.py", text)).kernels
    found = [detect(kernel) for kernel in kernels]
    decisions = [
        Counter((d.axis, d.value, d.pattern) for d in one.decisions if d.axis != STRUCTURE)
        for one in found
    ]
    return decisions, [one.operation for one in found]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize("text", KERNELS.values(), ids=KERNELS.keys())
def test_decisions_do_not_change(text: str, change: Callable[[str], str]) -> None:
    assert seen(change(text)) == seen(text)


def test_changes_change_the_text() -> None:
    text = cases.ATTENTION
    changed = {name: change(text) for name, change in CHANGES.items() if name != "inlined"}
    assert all(new != text for new in changed.values())
    assert "attend_part" in changed["outlined"]
    assert "attend" not in changed["renamed"]
    assert "attend_part(" not in rewriting.inline(changed["outlined"]).split("def attend(")[1]


def test_outlining_is_seen_as_structure() -> None:
    kernels = read(ModuleText("", "kernel.py", rewriting.outline(cases.PRODUCT))).kernels
    assert STRUCTURE in {d.axis for d in detect(kernels[0]).decisions}


def real() -> str:
    path = next((p for p in CORPUS.glob(f"**/{REAL}")), None) if CORPUS.is_dir() else None
    if path is None:
        pytest.skip(f"corpus cache not at {CORPUS}; see api/corpora.py")
    return path.read_text()


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_the_real_file(change: Callable[[str], str]) -> None:
    text = real()
    assert seen(change(text)) == seen(text)


def test_the_real_file_decides_enough() -> None:
    """At least 21 patterns and 12 design axes occur in it, all kernels together."""
    found = [
        d for k in read(ModuleText("", "kernel.py", real())).kernels for d in detect(k).decisions
    ]
    assert len({d.pattern for d in found}) >= 21
    assert len({d.axis for d in found if d.kind == "design"}) >= 12
