"""Searches over configurations: spaces, effective and dead axes, keys."""

from __future__ import annotations

import ast

from extractors.rules.registry import findings_of
from tests.extractors.host.conftest import Read
from tests.extractors.rules.support import subject

HEAD = """
import math
from types import SimpleNamespace
import cuda.tile as ct
import torch
from cuda.tile.tune import exhaustive_search
cache = {}
C = ct.Constant[int]
def gen(d):
    cap = torch.cuda.get_device_capability()
    if cap in [(12, 0), (12, 1)]:
        yield SimpleNamespace(T=64, occupancy=d and 2)
    elif cap[0] < 9:
        yield SimpleNamespace(T=64, occupancy=1)
        yield SimpleNamespace(T=128, occupancy=2)
    else:
        yield SimpleNamespace(T=256, occupancy=1)
@ct.kernel
def k(X, Out, n: int, T: C):
    ct.store(Out, (0,), ct.load(X, (n,), (T,)))
"""

SEARCHED = (
    HEAD
    + """
def run(x):
    x = x.contiguous()
    b, n = x.shape
    out = torch.empty_like(x)
    key = (KEY)
    if key not in cache:
        with ct.compiler_timeout(5):
            found = exhaustive_search(
                list(gen(n)), None, lambda cfg: (math.ceil(n / cfg.T), b, 1), k,
                lambda cfg: (x, out, n, cfg.T) HINTS)
        best = found.best.config
        cache[key] = (best, k.replace_hints(LAUNCH))
    best, tuned = cache[key]
    ct.launch(None, (math.ceil(n / best.T), b, 1), tuned, (x, out, n, best.T))
    return out
"""
)
WITH_HINTS = ", lambda cfg: {'occupancy': cfg.occupancy}"


def searched(
    key: str = "b, n, x.dtype", hints: str = WITH_HINTS, launch: str = "occupancy=best.occupancy"
) -> str:
    return SEARCHED.replace("KEY", key).replace("HINTS", hints).replace("LAUNCH", launch)


def test_space_per_capability(read: Read) -> None:
    tuning = read(searched()).tuning
    assert [space.when for space in tuning.spaces] == [
        "capability in [(12, 0), (12, 1)]",
        "capability[0] < 9",
        "otherwise",
    ]
    assert tuning.spaces[1].points == (
        (("T", 64), ("occupancy", 1)),
        (("T", 128), ("occupancy", 2)),
    )
    assert tuning.mechanism == "exhaustive_search"
    assert tuning.effective_axes == ("T", "occupancy")
    assert tuning.dead_axes == ()
    assert tuning.cache_key == ("X.shape[0]", "X.shape[1]", "X.dtype")


def test_launch_in_names_of_the_kernel(read: Read) -> None:
    (launch,) = read(searched()).launches
    assert launch.grid == ("cdiv(X.shape[1], T)", "X.shape[0]", "1")
    assert {row.parameter: row.expression for row in launch.bindings} == {
        "X": "x",
        "Out": "out",
        "n": "X.shape[1]",
        "T": "T",
    }
    assert launch.hints == (("occupancy", "occupancy"),)


def test_dead_axes_without_a_hints_function(read: Read) -> None:
    tuning = read(searched(hints="", launch="occupancy=2")).tuning
    assert (tuning.effective_axes, tuning.dead_axes) == (("T",), ("occupancy",))
    assert (tuning.timed_with, tuning.launched_with) == ((), (("occupancy", 2),))


def test_hints_written_into_one_of_several_tables(read: Read) -> None:
    written = """
def with_config(cfg, base):
    made = base.copy()
    for name in ("occupancy", "num_ctas"):
        value = getattr(cfg, name, None)
        if value is not None:
            made[name] = value
    return made

def run("""
    hints = ", lambda cfg: with_config(cfg, {'num_ctas': 2} if n > 64 else {'num_ctas': 1})"
    text = searched(hints=hints).replace("\ndef run(", written)
    tuning = read(text).tuning
    assert (set(tuning.effective_axes), tuning.dead_axes) == ({"T", "occupancy"}, ())


