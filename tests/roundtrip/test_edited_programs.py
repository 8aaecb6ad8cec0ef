"""DSL files whose program was edited: real kernels pass as they were read, operands that changed
places are refused where they stand, and no edit makes the check itself fail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner

from api.cli import app
from api.corpora import fetch
from api.ratchet import load
from api.source_files import FolderModules, module_text
from api.subjects import design_text
from extractors.read import read
from kb.analysis.type_check import type_problems
from kb.errors import InputError
from kb.ir import Function, Kernel, Op, Region, walk
from kb.ir_verify import verify
from kb.ops import WRITES, OpKind

SAMPLE = load(Path(__file__).parent / "sample.json").kernels
MUTATIONS = 12
"""Edits of each kernel."""

MEMORY = {
    OpKind.STORE: ("pointer", "value"), OpKind.STORE_TILE: ("array", "index"),
    OpKind.SCATTER: ("array", "index"),
}  # fmt: skip
"""Operands of stores that are never of one kind."""


@cache
def kernels() -> tuple[Kernel, ...]:
    found: list[Kernel] = []
    for sampled in SAMPLE:
        try:
            folder = fetch(sampled.package).folder
        except InputError as problem:
            pytest.skip(f"{sampled.package} is not at hand: {problem.message}")
        text = module_text(folder, folder / sampled.path)
        assert text is not None
        read_here = read(text, FolderModules(folder)).kernels
        found += [kernel for kernel in read_here if kernel.name == sampled.kernel]
    return tuple(found)


def edited(kernel: Kernel, old: Op, new: Op) -> Kernel:
    """The program with another operation in one place of its entry."""
    return replace(kernel, entry=replace(kernel.entry, body=_region(kernel.entry.body, old, new)))


def _region(region: Region, old: Op, new: Op) -> Region:
    ops = tuple(
        new if op is old else replace(op, regions=tuple(_region(r, old, new) for r in op.regions))
        for op in region.ops
    )
    return Region(region.arguments, ops)


def exchanged(op: Op, one: str, other: str) -> Op:
    """The operation with two operands in each other's place."""
    places = {one: op.operand(other), other: op.operand(one)}
    return replace(op, operands=tuple((role, places.get(role) or v) for role, v in op.operands))


def stores(function: Function) -> Iterator[tuple[Op, tuple[str, str]]]:
    for op in walk(function.body):
        roles = MEMORY.get(OpKind(op.kind))
        if roles is not None and op.kind in WRITES and all(op.operand(role) for role in roles):
            yield op, roles


def test_every_kernel_of_the_sample_is_well_typed() -> None:
    assert len(kernels()) == len(SAMPLE) == 65
    assert {k.name: p for k in kernels() if (p := type_problems(k))} == {}


def test_stores_whose_operands_changed_places_are_refused() -> None:
    """Nine in ten: a loaded address or the result of a call is not certain to be a number."""
    tried, passed = 0, []
    for kernel in kernels():
        for op, roles in list(stores(kernel.entry))[:1]:
            wrong = edited(kernel, op, exchanged(op, *roles))
            if verify(wrong):
                continue
            tried += 1
            if not any(problem.span == op.span for problem in type_problems(wrong)):
                passed.append(f"{kernel.name}: {op.kind}")
    assert tried > 40
    assert len(passed) <= tried // 10, passed


def test_the_check_never_fails_itself() -> None:
    random = Random(20261122)
    for kernel in kernels():
        ops = [op for op in walk(kernel.entry.body) if len(op.operands) > 1]
        values = [v for op in ops for v in op.inputs]
        for op in random.sample(ops, min(MUTATIONS, len(ops))):
            operands = list(op.operands)
            place = random.randrange(len(operands))
            operands[place] = (operands[place][0], random.choice(values))
            if random.random() < 0.3:
                operands.pop(random.randrange(len(operands)))
            wrong = edited(kernel, op, replace(op, operands=tuple(operands)))
            assert isinstance(type_problems(wrong), tuple)


@pytest.mark.parametrize(
    ("command", "dialect"),
    [
        pytest.param(("validate",), "cutile", id="validate cutile"),
        pytest.param(("validate",), "triton", id="validate triton"),
        pytest.param(("generate", "--dialect", "cutile"), "cutile", id="generate cutile"),
    ],
)
def test_an_edited_file_is_refused_with_its_line(
    tmp_path: Path, command: tuple[str, ...], dialect: str
) -> None:
    kernel = next(k for k in kernels() if k.dialect == dialect and list(stores(k.entry)))
    op, roles = next(stores(kernel.entry))
    path = tmp_path / "edited.dsl"
    path.write_text(design_text(edited(kernel, op, exchanged(op, *roles))))
    shown = f"{roles[0]} %{op.operand(roles[1])}"
    (line,) = [n for n, text in enumerate(path.read_text().splitlines(), 1) if shown in text]
    result = CliRunner().invoke(app, [command[0], str(path), *command[1:]])
    assert result.exit_code == 2
    said = " ".join((result.stdout + result.stderr).split())
    assert f"edited.dsl:{line}" in said.replace(" ", "") or f"edited.dsl:{line}" in said
    assert f"{op.kind} takes an array or pointer" in said
    path.write_text(design_text(kernel))
    assert CliRunner().invoke(app, ["validate", str(path)]).exit_code == 0
