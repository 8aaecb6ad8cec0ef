"""The host reader's target profiles say what the ontology says: one truth, two rooms."""

from __future__ import annotations

import pytest

from extractors.host.events import PROFILES
from kb.graph.terms import targets


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_a_profile_agrees_with_a_target_of_its_architecture(name: str) -> None:
    profile = PROFILES[name]
    limits = [
        (target.limit("sm_count"), target.limit("shared_bytes_per_block"))
        for target in targets().values()
        if target.arch == name
    ]
    assert name in ("sm_86", "sm_103") or limits
    assert not limits or (profile.sms, profile.shared_bytes) in limits
