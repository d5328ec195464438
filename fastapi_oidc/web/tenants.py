"""The middleware and dependencies of tenants; its tenant's instance serves each request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from typing import Any, Final, Generic, Protocol

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.routing import NoMatchFound
from starlette.types import ASGIApp, Receive, Scope, Send

from fastapi_oidc.protocol.step_up import StepUp
from fastapi_oidc.session.model import Identity, OIDCSession
from fastapi_oidc.web.dependencies import Guard, RequireAuth
from fastapi_oidc.web.headers import NO_STORE
from fastapi_oidc.web.locals import OIDCLocals
from fastapi_oidc.web.middleware import OIDCMiddleware
from fastapi_oidc.web.misuse import awaited
from fastapi_oidc.web.request_context import RequestContext
from fastapi_oidc.web.request_contexts import FindPaths, Served, Table, context_of
from fastapi_oidc.web.routes import Application, Role
from fastapi_oidc.web.runtime import Instance, RequestData
from fastapi_oidc.web.startup import watched

TENANTS: Final = "oidc_tenants"
"""The name of the routes of all tenants, and of the instance in a request's scope."""

_ANY: Final = "any-tenant"


class Serving(Protocol):
    """The interface of `OIDCTenants` that the middleware uses."""

    def serving(
        self, connection: HTTPConnection
    ) -> AbstractAsyncContextManager[Instance[Any, Any] | None]:
        """The instance of the request's tenant. It stays open within the block."""
        ...

    async def aclose(self) -> None:
        """Close every instance."""
        ...


class TenantsMiddleware:
    """Serves each request with the middleware of its tenant."""

    def __init__(self, app: ASGIApp, tenants: Serving) -> None:
        self._app, self._tenants = app, tenants
        self._paths: Mapping[Role, str] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, websocket or lifespan (ASGI 3)."""
        if scope["type"] == "lifespan":
            async with AsyncExitStack() as closing:
                closing.push_async_callback(self._tenants.aclose)
                await self._app(scope, receive, watched(send, _nothing, closing.aclose))
        elif scope["type"] in ("http", "websocket"):
            async with self._tenants.serving(HTTPConnection(scope)) as instance:
                scope[TENANTS] = instance
                app = self._app if instance is None else self._of(instance)
                await app(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _of(self, instance: Instance[Any, Any]) -> ASGIApp:
        return _TenantMiddleware(self._app, instance, self._paths_of)

    def _paths_of(self, app: Application, tenant: str) -> Mapping[Role, str]:
        if self._paths is None:
            self._paths = paths_of_tenants(app)
        return {role: path.replace(_ANY, tenant) for role, path in self._paths.items()}


class _TenantMiddleware(OIDCMiddleware):
    """The middleware of one tenant for one request, with the routes of all tenants."""

    def __init__(self, app: ASGIApp, instance: Instance[Any, Any], find_paths: FindPaths) -> None:
        self._table = Table([Served(instance.runtime, (), find_paths)])
        self._app, self._has_lifespan, self._is_checked = app, True, True


def paths_of_tenants(app: Application) -> Mapping[Role, str]:
    """The paths of the tenants' routes in `app`, with `_ANY` for the path parameter `tenant`."""
    found: dict[Role, str] = {}
    parameters: tuple[dict[str, str], ...] = ({"tenant": _ANY}, {})
    for role in Role:
        for given in parameters:
            with suppress(NoMatchFound):
                found[role] = app.url_path_for(role.route_name(TENANTS), **given)
    return found


def _nothing() -> None:
    """Do nothing: the tenants are not known when the application starts."""


def tenant_of(connection: HTTPConnection) -> Any:
    """The request's instance; raises HTTPException (404) for a request without a tenant."""
    instance = connection.scope.get(TENANTS)
    if instance is None:
        raise HTTPException(404, headers=NO_STORE)
    return instance


class RequireTenant(RequireAuth[Identity]):
    """The session at the request's tenant; 404 for a request without a tenant."""

    @awaited
    async def __call__(self, connection: HTTPConnection) -> OIDCSession[Identity]:
        """The session; raises SessionError."""
        session: OIDCSession[Identity] = await tenant_of(connection).require_auth(connection)
        return session


class GuardOfTenant(Guard[Identity]):
    """The session, if the guard of its tenant accepts it."""

    def __init__(
        self, guard_of: Callable[[Any], Guard[Identity]], require: RequireTenant[Identity]
    ) -> None:
        super().__init__(require)
        self._guard_of = guard_of

    async def __call__(
        self,
        connection: HTTPConnection,
        session: OIDCSession[Identity] | None = None,
        **documented: object,
    ) -> OIDCSession[Identity]:
        """The session; raises SessionError."""
        return await self._guard_of(tenant_of(connection))(connection, session)

    def step_up_at(self, context: RequestContext[Any, Any]) -> StepUp | None:
        """See `Guard.step_up_at`."""
        return self._guard_of(tenant_of(context.connection)).step_up_at(context)

    async def _check(self, *_: object) -> None:
        """Do nothing: the tenant's own guard has checked the session."""


class LocalsOfTenant(Generic[Identity, RequestData]):
    """The `OIDCLocals` at the request's tenant; empty for a request without a tenant."""

    @awaited
    async def __call__(self, connection: HTTPConnection) -> OIDCLocals[Identity, RequestData]:
        """The locals; raises SessionError when a store is unavailable."""
        instance = connection.scope.get(TENANTS)
        if instance is None:
            return OIDCLocals()
        return await context_of(connection, instance.runtime.name).locals()
