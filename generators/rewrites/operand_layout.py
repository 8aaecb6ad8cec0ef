"""operand_layout: a transposed operand seen through the view of its load, or turned after it was
loaded."""

from __future__ import annotations

from dataclasses import dataclass

from generators.rewrites.base import NotApplicable, Rewrite, Site, change_functions, refuse_mixed
from generators.rewrites.edit import Step
from kb.analysis.accesses import Access, Mode
from kb.ir import Kernel
from kb.ops import OpKind

VIEWED = "transpose in the load view (order=)"
TURNED = "permute/transpose the loaded tile"


class OperandLayout(Rewrite):
    """A load whose view exchanges the last two axes, and a load as stored that is turned in
    registers.

    Source: NVIDIA, PTX ISA, ldmatrix .trans and wgmma descriptors: a transpose may cost nothing.
    """

    axis = "operand_layout"
    values = (VIEWED, TURNED)
    follows = frozenset({"load_reuse"})

    def apply(self, kernel: Kernel, value: str) -> Kernel:
        """Turn every operand of a matrix product in the other way."""
        seen: list[str] = []
        change = _to_turned if value == TURNED else _to_viewed
        changed = change_functions(kernel, lambda site: change(site, seen))
        if changed is None and not seen:
            raise NotApplicable(
                "no operand of a matrix product is transposed on its way from memory.",
                where=f"{kernel.entry.span} {kernel.name}",
                hint="The axis speaks of tiles that are loaded by tile index.",
            )
        if changed is not None and value in seen:
            refuse_mixed(kernel, value)
        return changed or kernel


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A load by tile index, with the reshape that takes unit axes away when there is one."""

    load: Step
    reshape: Step | None

    @property
    def last(self) -> Step:
        """What hands the tile on."""
        return self.reshape or self.load


def _operands(site: Site) -> list[Access]:
    """Tile loads that feed a matrix product without being computed with."""
    found: dict[int, Access] = {}
    for product in site.facts.contractions:
        for role in ("lhs", "rhs"):
            for access in site.facts.held_loads(product.op.operand(role)):
                if access.mode is Mode.TILE and site.owns(access.node):
                    found[id(access.node)] = access
    return list(found.values())


def _loaded(site: Site, access: Access) -> _Loaded:
    draft = site.draft
    load = draft.producer(access.node.result)
    if load is None:
        raise NotApplicable("a helper loads the tile.", where=str(access.node.op.span))
    users = draft.users(load.result)
    if len(users) == 1 and users[0].kind == OpKind.RESHAPE:
        return _Loaded(load, users[0])
    return _Loaded(load, None)


def _swap(site: Site, step: Step, role: str) -> None:
    """Exchange the last two items of a tuple operand."""
    value = step.operand(role)
    made = site.draft.producer(value)
    if made is None or made.kind != OpKind.TUPLE or len(made.operands) < 2:
        raise NotApplicable(f"the {role} is no tuple.", where=str(step.span), hint="Write it out.")
    if len(site.draft.users(made.result)) > 1:
        made = _copy(site, made, step, role)
    made.operands[-2:] = made.operands[:-3:-1]


def _copy(site: Site, made: Step, step: Step, role: str) -> Step:
    value = site.draft.fresh("")
    copy = Step(
        made.kind, list(made.operands), list(made.attributes), [value], [], made.span, made.block
    )
    site.draft.before(step).put(copy)
    step.set_operand(role, value.name)
    return copy


# -- to: turned after the load


def _to_turned(site: Site, seen: list[str]) -> bool:
    touched = False
    for access in _operands(site):
        if access.transposed:
            loaded = _loaded(site, access)
            _turn(site, access, loaded)
            touched = True
        elif _turn_of(site, _loaded(site, access)) is not None:
            seen.append(TURNED)
    return touched


def _turn(site: Site, access: Access, loaded: _Loaded) -> None:
    rank = len(access.order or ())
    if access.order != (*range(rank - 2), rank - 1, rank - 2):
        raise NotApplicable(
            "the view turns other axes than the last two.", where=str(loaded.load.span)
        )
    if loaded.reshape is None and rank != 2:
        raise NotApplicable("the tile keeps its unit axes.", where=str(loaded.load.span))
    for role in ("index", "shape"):
        _swap(site, loaded.load, role)
    loaded.load.drop_operand("order")
    if loaded.reshape is not None:
        _swap(site, loaded.reshape, "shape")
    readers = site.draft.users(loaded.last.result)
    cursor = site.draft.after(loaded.last)
    axes = [("item", cursor.constant(axis)) for axis in (1, 0)]
    pair = cursor.add(OpKind.TUPLE, axes)
    hint = loaded.last.result.rpartition(".")[0]
    turned = cursor.add(OpKind.PERMUTE, (("x", loaded.last.result), ("axes", pair)), hint=hint)
    site.draft.replace_uses(loaded.last.result, turned, readers)


# -- to: seen through the view


def _to_viewed(site: Site, seen: list[str]) -> bool:
    touched = False
    for access in _operands(site):
        if access.transposed:
            seen.append(VIEWED)
            continue
        loaded = _loaded(site, access)
        turn = _turn_of(site, loaded)
        if turn is None:
            continue
        if len(site.draft.users(loaded.last.result)) != 1:
            raise NotApplicable(
                "the tile is read as stored, too.", where=str(loaded.load.span),
                hint="One load serves both orientations; a second load would cost memory traffic.",
            )  # fmt: skip
        _view(site, loaded, turn)
        touched = True
    return touched


def _turn_of(site: Site, loaded: _Loaded) -> Step | None:
    """The exchange of the two axes of a loaded tile."""
    for step in site.draft.users(loaded.last.result):
        if step.kind == OpKind.TRANSPOSE and len(step.operands) == 1:
            return step
        if step.kind == OpKind.PERMUTE and _axes(site, step) == [1, 0]:
            return step
    return None


def _axes(site: Site, step: Step) -> list[object]:
    values = site.facts.values
    return [values.literal(item) for item in values.items(step.operand("axes"))]


def _view(site: Site, loaded: _Loaded, turn: Step) -> None:
    draft = site.draft
    for role in ("index", "shape"):
        _swap(site, loaded.load, role)
    if loaded.reshape is not None:
        _swap(site, loaded.reshape, "shape")
    shape = draft.producer(loaded.load.operand("shape"))
    if shape is None:
        raise NotApplicable("the shape is no tuple.", where=str(loaded.load.span))
    rank = len(shape.operands)
    cursor = draft.after(shape)
    places = [*range(rank - 2), rank - 1, rank - 2]
    order = cursor.add(OpKind.TUPLE, [("item", cursor.constant(place)) for place in places])
    loaded.load.drop_operand("order")  # one that leaves the axes as they are
    at = [role for role, _ in loaded.load.operands].index("shape") + 1
    loaded.load.operands.insert(at, ("order", order))
    draft.replace_uses(turn.result, loaded.last.result)
