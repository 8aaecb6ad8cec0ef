"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

Kb = Annotated[
    str | None,
    typer.Option(
        "--kb",
        metavar="DIR|URL",
        help="Knowledge base; else TILELORE_KB, else the platform's data folder.",
        show_default=False,
    ),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FILE|DIR", help="Write here, not to standard output."),
]


class Plain(StrEnum):
    """A view for people, or JSON."""

    TABLE = "table"
    JSON = "json"


Format = Annotated[Plain, typer.Option("--format", "-f", help="For people, or JSON.")]
