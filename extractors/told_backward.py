"""What a kernel computes again that a forward pass computed before, or for a backward pass ahead:
the host tells the passes, the program what is computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extractors.detect import Detection
from extractors.host.passes import AHEAD, APART, PASSES
from extractors.patterns.loss_with_gradient import BOTH, LossWithGradient
from extractors.patterns.recompute_from_statistics import RecomputeFromStatistics
from kb.analysis.derivatives import retaken
from kb.analysis.graph import VIEWS
from kb.evidence import Decision
from kb.ops import OpKind


def computed_again(detection: Detection, host: Sequence[Decision]) -> Iterator[Decision]:
    """Activations of what was loaded, in a kernel that only a backward pass leads to, unless the
    program tells itself what it makes again."""
    pattern = RecomputeFromStatistics()
    if not any(d.pattern == PASSES and d.value == APART for d in host):
        return
    if any(d.axis == pattern.axis for d in detection.decisions):
        return
    found = retaken(detection.facts)
    if found:
        yield pattern.decide(detection.facts, "recompute activation", found)


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
