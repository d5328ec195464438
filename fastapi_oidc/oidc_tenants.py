"""Tenants: one OIDC instance for each, chosen by the request and created when first needed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache, cached_property
from typing import Any, Generic, TypeAlias

import httpx
from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import ASGIApp
from typing_extensions import TypeVar

from fastapi_oidc.concurrency import called
from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.oidc import OIDC
from fastapi_oidc.pool import Pool
from fastapi_oidc.provider import HTTPOptions
from fastapi_oidc.session.identity import StandardIdentity
from fastapi_oidc.session.memory_store import MemoryStore
from fastapi_oidc.settings import OIDCSettings
from fastapi_oidc.web.dependencies import Guard
from fastapi_oidc.web.headers import NO_STORE
from fastapi_oidc.web.router import only, routes_of
from fastapi_oidc.web.routes import Role
from fastapi_oidc.web.tenants import (
    TENANTS,
    GuardOfTenant,
    LocalsOfTenant,
    RequireTenant,
    TenantsMiddleware,
    tenant_of,
)

Identity = TypeVar("Identity", default=StandardIdentity)
RequestData = TypeVar("RequestData", default=None)

Found: TypeAlias = OIDCSettings | OIDC[Identity, RequestData] | None
Resolve: TypeAlias = Callable[
    [HTTPConnection], Found[Identity, RequestData] | Awaitable[Found[Identity, RequestData]]
]


class OIDCTenants(Generic[Identity, RequestData]):
    """An OIDC instance for each tenant. The settings are looked up for each request.

        tenants = OIDCTenants(resolve)
        app.add_middleware(tenants.middleware)
        app.include_router(tenants.router, prefix="/auth")

    `resolve` returns the settings of the request's tenant, or None. Their `name` is the tenant's
    name. It is part of the cookie names, so a session is valid for one tenant only. `create` makes
    an instance from settings. At most `maximum` unused instances stay open; beyond that, the least
    recently used one is closed. `resolve` may also return an instance, which the application closes
    itself.
    """

    def __init__(
        self,
        resolve: Resolve[Identity, RequestData],
        *,
        create: Callable[[OIDCSettings], OIDC[Identity, RequestData]] | None = None,
        maximum: int = 100,
    ) -> None:
        if maximum < 1:
            raise ConfigurationError(Code.CONFIGURATION_INVALID, "maximum is 1 or more")
        self._resolve = resolve
        self._pool: Pool[OIDCSettings, OIDC[Identity, RequestData]] = Pool(
            create or _creating(), lambda oidc: oidc.aclose(), maximum=maximum
        )
        self.router = self._router()
        """All routes, for all tenants. The prefix may contain the path parameter `tenant`."""

    def middleware(self, app: ASGIApp) -> TenantsMiddleware:
        """Use `app.add_middleware(tenants.middleware)` in place of OIDCMiddleware."""
        return TenantsMiddleware(app, self)

    @cached_property
    def require_auth(self) -> RequireTenant[Identity]:
        """`Depends(tenants.require_auth)`: the session at the request's tenant."""
        return RequireTenant()

    @cached_property
    def require_csrf(self) -> Guard[Identity]:
        """Like `require_auth`; the request must also have the session's CSRF token."""
        return self.guard(lambda oidc: oidc.require_csrf)

    @cached_property
    def locals(self) -> LocalsOfTenant[Identity, RequestData]:
        """`Depends(tenants.locals)`: the `OIDCLocals` of the request; a session is optional."""
        return LocalsOfTenant()

    def guard(
        self, guard_of: Callable[[OIDC[Identity, RequestData]], Guard[Identity]]
    ) -> Guard[Identity]:
        """A guard of the request's tenant.

        `tenants.guard(lambda oidc: oidc.require_recent(300))`
        """
        return GuardOfTenant(guard_of, self.require_auth)

    def current(self, connection: HTTPConnection) -> OIDC[Identity, RequestData] | None:
        """The instance of the request's tenant, None for a request without a tenant."""
        found: OIDC[Identity, RequestData] | None = connection.scope.get(TENANTS)
        return found

    @asynccontextmanager
    async def serving(
        self, connection: HTTPConnection
    ) -> AsyncIterator[OIDC[Identity, RequestData] | None]:
        """The instance of the request's tenant. It stays open within the block."""
        found = await called(self._resolve, connection)
        if isinstance(found, OIDCSettings):
            async with self._pool.lent(found.name, found) as oidc:
                yield oidc
        else:
            yield found

    async def aclose(self) -> None:
        """Close the instances made from settings. The middleware calls this at shutdown."""
        await self._pool.aclose()

    def _router(self) -> APIRouter:
        router = APIRouter(include_in_schema=False)
        for role in Role:
            if role is not Role.CHOOSER:
                name, methods = role.route_name(TENANTS), ["GET", "POST"]
                router.add_route(f"/{role}", _serving(role), methods=methods, name=name)
        return router


def _creating() -> Callable[[OIDCSettings], OIDC[Any, Any]]:
    """Makes instances that share one SSL context: loading the authorities is the slowest step.

    They also share what is known of their sessions, which outlives them.
    """
    authorities, store = cache(httpx.create_ssl_context), MemoryStore()

    def create(settings: OIDCSettings) -> OIDC[Any, Any]:
        options = settings.http_options()
        is_usual = options == HTTPOptions()
        return OIDC(
            settings,
            http=HTTPOptions(ssl_context=authorities()) if is_usual else options,
            back_channel_logout_store=store,
        )

    return create


def _serving(role: Role) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint of the tenant's route; 404 if the tenant does not have this route."""

    async def serve(request: Request) -> Response:
        oidc: OIDC[Any, Any] = tenant_of(request)
        rows = routes_of(oidc, oidc.settings)
        for row in rows:
            if row.role is role:
                return await only(row.endpoint, row.methods, oidc.settings.name)(request)
        raise HTTPException(404, headers=NO_STORE)

    return serve
