"""Which media type to answer with: Accept with q-values and specificity (RFC 9110, 12.5.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

Choice = TypeVar("Choice")


def accepted(header: str) -> list[tuple[str, float]]:
    """Media ranges with their weights; ranges that cannot be read are passed over."""
    ranges: list[tuple[str, float]] = []
    for part in header.split(",")[:100]:
        media, *parameters = (piece.strip().lower() for piece in part.split(";"))
        if media.count("/") != 1:
            continue
        weight = 1.0
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            if name.strip() == "q":
                weight = _weight(value.strip())
        ranges.append((media, weight))
    return ranges


def _weight(text: str) -> float:
    try:
        return min(1.0, max(0.0, float(text)))
    except ValueError:
        return 0.0


def choose(header: str | None, offers: Mapping[str, Choice]) -> Choice | None:
    """The offer the client likes best; the first of equals; None when it accepts none.

    `offers` maps media types to what they stand for, best first. No header accepts everything.
    """
    if not header or not header.strip():
        return next(iter(offers.values()))
    ranges = accepted(header)
    best: Choice | None = None
    best_weight = 0.0
    for media, offer in offers.items():
        weight = _quality(media, ranges)
        if weight > best_weight:
            best, best_weight = offer, weight
    return best


def _quality(media: str, ranges: Sequence[tuple[str, float]]) -> float:
    """The weight that the most specific matching range gives."""
    for wanted in (media, media.split("/", maxsplit=1)[0] + "/*", "*/*"):
        weights = [weight for name, weight in ranges if name == wanted]
        if weights:
            return max(weights)
    return 0.0
