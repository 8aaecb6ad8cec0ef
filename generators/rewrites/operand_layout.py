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
    """A load whose view exchanges the two axes of the tile, and a load as stored that is turned in
    registers. Axes of extent 1 that a reshape takes away may lie anywhere.

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
    reshaped = len(users) == 1 and users[0].kind == OpKind.RESHAPE
    return _Loaded(load, users[0] if reshaped else None)


def _axes_of(site: Site, loaded: _Loaded) -> tuple[int, int]:
    """Places of the two axes of the tile among the axes of the array; the others have extent 1."""
    values = site.facts.values
    shape = values.items(loaded.load.operand("shape"))
    wide = [place for place, item in enumerate(shape) if values.literal(item) != 1]
    kept = shape
    if loaded.reshape is not None:
        kept = values.items(loaded.reshape.operand("shape"))
    same = [values.expr(item) for item in kept] == [values.expr(shape[i]) for i in wide]
    if len(wide) != 2 or not same:
        raise NotApplicable(
            "the tile is not two axes of the array, in their order.", where=str(loaded.load.span),
            hint="Take its axes of extent 1 away with a reshape right after the load.",
        )  # fmt: skip
    return wide[0], wide[1]


def _exchanged(rank: int, axes: tuple[int, int]) -> tuple[int, ...]:
    """The order of a view that exchanges two axes."""
    order = list(range(rank))
    one, other = axes
    order[one], order[other] = other, one
    return tuple(order)


def _swap(site: Site, step: Step, role: str, axes: tuple[int, int] = (0, 1)) -> None:
    """Exchange two items of a tuple operand."""
    value = step.operand(role)
    made = site.draft.producer(value)
    if made is None or made.kind != OpKind.TUPLE or len(made.operands) < 2:
        raise NotApplicable(f"the {role} is no tuple.", where=str(step.span), hint="Write it out.")
    if len(site.draft.users(made.result)) > 1:
        made = _copy(site, made, step, role)
    one, other = axes
    made.operands[one], made.operands[other] = made.operands[other], made.operands[one]


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
    axes = _axes_of(site, loaded)
    if access.order != _exchanged(len(access.order or ()), axes):
        raise NotApplicable(
            "the view turns other axes than the two of the tile.", where=str(loaded.load.span)
        )
    for role in ("index", "shape"):
        _swap(site, loaded.load, role, axes)
    loaded.load.drop_operand("order")
    if loaded.reshape is not None:
        _swap(site, loaded.reshape, "shape")
    readers = site.draft.users(loaded.last.result)
    cursor = site.draft.after(loaded.last)
    items = [("item", cursor.constant(axis)) for axis in (1, 0)]
    pair = cursor.add(OpKind.TUPLE, items)
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
    draft, axes = site.draft, _axes_of(site, loaded)
    for role in ("index", "shape"):
        _swap(site, loaded.load, role, axes)
    if loaded.reshape is not None:
        _swap(site, loaded.reshape, "shape")
    shape = draft.producer(loaded.load.operand("shape"))
    if shape is None:
        raise NotApplicable("the shape is no tuple.", where=str(loaded.load.span))
    cursor = draft.after(shape)
    exchanged = _exchanged(len(shape.operands), axes)
    order = cursor.add(OpKind.TUPLE, [("item", cursor.constant(place)) for place in exchanged])
    loaded.load.drop_operand("order")  # one that leaves the axes as they are
    at = [role for role, _ in loaded.load.operands].index("shape") + 1
    loaded.load.operands.insert(at, ("order", order))
    draft.replace_uses(turn.result, loaded.last.result)
