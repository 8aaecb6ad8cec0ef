"""What the disk refuses, told as a StoreError."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kb.errors import StoreError


@contextmanager
def told(what: str, where: object, hint: str) -> Iterator[None]:
    """Raise what the operating system or the index refuses inside as StoreError: what failed,
    where, and what to do next."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"{what}: {error.strerror or error}.", where=str(where), hint=hint
        ) from None
