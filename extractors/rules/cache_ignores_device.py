"""What depends on the device is remembered under a key that does not hold the device."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from extractors.host.callers import called, leading
from extractors.host.facts import Material, functions_of
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
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
    caches = {
        target.id
        for node in material.tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name) and isinstance(node.value, ast.Dict) and not node.value.keys
    }
    asking = {f.name for f in functions_of(material.tree) if _ASKED & called(f)}
    functions = {id(f): f for launch in material.sites() for f in leading(material, launch)}
    for function in functions.values():
        made = {
            target.id: node.value
            for node in ast.walk(function)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        calls = {
            target.id: str(getattr(node.value.func, "id", ""))
            for node in ast.walk(function)
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(function):
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            if not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Name):
                continue
            kept = node.value if isinstance(node, ast.Assign) else None
            maker = calls.get(kept.id, "") if isinstance(kept, ast.Name) else ""
            if isinstance(kept, ast.Call) and isinstance(kept.func, ast.Name):
                maker = kept.func.id
            if target.value.id in caches and maker in asking and not _device(target.slice, made):
                name = target.value.id
                first = min(
                    n.lineno for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == name
                )
                yield name, maker, (first, target.lineno)


def _device(key: ast.expr, made: dict[str, ast.expr]) -> bool:
    """Whether a key speaks of a device, perhaps by a name."""
    for node in ast.walk(key):
        if isinstance(node, ast.Attribute) and node.attr in ("device", "index", "current_device"):
            return True
        if isinstance(node, ast.Name):
            value = made.get(node.id)
            if "device" in node.id or (value is not None and "device" in ast.unparse(value)):
                return True
    return False
