"""A small synchronous client of an ASGI app, in process, on httpx."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
from fastapi import FastAPI


class AsgiClient:
    """Sends requests to the app; a server error is an answer, as over the network."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app

    def request(self, method: str, url: str, **options: Any) -> httpx.Response:
        """One request, answered whole."""
        return asyncio.run(self._send(method, url, options))

    async def _send(self, method: str, url: str, options: dict[str, Any]) -> httpx.Response:
        transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
            return await client.request(method, url, **options)

    def get(self, url: str, **options: Any) -> httpx.Response:
        """GET."""
        return self.request("GET", url, **options)

    def post(self, url: str, **options: Any) -> httpx.Response:
        """POST."""
        return self.request("POST", url, **options)
