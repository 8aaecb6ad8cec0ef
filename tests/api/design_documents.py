"""Documents that generation is tested on: a template, and a small cuTile attention kernel."""

from __future__ import annotations

from functools import cache

from extractors.modules import ModuleText
from extractors.read import read
from kb.dsl.model import Document, DocumentKind
from kb.evidence import AxisKind
from kb.graph.terms import vocabulary
from kb.ir_text import to_text
from kb.space import (
    Axis,
    Binding,
    Constraint,
    DesignSpace,
    GuardedPoints,
    Launch,
    Origin,
    Point,
    Tuning,
)
from kb.transfer import transfer
from tests.kb.fmha_decisions import fmha_donor

SOURCE = """
import cuda.tile as ct

@ct.kernel
def attend(A, B, C, O, factor: float, shift: int, D: ct.Constant[int], HEADS: ct.Constant[int],
           TM: ct.Constant[int], TN: ct.Constant[int], GROUP: ct.Constant[int],
           LOWER: ct.Constant[bool], FULL: ct.Constant[bool]):
    tile = ct.bid(0)
    plane = ct.bid(1)
    batch = plane // HEADS
    head = plane % HEADS
    source = head // GROUP
    factor = factor * 1.4426950408889634
    rows = tile * TM + ct.arange(TM, dtype=ct.int32)
    rows = (rows + shift)[:, None]
    lanes = ct.arange(TN, dtype=ct.int32)[None, :]
    top = ct.full((TM, 1), -float("inf"), dtype=ct.float32)
    total = ct.full((TM, 1), 0.0, dtype=ct.float32)
    acc = ct.full((TM, D), 0.0, dtype=ct.float32)
    a = ct.load(A, index=(batch, head, tile, 0), shape=(1, 1, TM, D),
                padding_mode=ct.PaddingMode.ZERO)
    a = a.reshape((TM, D))
    length = B.shape[2]
    for j in range(0, ct.cdiv(length, TN)):
        b = ct.load(B, index=(batch, source, 0, j), shape=(1, 1, D, TN), order=(0, 1, 3, 2),
                    padding_mode=ct.PaddingMode.ZERO)
        s = ct.mma(a, b.reshape((D, TN)), ct.full((TM, TN), 0.0, dtype=ct.float32))
        columns = j * TN + lanes
        mask = ct.full((TM, TN), True, dtype=ct.bool_)
        if not FULL:
            mask = mask & (columns < length)
        if LOWER:
            mask = mask & (rows >= columns)
        s = s + ct.where(mask, 0.0, -float("inf"))
        peak = max(top, ct.max(s, axis=-1, keepdims=True) * factor)
        p = ct.exp2(s * factor - peak)
        alpha = ct.exp2(top - peak)
        total = total * alpha + ct.sum(p, axis=-1, keepdims=True)
        c = ct.load(C, index=(batch, source, j, 0), shape=(1, 1, TN, D),
                    padding_mode=ct.PaddingMode.ZERO)
        acc = ct.mma(p.astype(A.dtype), c.reshape((TN, D)), acc * alpha)
        top = peak
    acc = (acc / total).reshape((1, 1, TM, D)).astype(O.dtype)
    ct.store(O, index=(batch, head, tile, 0), tile=acc)
"""

SMALL: Point = (("TM", 16), ("TN", 16), ("occupancy", 2))
LARGE: Point = (("TM", 256), ("TN", 128), ("occupancy", 1))
MEDIUM: Point = (("TM", 64), ("TN", 32), ("occupancy", 1))
BINDINGS = (
    ("A", "q"), ("B", "k"), ("C", "v"), ("O", "o"),
    ("factor", "1.0 / A.shape[3] ** 0.5 if scaling == None else scaling"),
    ("shift", "B.shape[2] - A.shape[2]"), ("D", "A.shape[3]"), ("HEADS", "A.shape[1]"),
    ("TM", "TM"), ("TN", "TN"), ("GROUP", "A.shape[1] // B.shape[1]"), ("LOWER", "is_causal"),
    ("FULL", "B.shape[2] % (16 if capability[0] < 9 else 128) == 0"),
)  # fmt: skip


@cache
def attention() -> Document:
    """The kernel above with a launch, a tuning space and constraints."""
    (kernel,) = read(ModuleText("attend", "attend.py", SOURCE)).kernels
    launch = Launch(
        grid=("cdiv(A.shape[2], TM)", "A.shape[0] * A.shape[1]", "1"),
        bindings=tuple(Binding(parameter=p, expression=e) for p, e in BINDINGS),
        hints=(),
        lines=(1, 2),
    )
    tuning = Tuning(
        mechanism="exhaustive_search",
        spaces=(
            GuardedPoints(when="capability[0] < 9", points=(SMALL,)),
            GuardedPoints(when="otherwise", points=(LARGE, MEDIUM)),
        ),
    )
    stated = ("A.shape[1] % B.shape[1] == 0", "D >= 16", "HEADS % GROUP == 0", "shift >= 0")
    space = DesignSpace(
        name="attend",
        operation="fmha",
        axes=(Axis(name="TM", kind=AxisKind.TUNING, values=(16, 64, 256)),),
        constraints=(
            *(Constraint(expression=text, origin=Origin.STATED) for text in stated),
            Constraint(expression="is_power_of_two(TN)", origin=Origin.IMPLIED),
        ),
        dialect="cutile",
        source_digest="0" * 64,
    )
    return Document(
        space=space,
        kind=DocumentKind.KERNEL,
        tuning=tuning,
        launches=(launch,),
        program=to_text(kernel),
        parameters=kernel.entry.parameter_names,
        path="attend.py",
    )


@cache
def layer_norm() -> Document:
    """The template for layer norm out of attention."""
    return transfer(fmha_donor(), "layernorm", vocabulary()).document()
