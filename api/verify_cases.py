"""Which problems a generated file is checked on, by family; small enough for the interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Case = dict[str, Any]

TOLERANCE: Mapping[str, Mapping[str, float]] = {
    "layernorm": {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1e-5},
    "attention": {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5},
}
"""Largest |given - expected| / max(1, |expected|) against a reference in 64-bit floats.

One rounding to the storage dtype costs 2^-11 (float16) or 2^-8 (bfloat16) of a value up to eight;
attention also rounds its probabilities.
"""

MANY_ROWS = 4096
"""Rows of the launch whose compile is looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """The cases of one file, and the launch that is compiled ahead of time."""

    cases: tuple[Case, ...]
    launch: Case


def suite(facts: Mapping[str, Any], *, gpu: bool) -> Suite | None:
    """The cases for a file by its TILELORE facts; None when its family has no reference."""
    match facts.get("family"):
        case "layernorm":
            return _layernorm(facts, gpu=gpu)
        case "attention":
            return _attention(facts, gpu=gpu)
    return None


def _layernorm(facts: Mapping[str, Any], *, gpu: bool) -> Suite:
    shapes: list[list[int]] = [[1, 1], [3, 5], [2, 3, 100], [5, 1024], [2, 3000], [7], [0, 16]]
    dtypes = ["float16", "float32", *(["bfloat16"] if gpu else [])]
    tile = facts["design_point"].get("tile_n")
    resident = str(facts["design_point"].get("row_residency", "")).startswith("single tile")
    if gpu:
        shapes += [[33, 8192], [17, 5120], [4096, 1000]]
    if tile is not None and resident:
        shapes = [shape for shape in shapes if shape[-1] <= tile]
    cases = [
        {
            "name": f"{'x'.join(map(str, shape))} {dtype}",
            "shape": shape,
            "dtype": dtype,
            "eps": 1e-5,
        }
        for shape in shapes
        for dtype in dtypes
    ]
    for layout in ("row stride", "transposed"):
        name = f"4x24 float32, {layout}"
        cases.append(
            {"name": name, "shape": [4, 24], "dtype": "float32", "eps": 1e-3, "layout": layout}
        )
    columns = min(4096, tile) if tile is not None and resident else 4096
    launch = {"shape": [MANY_ROWS, columns], "dtype": "bfloat16", "eps": 1e-5}
    return Suite(cases=tuple(cases), launch=launch)


def _attention(facts: Mapping[str, Any], *, gpu: bool) -> Suite:
    computed = facts.get("computed", {})
    shifted = any("shape[2] - " in str(text) for text in computed.values())
    flags = [name for name, default in facts.get("scalars", {}).items() if default is True]
    rows: list[tuple[str, tuple[int, int, int, int, int, int], str]] = [
        ("heads", (2, 2, 2, 128, 128, 64), "float16"),
        ("grouped heads, tail", (1, 4, 2, 100, 100, 64), "float16"),
        ("wide head, tail", (1, 2, 1, 70, 70, 128), "float16"),
        ("float32", (1, 2, 1, 40, 40, 32), "float32"),
        ("more keys, tail", (1, 2, 1, 33, 130, 64), "float16"),
        ("one query", (1, 2, 1, 1, 140, 64), "float16"),
    ]
    if gpu:
        rows += [
            ("long", (1, 4, 2, 1000, 1000, 128), "bfloat16"),
            ("long, narrow head", (2, 4, 4, 513, 513, 64), "bfloat16"),
            ("long float16", (1, 4, 1, 2048, 2048, 128), "float16"),
        ]
    cases = [
        _attention_case(name, sizes, dtype, causal=causal)
        for name, sizes, dtype in rows
        for causal in ([True, False] if flags else [True])
        if sizes[3] == sizes[4] or shifted or not causal
    ]
    cases.append(
        {
            **_attention_case("scale 0.3", (1, 1, 1, 40, 40, 32), "float32", causal=True),
            "scale": 0.3,
        }
    )
    launch = _attention_case("launch", (1, 2, 1, 1024, 1024, 128), "bfloat16", causal=True)
    return Suite(cases=tuple(cases), launch=launch)


def _attention_case(
    name: str, sizes: tuple[int, int, int, int, int, int], dtype: str, *, causal: bool
) -> Case:
    batch, heads, kv_heads, queries, keys, depth = sizes
    mask = "causal" if causal else "full"
    return {
        "name": f"{name}: {batch}x{heads}/{kv_heads}x{queries}x{keys}x{depth} {dtype} {mask}",
        "batch": batch,
        "heads": heads,
        "kv_heads": kv_heads,
        "queries": queries,
        "keys": keys,
        "depth": depth,
        "dtype": dtype,
        "causal": causal,
    }
