"""A statistic that is computed wide is kept in the element type of the input."""

from __future__ import annotations

from collections.abc import Iterable

from extractors.host.conditions import parts
from extractors.host.events import LaunchRecord
from extractors.host.facts import Material
from extractors.host.render import leaves
from extractors.host.values import Expr, Value
from extractors.patterns.cases import POINTER, TILE, vary
from extractors.rules.base import Case, NearMiss, Rule, Seen, Subject
from kb.analysis.accesses import Access
from kb.analysis.facts import Facts
from kb.analysis.graph import CASTS
from kb.evidence import Finding, Severity
from kb.ops import READS, REDUCTIONS, OpKind

_WIDE = frozenset({"f32", "f64"})
_EXACT = frozenset({OpKind.REDUCE_MAX, OpKind.REDUCE_MIN})
"""What is one of the elements has no more digits than they have."""

MAX_MADE = 32
"""Steps from a tensor to the one whose type it takes."""

_MOMENTS = (
    POINTER
    + """
import torch
@triton.jit
def norm(x, out, mean, n, T: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, T)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    m = tl.sum(v, axis=0) / n
    tl.store(mean + row, m)
    tl.store(out + row * n + at, v - m, mask=at < n)

def run(x):
    rows, n = x.shape
    out = torch.empty_like(x)
    mean = torch.empty((rows,), dtype=x.dtype, device=x.device)
    norm[(rows,)](x, out, mean, n, triton.next_power_of_2(n))
    return out, mean
"""
)
_PARTS = (
    POINTER
    + """
import torch
@triton.jit
def last(parts, out, T: tl.constexpr):
    tl.store(out, tl.sum(tl.load(parts + tl.arange(0, T)), axis=0))

@triton.jit
def part(x, parts, T: tl.constexpr):
    i = tl.program_id(0).to(tl.int64)
    v = tl.load(x + i * T + tl.arange(0, T)).to(tl.float32)
    tl.store(parts + i, tl.sum(v, axis=0))

def run(x):
    parts = x.new_empty((256,))
    out = torch.empty((1,), dtype=x.dtype, device=x.device)
    part[(256,)](x, parts, 128)
    last[(1,)](parts, out, 256)
    return out
"""
)
_TILES = (
    TILE
    + """
import torch
@ct.kernel
def norm(x, out, mean, W: Int):
    i = ct.bid(0)
    v = ct.astype(ct.load(x, index=(i, 0), shape=(1, W)), ct.float32)
    m = ct.sum(v, axis=1, keepdims=True) / W
    ct.store(mean, index=(i, 0), tile=ct.astype(m, mean.dtype))
    ct.store(out, index=(i, 0), tile=ct.astype(v - m, out.dtype))

def run(x):
    out = torch.empty_like(x)
    mean = torch.empty((x.shape[0], 1), dtype=x.dtype, device=x.device)
    ct.launch(None, (x.shape[0], 1, 1), norm, (x, out, mean, 64))
    return out, mean
"""
)


class StatisticInInputType(Rule):
    """What a row was reduced to in 32-bit floats is stored to an array that the host makes in the
    element type of the input, and is read again: by the caller beside the output, or by another
    kernel."""

    name = "statistic-in-input-type"
    matches = (Case(_MOMENTS, "`mean`"), Case(_PARTS, "`parts`"), Case(_TILES, "`mean`"))
    near_misses = (
        NearMiss(
            vary(_MOMENTS, ("(rows,), dtype=x.dtype", "(rows,), dtype=torch.float32")),
            why="the statistic has a wide type",
        ),
        NearMiss(
            vary(_MOMENTS, ("    tl.store(out + row * n + at, v - m, mask=at < n)\n", "")),
            why="what is reduced is all that the kernel gives",
        ),
        NearMiss(
            vary(_MOMENTS, (".to(tl.float32)", ""), ("tl.sum(v, axis=0) / n", "tl.max(v, axis=0)")),
            why="nothing was computed in a wider type",
        ),
        NearMiss(
            vary(
                _MOMENTS,
                ("    mean = torch.empty((rows,), dtype=x.dtype",
                 "    wide = {torch.float16: torch.float32}.get(x.dtype, x.dtype)\n"
                 "    mean = torch.empty((rows,), dtype=wide"),
            ),
            why="the host looks for a wider type",
        ),
        NearMiss(
            vary(
                _MOMENTS,
                ("def norm(x, out", "def norm(x, grad, out"),
                ("tl.sum(v, axis=0) / n", "tl.sum(tl.load(grad + row * n + at), axis=0)"),
                ("def run(x):", "def run(x, grad):"),
                ("(x, out, mean, n, triton", "(x, grad, out, mean, n, triton"),
            ),
            why="the sum is of another tensor: a gradient in the type of the parameter",
        ),
        NearMiss(
            vary(_PARTS, ("last[(1,)](parts,", "last[(1,)](out,")), why="nobody reads the parts"
        ),
    )  # fmt: skip
    seen = (Seen("flag-gems", "flag_gems/ops/groupnorm.py", "group_norm_kernel", 69),)

    def find(self, subject: Subject) -> Iterable[Finding]:
        material, facts = subject.host.material, subject.facts
        if material is None or not facts.reductions:
            return
        stored = {a.array: a for a in facts.stores if a.array and not a.is_atomic}
        kept = {name: access for name, access in stored.items() if _reduced(facts, access)}
        whole = [access for name, access in stored.items() if name not in kept]
        arrays = {a.array for a in facts.loads if a.array and _widened(facts, a)}
        told: set[str] = set()
        for launch in material.launches if kept else ():
            if _by_type(launch):
                continue
            given = dict(launch.args)
            inputs = {_root(material, one) for name in arrays for one in leaves(given.get(name))}
            inputs.discard(None)
            for name, access in kept.items():
                typed = {one: _typed_as(material, one) for one in leaves(given.get(name))}
                narrow = [one for one, of in typed.items() if of in inputs]
                of_one = any(_rests_on(facts, one, access) for one in whole) and all(
                    _root(material, one) == typed[made]
                    for array in _summed(facts, access)
                    for one in leaves(given.get(array))
                    for made in narrow
                )
                again = of_one or any(_read_again(material, launch, one) for one in narrow)
                if name not in told and narrow and again:
                    told.add(name)
                    yield self.finding(
                        subject,
                        f"what a row is reduced to in 32-bit floats is rounded to the type of the "
                        f"input where it is stored to `{name}`, and whoever reads it again goes on "
                        "with fewer digits",
                        f"make `{name}` of 32-bit floats",
                        [access, *material.made(launch, name)],
                        Severity.NOTE,
                    )


