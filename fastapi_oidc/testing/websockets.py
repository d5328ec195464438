"""Starlette's `TestClient`, whose websockets go where its requests go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urljoin

from starlette.testclient import TestClient, WebSocketTestSession


class PathClient(TestClient):
    """Connects `websocket_connect("/path")` to the host of `base_url`, with its cookies.

    Starlette's own client connects a path to `ws://testserver`.
    """

    def websocket_connect(
        self, url: str, subprotocols: Sequence[str] | None = None, **kwargs: Any
    ) -> WebSocketTestSession:
        """A websocket at `url`, which may be a path."""
        absolute = urljoin(str(self.base_url), url)
        if absolute.startswith("http"):
            absolute = absolute.replace("http", "ws", 1)
        return super().websocket_connect(absolute, subprotocols, **kwargs)
