"""Generation and verification, loaded when they are asked for: they bring the compilers along."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kb.dsl.model import Document
from kb.errors import TileloreError

DEFAULT_ARCH = "sm_90"
"""The GPU that is written for when none is named."""


class Report(Protocol):
    """What verification found."""

    @property
    def passed(self) -> bool:
        """Whether every check that ran holds."""
        ...

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values, with `schema`."""
        ...


def generate(document: Document, dialect: str, settings: Mapping[str, str], arch: str) -> str:
    """The source text of a kernel for a design space; see `api.generate.generate`."""
    return str(loaded("api.generate", "generate")(document, dialect, settings, arch))


def verify(subject: Any, **options: Any) -> Report:
    """Numerics against the reference and facts of the compilers; see `api.verify.verify`."""
    report: Report = loaded("api.verify", "verify")(subject, **options)
    return report


def available(module: str) -> bool:
    """Whether this build has the module."""
    return importlib.util.find_spec(module) is not None


def loaded(module: str, name: str) -> Callable[..., Any]:
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise TileloreError(
            f"this build has no {module}.", hint="Install a build that has it."
        ) from None
    return found
