"""What the host code of a file says of its kernels."""

from __future__ import annotations

from collections.abc import Mapping

from extractors.cuda.read import ReadCuda
from extractors.host.facts import HostFacts


def host_facts(found: ReadCuda) -> Mapping[str, HostFacts]:
    """Launches and tuning values of every kernel."""
    return {kernel.name: HostFacts() for kernel in found.kernels}