class Renamer(ast.NodeTransformer):
    """Other names for everything that the snippet itself defines."""

    NAMES = {
        "gen": "produce",
        "run": "call_it",
        "cap": "v0",
        "cfg": "v1",
        "best": "v2",
        "found": "v3",
        "cache": "v4",
        "key": "v5",
        "tuned": "v6",
        "x": "v7",
        "out": "v8",
        "b": "v9",
        "n": "v10",
        "d": "v11",
    }

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(id=self.NAMES.get(node.id, node.id), ctx=node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(arg=self.NAMES.get(node.arg, node.arg), annotation=node.annotation)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if node.name == "k":
            return node
        node.name = self.NAMES.get(node.name, node.name)
        return self.generic_visit(node)


def test_names_of_the_host_do_not_matter(read: Read) -> None:
    text = searched(hints="", launch="occupancy=2")
    renamed = ast.unparse(ast.fix_missing_locations(Renamer().visit(ast.parse(text))))
    first, second = read(text), read(renamed)
    told, again = (findings_of(subject(one)) for one in (text, renamed))
    assert [row.rule for row in told] == [row.rule for row in again] != []
    assert first.launches[0].grid == second.launches[0].grid
    assert [(row.axis, row.value) for row in first.decisions] == [
        (row.axis, row.value) for row in second.decisions
    ]
    assert first.tuning.effective_axes == second.tuning.effective_axes


def test_decisions_of_a_search(read: Read) -> None:
    seen = {(row.axis, row.value) for row in read(searched()).decisions}
    assert {
        ("autotuning", "exhaustive_search"),
        ("arch_dispatch", "if capability"),
        ("occupancy", "tuned"),
        ("search_pruning", "compiler_timeout(5)"),
        ("layout_contract", ".contiguous() on host"),
    } <= seen


def test_an_answer_about_the_target_is_handed_in_as_a_flag(read: Read) -> None:
    text = """
import cuda.tile as ct
import torch
def can():
    cap = torch.cuda.get_device_capability()
    return cap == (9, 0) or cap[0] >= 10
@ct.kernel
def k(X, Out, n: int, WIDE: ct.Constant[bool]):
    ct.store(Out, (0,), ct.load(X, (n,), (64,)))
def run(x, out, n):
    wide = can()
    ct.launch(None, (1, 1, 1), k, (x, out, n, wide))
"""
    told = [row for row in read(text).decisions if row.axis == "arch_dispatch"]
    assert [(row.value, (11, 11) in row.lines) for row in told] == [("if capability", True)]
    sized = read(text.replace("wide = can()", "wide = n > 64")).decisions
    assert not any(row.axis == "arch_dispatch" for row in sized)


def test_a_kernel_kept_under_a_key_that_a_test_chose_is_launched(read: Read) -> None:
    text = """
import cuda.tile as ct
import torch
C = ct.Constant[int]
kept = {}
@ct.kernel
def k(X, T: C):
    ct.store(X, (0,), ct.load(X, (0,), (T,)) + 1)
@ct.kernel
def kk(X, T: C):
    ct.store(X, (0,), ct.load(X, (0,), (T,)) + 2)
def chosen(n, wide):
    if wide:
        key = ("one", n)
        base = k
    else:
        key = ("other", n)
        base = kk
    if key in kept:
        return kept[key]
    kept[key] = base.replace_hints(occupancy=2)
    return kept[key]
def run(x, n):
    wide = x.dtype == torch.float32
    kernel = chosen(n, wide)
    if wide:
        ct.launch(None, (1, 1, 1), kernel, (x, 64))
    else:
        ct.launch(None, (1, 1, 1), kernel, (x, 128))
"""
    launched = [[one.lines for one in read(text, name).launches] for name in ("k", "kk")]
    assert launched == [[(27, 27)], [(29, 29)]]


def test_first_configuration_without_a_search(read: Read) -> None:
    text = (
        HEAD
        + """
def run(x):
    cfg = list(gen(1))[0]
    kernel = k.replace_hints(occupancy=cfg.occupancy)
    ct.launch(None, (math.ceil(x.shape[0] / cfg.T),), kernel, (x, x, 1, cfg.T))
"""
    )
    facts = read(text)
    assert facts.tuning.mechanism == "first config"
    assert [space.when for space in facts.tuning.spaces][-1] == "otherwise"
    assert ("autotuning", "first config") in {(row.axis, row.value) for row in facts.decisions}


def test_space_by_a_table_keyed_with_a_problem_size(read: Read) -> None:
    text = (
        HEAD
        + """
TABLE = {64: [32, 64], 128: [16]}
def run(x):
    n = x.shape[1]
    points = [SimpleNamespace(T=t) for t in TABLE.get(n, [8])]
    found = exhaustive_search(points, None, lambda c: (1, 1, 1), k, lambda c: (x, x, n, c.T))
    ct.launch(None, (1, 1, 1), k, (x, x, n, found.best.config.T))
"""
    )
    spaces = read(text).tuning.spaces
    assert [space.when for space in spaces] == [
        "X.shape[1] == 64",
        "X.shape[1] == 128",
        "otherwise",
    ]
    assert [len(space.points) for space in spaces] == [2, 1, 1]


CHOSEN = """
import torch, triton
import triton.language as tl
from pkg.chosen import tuned
@triton.heuristics({"EVEN": lambda args: args["n"] % args["T"] == 0})
@triton.jit
def k(x, n, T: tl.constexpr, EVEN: tl.constexpr):
    pass
k = tuned()(k)
def run(x):
    k[lambda meta: (triton.cdiv(x.numel(), meta["T"]),)](x, x.numel())
"""
TUNED = """
import os, triton
from triton import Config
ON = os.getenv("TUNED", "0") != "0"
def every():
    return [Config({"T": t}, num_warps=w) for t in (512, 1024) for w in (4, 8)]
def fixed(config):
    return triton.heuristics({k: (lambda args, _v=v: _v) for k, v in config.all_kwargs().items()})
def tuned():
    if ON:
        return triton.autotune(configs=every(), key=["n"])
    return fixed(Config({"T": 256}, num_warps=2))
"""


def test_a_tuner_that_a_sibling_makes_under_a_flag(read: Read) -> None:
    facts = read(CHOSEN, pkg__chosen=TUNED)
    (space,) = facts.tuning.spaces
    assert space.when == "os.getenv('TUNED', '0') != '0'"
    assert [dict(point) for point in space.points] == [
        {"T": tile, "num_warps": warps} for tile in (512, 1024) for warps in (4, 8)
    ]
    assert space.lines == (9, 9)
    assert facts.tuning.cache_key == ("n",)
    assert {launch.when for launch in facts.launches} == {
        "os.getenv('TUNED', '0') != '0'", "os.getenv('TUNED', '0') == '0'",
    }  # fmt: skip
