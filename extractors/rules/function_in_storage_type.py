"""An exponential, or a function like it, is taken in the type in which arrays are stored."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from extractors.host.backwards import back, same_array
from extractors.host.callers import handed
from extractors.host.facts import Material
from extractors.host.render import leaves
from extractors.host.values import Expr
from extractors.patterns.cases import TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.graph import Node
from kb.evidence import Finding, Severity
from kb.ops import OpKind

_FUNCTIONS = (
    OpKind.EXP, OpKind.EXP2, OpKind.TANH, OpKind.SIGMOID, OpKind.ERF, OpKind.LOG, OpKind.LOG2,
)  # fmt: skip

_GATE = (
    TILE
    + """
import torch
@ct.kernel
def gate(x, out, T: Int):
    v = ct.load(x, index=(ct.bid(0),), shape=(T,))
    ct.store(out, index=(ct.bid(0),), tile=v / (1.0 + ct.exp(-v)))

def run(x):
    out = torch.empty_like(x)
    ct.launch(None, (ct.cdiv(x.numel(), 1024), 1, 1), gate, (x.view(-1), out.view(-1), 1024))
    return out
"""
)


class FunctionInStorageType(Rule):
    """A transcendental function is given a tile in the type of an array of the caller, which is
    also the type of what the kernel stores: with 16-bit floats its argument and its outcome are
    rounded."""

    name = "function-in-storage-type"
    dialects = ("cutile",)
    matches = (
        Case(_GATE, "`x`"),
        Case(
            vary(_GATE, ("empty_like(x)", "empty(x.shape, dtype=x.dtype, device=x.device)")), "`x`"
        ),
        Case(vary(_GATE, ("ct.exp(-v)", "ct.tanh(v * 0.5)")), "`x`"),
    )
    near_misses = (
        NearMiss(
            vary(_GATE, ("shape=(T,))\n", "shape=(T,)).astype(ct.float32)\n")),
            why="widened when loaded",
        ),
        NearMiss(
            vary(_GATE, ("ct.exp(-v)", "ct.exp(ct.astype(-v, ct.float32))")), why="widened before"
        ),
        NearMiss(
            vary(_GATE, ("empty_like(x)", "empty(x.shape, dtype=torch.bfloat16)")),
            why="the type of the input is not that of the output: it may be wide",
        ),
        NearMiss(
            vary(_GATE, ("    out = torch", "    x = x.float()\n    out = torch")),
            why="the host hands over 32-bit floats",
        ),
    )  # fmt: skip
    seen = (Seen("tilegym", "tilegym/ops/cutile/activation/geglu.py", "_geglu_fwd_kernel", 110),)

    def find(self, subject: Subject) -> Iterator[Finding]:
        facts, material = subject.facts, subject.host.material
        if material is None or facts.kernel.dialect not in self.dialects:
            return
        found: dict[str, list[Node]] = {}
        read = {access.array for access in facts.loads}
        for node in facts.graph.of(*_FUNCTIONS):
            array = facts.types.dtype(node.op.inputs[0]).removeprefix("dtypeof(").removesuffix(")")
            if facts.types.shape(node.result) and array in read:
                found.setdefault(array, []).append(node)
        stored = {access.array for access in facts.stores}
        for array, nodes in found.items():
            if _of_results(material, array, stored):
                yield self.finding(
                    subject,
                    f"{', '.join(dict.fromkeys(n.kind for n in nodes))} of `{array}` in its own "
                    "dtype: with 16-bit floats the argument and the outcome are rounded, where 32 "
                    "bits would cost registers alone",
                    "convert what is loaded to 32-bit floats first",
                    nodes,
                    Severity.NOTE,
                )


def _of_results(material: Material, array: str, stored: set[str | None]) -> bool:
    """Whether an array of the caller, as it comes, has the type in which results are stored."""
    machine = material.machine
    for launch in material.launches:
        given, form = dict(launch.args), handed(material, launch, array)
        if form is None or any(_widens(one) for one in back(material, form, same_array)):
            continue
        own = [one for leaf in leaves(given.get(array)) for one in (leaf, machine.unshaped(leaf))]
        kinds = [Expr("attr", (one, "dtype")) for one in own if isinstance(one, Expr)]
        made = [machine.unshaped(one) for name in stored if name for one in leaves(given.get(name))]
        facts = [fact for one in made if (fact := machine.tensors.get(one)) is not None]
        if any(fact.dtype in kinds for fact in facts):
            return True
    return False


def _widens(value: ast.expr) -> bool:
    """Whether a method gives an array another type."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return False
    return value.func.attr in ("float", "double") or (value.func.attr == "to" and bool(value.args))
