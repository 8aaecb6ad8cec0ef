"""What a kernel computes again that a forward pass computed before, or for a backward pass ahead:
the host tells the passes, the program what is computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from extractors.detect import Detection
from extractors.host.facts import HostFacts
from extractors.host.framework import FINISHED, PREPARED
from extractors.host.passes import AHEAD, APART, HANDED_ON, LEFT, PASSES
from extractors.host.render import leaves
from extractors.host.saved import INPUTS, SAVED, results
from extractors.host.values import Expr, Value
from extractors.patterns.cross_cta_accumulation import CrossCtaAccumulation
from extractors.patterns.loss_with_gradient import BOTH, LossWithGradient
from extractors.patterns.recompute_from_statistics import RecomputeFromStatistics
from extractors.patterns.results_of_one_pass import ResultsOfOnePass
from kb.analysis.accesses import Access
from kb.analysis.composed_steps import gates, softmax_gradients
from kb.analysis.derivatives import differentiated, retaken
from kb.analysis.facts import Facts
from kb.analysis.graph import VIEWS, Lines, Node
from kb.analysis.loops import Role
from kb.analysis.rebuilt import coefficients, decays_by, normalised
from kb.analysis.symbolic import AtomKind
from kb.evidence import AxisKind, Decision
from kb.ops import OpKind

TOGETHER = "several gradients in one kernel"


def computed_again(detection: Detection, host: Sequence[Decision]) -> Iterator[Decision]:
    """Activations of what was loaded, or decays between saved elements, in a kernel that only a
    backward pass leads to, unless the program tells itself what it makes again."""
    pattern = RecomputeFromStatistics()
    if not any(d.pattern == PASSES and d.value == APART for d in host):
        return
    if any(d.axis == pattern.axis for d in detection.decisions):
        return
    found = retaken(detection.facts)
    if found:
        yield pattern.decide(detection.facts, "recompute activation", found)
    elif decays := [e for e in detection.facts.exponentials if decays_by(detection.facts, e)]:
        where = [node for e in decays for node in (e.difference, e.node)]
        yield pattern.decide(detection.facts, "recompute decay", where)


def from_saved(detection: Detection, host: HostFacts) -> Iterator[Decision]:
    """Products of arrays that a forward pass saved, and of nothing else, in a kernel that only a
    backward pass leads to; where it has none, functions of such arrays. Whatever belongs to a
    gradient knows what flows back. Nothing where the program tells itself what it makes again."""
    pattern = RecomputeFromStatistics()
    if not any(d.pattern == PASSES and d.value == APART for d in host.decisions):
        return
    facts = detection.facts
    if facts.of_threads or any(d.axis == pattern.axis for d in detection.decisions):
        return
    kept = _kept(host)
    made = [
        p
        for p in facts.contractions
        if all(_of(facts, p.op.operand(role), kept) for role in ("lhs", "rhs"))
    ]
    if made:
        yield pattern.decide(facts, "recompute products", made)
    elif not facts.contractions:
        taken = [n for n in facts.graph.of(*_FUNCTIONS) if _of(facts, n.op.inputs[0], kept)]
        taken = [n for n in taken if facts.types.shape(n.result)]
        if taken:
            yield pattern.decide(facts, "recompute activation", taken)


def _of(facts: Facts, value: str | None, kept: set[str]) -> bool:
    """Whether tiles of some arrays, and of no others, are what a value is computed from."""
    loads = [a for a in facts.feeding(value) if facts.types.shape(a.value)]
    return bool(loads) and all(a.array in kept for a in loads)


def results_read(detection: Detection, host: HostFacts) -> Iterator[Decision]:
    """Loads of tiles of what a forward pass computed and saved, in a kernel that only a backward
    pass leads to, unless the program tells itself what it makes again or gets."""
    pattern = RecomputeFromStatistics()
    if not any(d.pattern == PASSES and d.value == APART for d in host.decisions):
        return
    facts = detection.facts
    if facts.of_threads or any(d.axis == pattern.axis for d in detection.decisions):
        return
    kept = _kept(host, results(host.material) if host.material is not None else set())
    data = [a for a in facts.loads if facts.types.shape(a.value)]
    if read := [a for a in data if a.array in kept and a.value not in facts.offset_loads]:
        yield pattern.decide(facts, "results of the forward pass read back", read)


def _kept(host: HostFacts, places: set[int] | None = None) -> set[str]:
    """Parameters that get what a forward pass saved, or what it saved in some places, wherever a
    launch gets something of that."""
    found: list[set[str]] = []
    if (material := host.material) is None:
        return set()
    seen = material.machine.unshaped
    for launch in material.launches:
        rows = {name: [seen(leaf) for leaf in leaves(value)] for name, value in launch.args}
        names = {
            n
            for n, row in rows.items()
            if row and all(_is_saved(v) and (places is None or _place(v) in places) for v in row)
        }
        found += [names] if names else []
    return set.intersection(*found) if found else set()


def _is_saved(value: Value) -> bool:
    """`ctx.saved_tensors[i]`."""
    at = value.args[0] if isinstance(value, Expr) and value.op == "index" else None
    return isinstance(at, Expr) and at.op == "attr" and at.args[1] == "saved_tensors"


def _place(value: Value) -> object:
    return value.args[1] if isinstance(value, Expr) and len(value.args) > 1 else None


def gradients_together(detection: Detection, host: Sequence[Decision]) -> Iterator[Decision]:
    """Several arrays that a kernel which only a backward pass leads to stores, unless the program
    tells itself what it joins; and sums that its blocks own."""
    pattern = ResultsOfOnePass()
    if not any(d.pattern == PASSES and d.value == APART for d in host):
        return
    yield from _owned(detection, host)
    if any(d.axis == pattern.axis for d in detection.decisions):
        return
    stores: dict[str, Access] = {}
    for store in detection.facts.stores:
        if store.array is not None and detection.facts.feeding(store.value):
            apart = any(store.node.excludes(known.node) for known in stores.values())
            stores |= {} if apart or store.array in stores else {store.array: store}
    if len(stores) > 1:
        graph = detection.facts.graph
        made = [graph.producer(graph.core(store.value)) for store in stores.values()]
        yield pattern.decide(detection.facts, TOGETHER, [*made, *stores.values()])


def _owned(detection: Detection, host: Sequence[Decision]) -> Iterator[Decision]:
    """Gradients that loops sum and that are stored, plainly, at the block's own place, where nobody
    tells of anything else that becomes of sums: none goes to a later kernel, and none adds up what
    an earlier one left."""
    facts, pattern = detection.facts, CrossCtaAccumulation()
    told = any(d.axis == pattern.axis for d in (*detection.decisions, *host))
    taken = any(d.pattern == HANDED_ON and d.value != LEFT for d in host)
    told = told or (taken and not facts.contractions)
    if told or facts.of_threads or any(s.is_atomic for s in facts.stores):
        return
    sums = [
        s
        for loop in facts.loops
        for state in loop.of(Role.ACCUMULATOR, Role.SUM)
        for s in facts.stored_in(state.result)
        if not s.node.inside(loop.node)
    ]
    own = [s for s in sums if any(a.kind is AtomKind.BLOCK for e in s.index for a in e.atoms())]
    later = {d.subject for d in host if d.pattern == HANDED_ON and d.value == LEFT}
    if own and len(own) == len(sums) and not any(s.array in later for s in own):
        ids = [
            n
            for n in facts.graph.of(OpKind.BLOCK_ID)
            if any(facts.graph.rests_on(v, n) for s in own for v in s.address)
        ]
        yield pattern.decide(facts, "exclusive ownership", dict.fromkeys((*ids, *own)))


def loss_beside(detection: Detection, host: Sequence[Decision]) -> Iterator[Decision]:
    """The gradient that a forward pass saves, stored by a kernel that stores something else too;
    unless the program tells itself what both are."""
    pattern = LossWithGradient()
    gradients = {d.subject for d in host if d.pattern == AHEAD}
    if not gradients or any(d.pattern == pattern.name for d in detection.decisions):
        return
    facts = detection.facts
    stores = [
        s
        for s in facts.stores
        if facts.values.literal(facts.graph.through(s.value, VIEWS)) is None
        and facts.graph.kind_of(s.value) not in (OpKind.ZEROS, OpKind.FULL)
    ]
    ahead = [s for s in stores if s.array in gradients]
    beside = [s for s in stores if s.array is not None and s.array not in gradients]
    if ahead and beside:
        yield pattern.decide(facts, BOTH, [*beside, *ahead])


def with_gradients(host: Sequence[Decision], detection: Detection) -> list[Decision]:
    """What the host tells of a kernel of the backward pass alone, with where it stores several
    gradients."""
    stores = [s for s in detection.facts.stores if s.array is not None]
    several = len({s.array for s in stores}) > 1
    lines = {s.node.lines for s in stores if several and detection.facts.feeding(s.value)}
    return [
        replace(d, lines=tuple(sorted({*d.lines, *lines})))
        if (d.pattern, d.value, d.file) == (PASSES, APART, None)
        else d
        for d in host
    ]


def gradient_alone(detection: Detection, host: HostFacts) -> Iterator[Decision]:
    """A kernel that computes a gradient and nothing of the forward pass, where no class of
    torch.autograd says so: its head, its launches, and where it stores the gradient."""
    told = (*detection.decisions, *host.decisions)
    if not host.launches or any(d.axis == _CUT and d.pattern not in _BESIDE for d in told):
        return
    made = _gradients(detection)
    stores = {s.node for n in made for s in detection.facts.stored_in(n.result)}
    if stores:
        first = detection.facts.kernel.entry.span.line
        lines: set[Lines] = {(first, first), *(one.lines for one in host.launches)}
        lines |= {node.lines for node in (*made, *stores)}
        yield Decision(
            axis=_CUT, value=APART, pattern=PASSES, lines=tuple(sorted(lines)),
            kind=AxisKind.DESIGN,
        )  # fmt: skip


def with_saved(
    program: Sequence[Decision], host: Sequence[Decision], detection: Detection
) -> tuple[list[Decision], list[Decision]]:
    """What a program computes again or reads back, with the lines that save it; and, where it
    tells nothing of that and takes functions of what it loads, that the inputs alone are saved."""
    name, axis = RecomputeFromStatistics.name, RecomputeFromStatistics.axis
    kept = [d for d in host if d.pattern == SAVED]
    saving = {one for d in kept for one in d.lines}
    told = [
        replace(d, lines=tuple(sorted({*d.lines, *saving})))
        if d.pattern == name and d.file is None
        else d
        for d in program
    ]
    facts = detection.facts
    plain = not facts.contractions and not any(d.axis == axis for d in program)
    alone = plain and bool(facts.graph.of(*_FUNCTIONS))
    rest = [d for d in host if d.pattern != SAVED or (alone and d.value == INPUTS)]
    return told, rest


_FUNCTIONS = (OpKind.EXP, OpKind.EXP2, OpKind.SIGMOID, OpKind.TANH, OpKind.ERF, OpKind.LOG)
_CUT = "kernel_boundaries"
_BESIDE = (HANDED_ON, PREPARED, FINISHED)
"""What may be told beside the pass that a kernel is of."""


def _gradients(detection: Detection) -> list[Node]:
    """Gradients of shares, derivatives of activations times what flows back, and, where the whole
    kernel is the gradient of a normalisation, rows that are normalised again."""
    facts = detection.facts
    if facts.contractions:
        return []
    if detection.operation in ("layernorm_backward", "rmsnorm_backward"):
        return [*normalised(facts), *coefficients(facts)]
    pairs = [] if facts.reductions else differentiated(facts)
    derived = gates(facts, [activation for activation, _ in pairs])
    return softmax_gradients(facts) or [*(taken for _, taken in pairs if derived), *derived]
