"""The command line, `tilelore COMMAND`. Exit codes: 0 done, 1 the answer is no, 2 bad input."""

from __future__ import annotations

import sys
from typing import Any

import typer
from typer.core import TyperGroup

from api.commands import ask, check, design, knowledge, remembered, show
from api.json_form import tool_version
from kb.errors import TileloreError


class Commands(TyperGroup):
    """Shows our own errors as one clear line on standard error, with their exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except TileloreError as error:
            sys.stderr.write(f"tilelore: {error.text}\n")
            raise SystemExit(error.exit_code) from None


app = typer.Typer(
    name="tilelore",
    cls=Commands,
    help="Read GPU kernels, remember what they decide, ask, transfer, write kernels, verify them.",
    epilog="Exit codes: 0 done, 1 the answer is no, 2 bad usage or input.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"tilelore {tool_version()}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and leave."
    ),
) -> None:
    """Read GPU kernels, remember what they decide, ask, transfer, write kernels, verify them."""


for group in (knowledge, show, ask, check, design, remembered):
    group.register(app)


def main() -> None:
    """Entry point of the `tilelore` script."""
    app()


if __name__ == "__main__":
    main()
