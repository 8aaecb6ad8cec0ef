"""index_width: positions computed in 32 bits, or in 64 bits from the block id on."""

from __future__ import annotations

from generators.rewrites.base import NotApplicable, Rewrite, Site, change_functions
from generators.rewrites.edit import Step
from kb.analysis.graph import COPIES, Node
from kb.ir import Kernel
from kb.ops import ATOMICS, READS, WRITES, OpKind

NARROW = "int32"
WIDE = "int64 opt-in"
_LONG = "i64"
_PLACES = ("pointer", "mask", "offsets")
_ADDRESSED = READS | WRITES | ATOMICS


class IndexWidth(Rewrite):
    """Every block id that positions are computed from is widened to 64 bits, or none is.

    Both compute the same positions in arrays of fewer than 2**31 elements; in longer ones 32 bits
    overflow, so that a host must ask for the wide form there.
    Source: NVIDIA, CUDA C++ Best Practices Guide: 64-bit integer arithmetic is emulated.
    """

    axis = "index_width"
    values = (NARROW, WIDE)

    def apply(self, kernel: Kernel, value: str) -> Kernel:
        """Widen the block ids, or take the widening away."""
        seen: list[str] = []
        change = _widen if value == WIDE else _narrow
        changed = change_functions(kernel, lambda site: change(site, seen))
        if changed is None and value not in seen:
            raise NotApplicable(
                "no position of an element is computed from a block id.",
                where=f"{kernel.entry.span} {kernel.name}",
                hint="The axis speaks of pointers and element indices.",
            )
        return changed or kernel


def _positions(site: Site) -> list[Node]:
    """Block ids of this function that positions rest on, in program order."""
    graph = site.facts.graph
    accesses = [n for n in graph.nodes if n.op.kind in _ADDRESSED]
    placed = [
        value for n in accesses for role, value in n.op.operands if role in _PLACES
    ] + [
        value
        for n in accesses
        if n.op.kind in (OpKind.GATHER, OpKind.SCATTER) or n.op.kind in ATOMICS
        for value in site.facts.values.items(n.op.operand("index"))
    ]  # fmt: skip
    ids = [n for n in graph.of(OpKind.BLOCK_ID) if site.owns(n)]
    return [n for n in ids if any(graph.rests_on(value, n) for value in placed)]


def _counts_tiles(site: Site, node: Node) -> bool:
    """True when a block id also is, or makes, the index of a tile."""
    graph = site.facts.graph
    tiles = graph.of(OpKind.LOAD_TILE, OpKind.STORE_TILE)
    indices = [v for n in tiles for v in site.facts.values.items(n.op.operand("index"))]
    return any(graph.rests_on(value, node) for value in indices)


def _step(site: Site, node: Node) -> Step:
    step = site.draft.producer(node.result)
    if step is None:
        raise NotApplicable("a helper asks for the block id.", where=str(node.op.span))
    return step


def _widening(site: Site, step: Step) -> Step | None:
    """The cast to 64 bits that is the only use of a block id."""
    users = site.draft.users(step.result)
    if len(users) == 1 and users[0].kind == OpKind.CAST:
        named = site.draft.producer(users[0].operand("dtype"))
        if named is not None and named.attribute("name") == _LONG:
            return users[0]
    return None


def _widen(site: Site, seen: list[str]) -> bool:
    touched = False
    for node in _positions(site):
        step = _step(site, node)
        if _widening(site, step) is not None:
            seen.append(WIDE)
            continue
        if _counts_tiles(site, node):
            raise NotApplicable(
                "the block id counts tiles, too.", where=str(node.op.span),
                hint="Ask for it a second time for the positions.",
            )  # fmt: skip
        readers = site.draft.users(step.result)
        cursor = site.draft.after(step)
        dtype = cursor.add(OpKind.DTYPE, (), (("name", _LONG),))
        hint = step.result.rpartition(".")[0]
        wide = cursor.add(OpKind.CAST, (("x", step.result), ("dtype", dtype)), hint=hint)
        site.draft.replace_uses(step.result, wide, readers)
        touched = True
    if touched and seen:
        _refuse("some block ids are widened and others are not.", site)
    return touched


def _narrow(site: Site, seen: list[str]) -> bool:
    ids = _positions(site)
    casts = [_widening(site, _step(site, node)) for node in ids]
    wide = [cast for cast in casts if cast is not None]
    _refuse_others(site, wide)
    if not wide:
        seen += [NARROW] * len(ids)
        return False
    if len(wide) < len(ids):
        _refuse("some block ids are widened and others are not.", site)
    for node, cast in zip(ids, wide, strict=True):
        site.draft.take_over(cast.result, node.result)
    return True


def _refuse_others(site: Site, wide: list[Step]) -> None:
    """Every value that is widened on its way to an address has to be a block id."""
    known = {cast.result for cast in wide}
    for node in site.facts.graph.of(OpKind.CAST):
        long = site.facts.types.named(node.op.operand("dtype")) == _LONG
        core = site.facts.graph.producer(site.facts.graph.through(node.op.inputs[0], COPIES))
        literal = core is not None and core.op.kind == OpKind.CONST
        if long and site.owns(node) and node.result not in known and not literal:
            raise NotApplicable(
                "something else than a block id is widened to 64 bits.", where=str(node.op.span),
                hint="It would stay wide; widen the block id in its place.",
            )  # fmt: skip


def _refuse(message: str, site: Site) -> None:
    raise NotApplicable(
        message, where=f"{site.function.span} {site.function.name}",
        hint="As one axis they could not be told apart again; make them alike by hand first.",
    )  # fmt: skip
