"""Several providers, and one application that is registered at each of them."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from fastapi import FastAPI

from fastapi_oidc import OIDC, Clock, OIDCSettings
from fastapi_oidc.testing import DevProvider, DevUser
from tests.oidc.world import BASE_URL, Time, client_at, settings_of


@dataclass
class SeveralProviders:
    """The application, and the providers by name."""

    time: Time = field(default_factory=Time)
    app: FastAPI = field(default_factory=FastAPI)
    ops: dict[str, DevProvider] = field(default_factory=dict)

    @asynccontextmanager
    async def browser(self) -> AsyncIterator[httpx.AsyncClient]:
        """A browser that reaches the application and every provider."""
        mounts = {op.issuer: httpx.ASGITransport(op.app) for op in self.ops.values()}
        transport = httpx.ASGITransport(self.app)
        async with httpx.AsyncClient(
            transport=transport, base_url=BASE_URL, mounts=mounts, follow_redirects=True
        ) as browser:
            yield browser

    def new_provider(
        self, name: str, user: str, routes: str, *, logged_out: str = "", **settings: Any
    ) -> OIDCSettings:
        """Settings for a new provider that knows `user`; `routes` is the URL of their routes."""
        ends = [logged_out or f"{routes}/logged-out"]
        client = client_at(routes=routes, post_logout_redirect_uris=ends)
        self.ops[name] = op = DevProvider(
            users=[DevUser(user)],
            clients=[client],
            issuer=f"https://{name}.test",
            clock=Clock(read=self.time),
            acr_values=["1"],
        )
        op.back_channel_transport = httpx.ASGITransport(self.app)
        return settings_of(client, op, **({"name": name} | settings))

    def oidc(self, registered: Any, **options: Any) -> OIDC[Any, Any]:
        """An instance that reaches every provider."""
        clock = Clock(read=self.time)
        return OIDC(registered, transport=Hosts(self.ops), clock=clock, **options)


class Hosts(httpx.AsyncBaseTransport):
    """The network of several providers, each at the host of its issuer."""

    def __init__(self, ops: Mapping[str, DevProvider]) -> None:
        self._ops = ops

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The response of the provider at the request's host."""
        op = self._ops[request.url.host.removesuffix(".test")]
        return await httpx.ASGITransport(op.app).handle_async_request(request)
