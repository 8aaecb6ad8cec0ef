"""Rules of launches that a module beside the configuration tables keeps, by a name that is asked
for."""

from __future__ import annotations

from tests.extractors.host.conftest import Read

TEXT = """
import torch
import triton
import triton.language as tl
from pkg.loader import rules_for

@triton.heuristics(rules_for("rows"))
@triton.jit
def k_rows(x, n, T: tl.constexpr):
    pass

def host(x):
    k_rows[(x.shape[0],)](x, x.shape[1])
"""
RULES = """
def width(args):
    return 512 if args["n"] <= 512 else 1024

def warps(args):
    return 4 if args["T"] <= 512 else 8

ALL = {"others": {"T": warps}, "rows": {"T": width, "num_warps": warps}}
"""
LOADER = "def rules_for(name):\n    return load(name)\n"


def test_rules_beside_the_tables(read: Read) -> None:
    facts = read(
        TEXT,
        **{
            "pkg__loader": LOADER,
            "pkg/_nvidia/tables.yaml": "rows:\n",
            "pkg___nvidia__rules": RULES,
        },
    )
    told = {one.axis: one for one in facts.decisions}
    assert told["tile_selection"].value == "heuristic(shape)"
    assert told["num_warps"].value == "host rule (4, 8)"
    assert (7, 7) in told["num_warps"].lines
    assert (7, 7) in told["autotuning"].lines


def test_no_table_no_rules(read: Read) -> None:
    facts = read(TEXT, pkg__loader=LOADER, pkg__rules=RULES)
    assert not {"tile_selection", "num_warps"} & {one.axis for one in facts.decisions}
