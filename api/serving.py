"""The HTTP server over one knowledge base."""

from __future__ import annotations

import uvicorn

from api import console
from api.http import create_app
from api.services import services
from kb.errors import InputError
from kb.store import default_location, open_store


def run_server(location: str | None, *, host: str, port: int, writable: bool) -> None:
    """Serve until interrupted. InputError when a folder is to take free updates."""
    where = location or default_location()
    remote = where.startswith(("http://", "https://"))
    if writable and not remote:
        raise InputError(
            "a knowledge base in a folder takes no free updates.",
            where="--writable",
            hint="Add kernels with `tilelore extract --kb`, or serve a SPARQL server's URL.",
        )
    with open_store(where, read_only=True) as store:
        app = create_app(store, services=services(store), writable=writable)
        console.note(f"serving {where} at http://{host}:{port}")
        uvicorn.run(app, host=host, port=port, log_level="warning")
