"""What a kernel computes again that a forward pass computed before: the host tells the passes, the
program what is computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extractors.detect import Detection
from extractors.host.passes import APART, PASSES
from extractors.patterns.recompute_from_statistics import RecomputeFromStatistics
from kb.analysis.derivatives import retaken
from kb.evidence import Decision


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
