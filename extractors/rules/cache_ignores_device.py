"""What depends on the device is remembered under a key that does not hold the device."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from extractors.host.callers import called, leading
from extractors.host.facts import Material, functions_of
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from extractors.syntax.nodes import each, walk
from kb.evidence import Finding, Lines, Severity

_HOST = """
sizes = {}

def blocks_of(n):
    sms = torch.cuda.get_device_properties("cuda").multi_processor_count
    return min(sms, n)

def run(x, out):
    n = x.numel() // 32
    blocks = sizes.get(n)
    if blocks is None:
        blocks = blocks_of(n)
        sizes[n] = blocks
    LAUNCH
"""
_POINTER = (
    POINTER
    + """
import torch
@triton.jit
def rows(x, out, n):
    for i in range(tl.program_id(0), n, tl.num_programs(0)):
        at = i.to(tl.int64) * 32 + tl.arange(0, 32)
        tl.store(out + at, tl.load(x + at) * 2.0)
"""
    + vary(_HOST, ("LAUNCH", "rows[(blocks,)](x, out, n)"))
)
_TILED = (
    TILE
    + """
import torch
@ct.kernel
def rows(x, out, n: int):
    for i in range(ct.bid(0), n, ct.num_blocks(0)):
        ct.store(out, index=(i,), tile=ct.load(x, index=(i,), shape=(32,)) * 2.0)
"""
    + vary(_HOST, ("LAUNCH", "ct.launch(None, (blocks, 1, 1), rows, (x, out, n))"))
)
_ASKED = frozenset({"get_device_properties", "get_device_capability"})
"""Functions of PyTorch that ask what a device is."""


class CacheIgnoresDevice(Rule):
    """A function of the module asks the device, and a dictionary of the module remembers its result
    by sizes alone: on a machine with different devices the numbers of the first are taken for all.
    """

    name = "cache-ignores-device"
    matches = (Case(_POINTER, "`sizes`"), Case(_TILED, "`sizes`"))
    near_misses = (
        NearMiss(
            vary(_POINTER, ("sizes[n]", "sizes[n, x.device]"), ("sizes.get(n)",
                            "sizes.get((n, x.device))")),
            why="the key holds the device",
        ),
        NearMiss(
            vary(_POINTER, ("def blocks_of(n)", "def blocks_of(n, of)"), ('("cuda")', "(of)"),
                 ("def run(x, out)", "def run(x, out, at)"), ("blocks_of(n)", "blocks_of(n, at)"),
                 ("sizes[n]", "sizes[n, at]"), ("sizes.get(n)", "sizes.get((n, at))")),
            why="the key holds what the question about the device is asked of",
        ),
        NearMiss(
            vary(_POINTER, ("get_device_properties", "current_stream")),
            why="nothing about the device is asked",
        ),
    )  # fmt: skip
    seen = (Seen("tilegym", "tilegym/ops/cutile/rms_norm.py", "_rms_bwd_kernel", 287),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material = subject.host.material
        for cache, function, lines in _remembered(material) if material is not None else ():
            yield self.finding(
                subject,
                f"`{function}` asks the device, and `{cache}` remembers its result under a key "
                "without the device: another device gets the numbers of the first",
                "add the device to the key",
                [lines],
                Severity.NOTE,
            )


def _remembered(material: Material) -> Iterator[tuple[str, str, Lines]]:
    """Dictionary, function whose result it keeps, and the lines from where it is looked up."""
    caches = {name.id for name, value in _assigned(material.tree.body) if _empty(value)}
    asking = {f.name: f for f in functions_of(material.tree) if _ASKED & called(f)}
    functions = {id(f): f for launch in material.sites() for f in leading(material, launch)}
    for function in functions.values():
        made = {name.id: value for name, value in _assigned(walk(function))}
        for cache, key, kept, line in _stores(function):
            call = made.get(kept.id) if isinstance(kept, ast.Name) else kept
            if cache not in caches or not isinstance(call, ast.Call):
                continue
            maker = asking.get(call.func.id) if isinstance(call.func, ast.Name) else None
            if maker is not None and not _holds(key, _devices(maker, call), made):
                first = min(n.lineno for n in each(function, ast.Name) if n.id == cache)
                yield cache, maker.name, (first, line)


def _assigned(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.Name, ast.expr]]:
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((t, node.value) for t in targets if isinstance(t, ast.Name))


def _stores(function: ast.FunctionDef) -> Iterator[tuple[str, ast.expr, ast.expr, int]]:
    """Name, key and value of what is put under a key, with its line."""
    for node in each(function, ast.Assign):
        target = node.targets[0]
        if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            yield target.value.id, target.slice, node.value, target.lineno


def _empty(value: ast.expr) -> bool:
    return isinstance(value, ast.Dict) and not value.keys


def _devices(maker: ast.FunctionDef, call: ast.Call) -> set[str]:
    """Names that a call hands to the parameters which the maker asks about."""
    asked = {
        n.id
        for question in each(maker, ast.Call)
        if getattr(question.func, "attr", "") in _ASKED
        for n in each(question, ast.Name)
    }
    taken = [*zip((a.arg for a in maker.args.args), call.args, strict=False)]
    taken += [(k.arg, k.value) for k in call.keywords if k.arg is not None]
    given = [value for name, value in taken if name in asked]
    return {n.id for value in given for n in each(value, ast.Name)}


def _holds(key: ast.expr, devices: set[str], made: dict[str, ast.expr]) -> bool:
    """Whether a key speaks of the device: itself, or by a name."""
    for node in walk(key):
        named = walk(made[node.id]) if isinstance(node, ast.Name) and node.id in made else ()
        for one in (node, *named):
            if isinstance(one, ast.Attribute) and one.attr in ("device", "current_device"):
                return True
            if isinstance(one, ast.Name) and one.id in devices:
                return True
    return False
