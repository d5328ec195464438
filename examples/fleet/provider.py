"""The fleet's OpenID Provider, in the fleet's own process; it can be stopped and started."""

from __future__ import annotations

import ssl
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx

from examples.fleet.part import Actions, StartError
from fastapi_oidc.testing import DevProvider


class Provider:
    """A DevProvider on a port; its tokens stay valid while it is stopped."""

    name = "provider"

    def __init__(self, op: DevProvider, port: int) -> None:
        self.op, self._port = op, port
        self._served = ExitStack()
        self._is_there = False

    @property
    def state(self) -> str:
        """Its address, or that it is away."""
        return f"at {self.op.issuer}" if self._is_there else "away"

    @property
    def actions(self) -> Actions:
        """The actions of a part that is no process of its own."""
        return {"start": self.start, "stop": self.stop, "restart": self.restart}

    def start(self) -> None:
        """Starts it, at its previous address. Raises StartError."""
        if self._is_there:
            return
        try:
            issuer = self._served.enter_context(self.op.serve(port=self._port))
        except OSError as error:
            raise StartError(f"the provider's port {self._port}: {error.strerror}") from error
        self._port, self._is_there = urlsplit(issuer).port or 0, True

    def stop(self) -> None:
        """Stops it: nothing listens at its address."""
        self._served.close()
        self._is_there = False

    def restart(self) -> None:
        """Stops it and starts it."""
        self.stop()
        self.start()


class Trusting(httpx.AsyncBaseTransport):
    """How logout tokens reach an application whose certificate only `context` trusts."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The response, on a connection of its own: the provider closes its connections."""
        async with httpx.AsyncHTTPTransport(verify=self._context) as transport:
            response = await transport.handle_async_request(request)
            await response.aread()
            return response