def _by_type(launch: LaunchRecord) -> bool:
    """Whether the host asks for an element type on the way: it may choose another one by it."""
    return any(
        part.op == "attr" and part.args[1] == "dtype"
        for guard in launch.path.guards
        for part in parts(guard.cond)
    )


def _widened(facts: Facts, access: Access) -> bool:
    """Whether what is loaded is cast to wide floats, so that its own type may be narrower."""
    graph = facts.graph
    users = graph.users(access.value) if access.value else []
    return any(node.op.kind in CASTS and facts.types.dtype(node.result) in _WIDE for node in users)


def _reduced(facts: Facts, access: Access) -> bool:
    """Whether what is stored is made of reductions in wide floats, and of single numbers beside."""
    graph, types = facts.graph, facts.types
    value = graph.through(access.value, CASTS)
    if value is None or graph.kind_of(value) in _EXACT:
        return False
    stop = REDUCTIONS | READS
    ends = [
        node
        for node in (graph.producer(value), *graph.upstream(value, lambda n: n.op.kind in stop))
        if node is not None and node.op.kind in stop
    ]
    loads = [node for node in ends if node.op.kind in READS]
    sums = [node for node in ends if node.op.kind in REDUCTIONS - _EXACT]
    wide = any(types.dtype(node.result) in _WIDE for node in sums)
    return wide and all(_single(facts, node.result) for node in loads)


def _summed(facts: Facts, access: Access) -> set[str]:
    """The arrays whose elements a stored sum is made of."""
    above = {node.result for node in facts.graph.upstream(access.value) if node.op.kind in READS}
    read = [load for load in facts.loads if load.array and load.value in above]
    return {load.array for load in read if load.array and not _single(facts, load.value)}


def _rests_on(facts: Facts, output: Access, statistic: Access) -> bool:
    """Whether an output is computed with what a statistic is made of."""
    made = facts.graph.through(statistic.value, CASTS)
    node = facts.graph.producer(made)
    if node is None or node.op.regions:
        return False  # a branch gives other values beside it
    return facts.graph.rests_on(output.value, node)


def _single(facts: Facts, value: str) -> bool:
    return all(extent == "1" for extent in facts.types.shape(value))


def _root(material: Material, value: Value) -> Value:
    """The tensor that views were made from."""
    for _ in range(MAX_MADE):
        fact = material.machine.tensors.get(value)
        if fact is None or fact.base is None:
            break
        value = fact.base
    return value


def _typed_as(material: Material, value: Value) -> Value:
    """The tensor whose element type the host takes for a tensor that it makes; None for another."""
    fact = material.machine.tensors.get(_root(material, value))
    given = fact.dtype if fact is not None else None
    for _ in range(MAX_MADE):
        if not (isinstance(given, Expr) and given.op == "attr" and given.args[1] == "dtype"):
            return None
        tensor = _root(material, given.args[0])
        made = material.machine.tensors.get(tensor)
        if made is None or made.dtype is None:
            return tensor
        given = made.dtype
    return None


def _apart(one: LaunchRecord, other: LaunchRecord) -> bool:
    """Whether two launches stand on different sides of a branch."""
    held = {(guard.cond, guard.holds) for guard in one.path.guards}
    return any((guard.cond, not guard.holds) in held for guard in other.path.guards)


def _read_again(material: Material, launch: LaunchRecord, tensor: Value) -> bool:
    """Whether a later launch of another kernel is given the tensor."""
    return any(
        isinstance(event, LaunchRecord)
        and event.order > launch.order
        and not _apart(event, launch)
        and event.kernel.name != launch.kernel.name
        and any(tensor in leaves(value) for _, value in event.args)
        for event in material.of_root(launch)
    )
