"""One GPU as the planner sees it. The numbers come from the ontology (`kb.graph.terms.targets`)."""

from __future__ import annotations

from dataclasses import dataclass

from kb.errors import UnknownName
from kb.planner.evaluation import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A GPU: `limits` by the names of the ontology, in its units (bytes, counts, per second)."""

    name: str
    label: str
    arch: str
    limits: tuple[tuple[str, int], ...]
    features: tuple[str, ...] = ()

    def limit(self, name: str) -> int:
        """The limit called `name`; UnknownName when the target has none of that name."""
        for key, amount in self.limits:
            if key == name:
                return amount
        known = ", ".join(key for key, _ in self.limits)
        raise UnknownName(f"`{self.name}` has no limit `{name}`.", hint=f"It has {known}.")

    def record(self) -> dict[str, Value]:
        """What an expression sees as `target`; `capability` is (major, minor)."""
        digits = self.arch.removeprefix("sm_").rstrip("abcdefghijklmnopqrstuvwxyz")
        capability = (int(digits[:-1]), int(digits[-1])) if len(digits) >= 2 else ()
        return {
            **dict(self.limits),
            "name": self.label or self.name,
            "arch": self.arch,
            "features": self.features,
            "capability": capability,
        }
