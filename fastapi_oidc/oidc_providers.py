"""Several providers behind one login page. A session at any of them satisfies the guards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Final, Generic

from fastapi import APIRouter
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from typing_extensions import TypeVar

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.flows.callback import SignedIn
from fastapi_oidc.oidc import OIDC
from fastapi_oidc.session.identity import StandardIdentity
from fastapi_oidc.web.any_of import GuardOfAny, LocalsOfAny, RequireAny, context_with_session
from fastapi_oidc.web.dependencies import Guard
from fastapi_oidc.web.endpoints import LoginQuery, OnSuccess, SessionQuery
from fastapi_oidc.web.refusal_page import chooser_page, shown
from fastapi_oidc.web.request_contexts import context_of
from fastapi_oidc.web.requests import parsed_query
from fastapi_oidc.web.router import Row, add_route, routes_of
from fastapi_oidc.web.routes import Role

Identity = TypeVar("Identity", default=StandardIdentity)
RequestData = TypeVar("RequestData", default=None)

_SHARED: Final = (Role.LOGOUT, Role.SESSION, Role.SESSION_MANAGEMENT, Role.SCRIPT)
"""Routes that all instances share; the instance that has the session serves the request."""


class OIDCProviders(Generic[Identity, RequestData]):
    """Several instances with one login page, one sign-out and one guard.

        providers = OIDCProviders({"Google": google, "Partners": partners})
        for oidc in providers:
            app.add_middleware(OIDCMiddleware, oidc=oidc)
        app.include_router(providers.router, prefix="/auth")

    The keys are the labels on the login page, in this order. Each instance needs its own name,
    which is part of its callback path: `/auth/google/callback`. A login at one instance ends the
    session at every other. Raises ConfigurationError without instances, or when two have the same
    name.
    """

    def __init__(self, instances: Mapping[str, OIDC[Identity, RequestData]]) -> None:
        self._labels = {oidc.settings.name: label for label, oidc in instances.items()}
        self._by_name = {oidc.settings.name: oidc for oidc in instances.values()}
        if not instances or len(self._by_name) < len(instances):
            explanation = "OIDCProviders takes instances, each with a `name` of its own"
            raise ConfigurationError(Code.CONFIGURATION_INVALID, explanation)
        self.router = self._router()
        """The login page, the routes of each instance, and the routes that all instances share."""

    def __iter__(self) -> Iterator[OIDC[Identity, RequestData]]:
        return iter(self._by_name.values())

    @cached_property
    def require_auth(self) -> RequireAny[Identity]:
        """`Depends(providers.require_auth)`: the session, at whichever provider it began."""
        return RequireAny({name: oidc.require_auth for name, oidc in self._by_name.items()})

    @cached_property
    def require_csrf(self) -> Guard[Identity]:
        """Like `require_auth`; the request must also have the session's CSRF token."""
        return self.guard(lambda oidc: oidc.require_csrf)

    @cached_property
    def locals(self) -> LocalsOfAny[Identity, RequestData]:
        """`Depends(providers.locals)`: the `OIDCLocals` of the request; a session is optional."""
        return LocalsOfAny(self._by_name)

    def guard(
        self, guard_of: Callable[[OIDC[Identity, RequestData]], Guard[Identity]]
    ) -> Guard[Identity]:
        """The guard of the instance that has the request's session.

        `providers.guard(lambda oidc: oidc.require_recent(300))`
        """
        guards = {name: guard_of(oidc) for name, oidc in self._by_name.items()}
        return GuardOfAny(guards, self.require_auth)

    async def current(self, connection: HTTPConnection) -> OIDC[Identity, RequestData] | None:
        """The instance that has the request's session, None without a session.

        Raises SessionError when a store is unavailable.
        """
        context = await context_with_session(connection, self._by_name)
        return None if context is None else self._by_name[context.runtime.name]

    def _router(self) -> APIRouter:
        router = APIRouter(include_in_schema=False)
        rows = {name: self._rows(oidc) for name, oidc in self._by_name.items()}
        for name in rows:
            add_route(router, "/login", Row(Role.CHOOSER, self._choose, ["GET"]), name)
            for role, row in rows[name].items():
                if role in _SHARED:
                    shared = self._shared({other: rows[other][role] for other in rows})
                    add_route(router, f"/{role}", shared, name)
                else:
                    add_route(router, f"/{name}/{role}", row, name)
        return router

    def _rows(self, oidc: OIDC[Identity, RequestData]) -> dict[Role, Row]:
        rows = routes_of(oidc, oidc.settings, on_success=self._ending_others(oidc))
        return {row.role: row for row in rows}

    def _ending_others(self, chosen: OIDC[Identity, RequestData]) -> OnSuccess[Identity]:
        """A browser has one session: a login ends its sessions at the other instances."""

        def signed_in(request: Request, _: SignedIn[Identity]) -> None:
            for oidc in self:
                if oidc is not chosen:
                    oidc.clear_session(request)

        return signed_in

    def _shared(self, rows: Mapping[str, Row]) -> Row:
        """The shared route: the instance that has the session serves the request."""
        any_row = next(iter(rows.values()))

        async def serve(request: Request) -> Response:
            name = await self._serving(request, any_row.role)
            return await rows[name].endpoint(request)

        return any_row._replace(endpoint=serve)

    async def _serving(self, request: Request, role: Role) -> str:
        """The name of the instance that serves a shared route; a sign-out needs no store."""
        if role is Role.SESSION:
            active = parsed_query(request, SessionQuery).active
            context = await context_with_session(request, self._by_name, active=active)
            if context is not None:
                return context.runtime.name
        return next(self._with_cookie(request), next(iter(self._by_name)))

    def _with_cookie(self, request: Request) -> Iterator[str]:
        for name in self._by_name:
            context = context_of(request, name)
            if context.runtime.party.sessions.names.session in context.cookies:
                yield name

    async def _choose(self, request: Request) -> Response:
        """The page with the choice of providers. A silent login uses the session's provider."""
        if parsed_query(request, LoginQuery).silent:
            name = await self._serving(request, Role.LOGIN)
            return await self._by_name[name].login_handler()(request)
        contexts = [context_of(request, name) for name in self._by_name]
        urls = [context.paths.required(Role.LOGIN) for context in contexts]
        query = f"?{request.url.query}" if request.url.query else ""
        choices = tuple(zip(self._labels.values(), [url + query for url in urls], strict=True))
        return await shown(contexts[0], chooser_page(choices))
