"""Tensors whose memory the host hands to a kernel without a look at them."""

from __future__ import annotations

from collections.abc import Sequence

from extractors.cuda import nodes as n
from extractors.cuda.block_origin import BlockOrigins
from extractors.cuda.block_size import place
from extractors.cuda.empty_grid import handed
from extractors.cuda.launch_site import LaunchSite, owner
from extractors.cuda.render import shown
from extractors.host.file_facts import Trusted

LEAST = 2
"""Tensors from which on their sizes must fit each other."""

_LAYOUT = (".shape", ".stride", ".numel", ".ndim", "is_contiguous", "sizes", ".size(")


def trusted(sites: Sequence[LaunchSite], origins: BlockOrigins) -> Trusted | None:
    """The tensors of every launch of a kernel, where no check on the way to one speaks of the sizes
    or the layout of any of them, and no function that is not known sees them."""
    names: dict[str, None] = {}
    lines = []
    for site in sites:
        holder = origins.holder(site)
        if holder is None or origins.callers(holder.name) or site.levels:
            return None
        given = {p.name: p.type.name.rpartition("::")[2] for p in holder.parameters}
        tensors = [t for one in site.arguments for t in owner(one, site.names)]
        own = [t for t in tensors if given.get(t) in ("Tensor", "TensorView")]
        if len(set(own)) < LEAST or _looked_at(site, own):
            return None
        if any(any(handed(holder, tensor)) for tensor in own):
            return None
        names.update(dict.fromkeys(own))
        lines += [(holder.at.line, holder.at.line), place(site.at)]
    return Trusted(tuple(names), tuple(sorted(set(lines)))) if names else None


def _looked_at(site: LaunchSite, tensors: Sequence[str]) -> bool:
    """Whether a check on the way to a launch speaks of the sizes or the layout of a tensor."""
    for check in site.checks:
        spoken = {x.text for x in site.behind(check.condition) if isinstance(x, n.Name)}
        plain = shown(check.condition)
        types = ".dtype" in plain and not any(word in plain for word in _LAYOUT)
        if spoken.intersection(tensors) and not types:
            return True
    return False
