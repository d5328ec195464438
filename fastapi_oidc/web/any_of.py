"""Guards over several instances: the session of the instance that the browser signed in at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic

from starlette.requests import HTTPConnection

from fastapi_oidc.protocol.step_up import StepUp
from fastapi_oidc.session.model import Identity, OIDCSession
from fastapi_oidc.web.dependencies import Guard, RequireAuth
from fastapi_oidc.web.locals import OIDCLocals
from fastapi_oidc.web.misuse import awaited
from fastapi_oidc.web.refusal import SignInRequired
from fastapi_oidc.web.request_context import RequestContext
from fastapi_oidc.web.request_contexts import context_of
from fastapi_oidc.web.routes import Role
from fastapi_oidc.web.runtime import RequestData


async def context_with_session(
    connection: HTTPConnection, names: Mapping[str, Any], *, active: bool = True
) -> RequestContext[Any, Any] | None:
    """The context of the instance that has the request's session, even if it is unavailable.

    Raises SessionError when a store is unavailable.
    """
    for name in names:
        context = context_of(connection, name)
        locals = await context.locals(active=active)
        if locals.session is not None or locals.unavailable is not None:
            return context
    return None


class RequireAny(RequireAuth[Identity]):
    """The session of one of several instances; requests without one are refused."""

    def __init__(self, guards: Mapping[str, RequireAuth[Identity]]) -> None:
        self.guards = guards
        first = next(iter(guards.values()))
        self._instance, self.scheme_name, self.model = None, first.scheme_name, first.model

    @awaited
    async def __call__(self, connection: HTTPConnection) -> OIDCSession[Identity]:
        """The session; raises SessionError."""
        try:
            return await self.guards[await self.name(connection)](connection)
        except SignInRequired as error:
            error.role = Role.CHOOSER
            raise

    async def name(self, connection: HTTPConnection) -> str:
        """The name of the instance that has the session, else of the first one, which refuses."""
        context = await context_with_session(connection, self.guards)
        return next(iter(self.guards)) if context is None else context.runtime.name


class GuardOfAny(Guard[Identity]):
    """The session, if the guard of its own instance accepts it."""

    def __init__(
        self, guards: Mapping[str, Guard[Identity]], require_any: RequireAny[Identity]
    ) -> None:
        super().__init__(require_any)
        self._require_any, self._guards = require_any, guards

    async def __call__(
        self,
        connection: HTTPConnection,
        session: OIDCSession[Identity] | None = None,
        **documented: object,
    ) -> OIDCSession[Identity]:
        """The session; raises SessionError."""
        session = session or await self._require_any(connection)
        name = await self._require_any.name(connection)
        return await self._guards[name](connection, session)

    def step_up_at(self, context: RequestContext[Any, Any]) -> StepUp | None:
        """See `Guard.step_up_at`."""
        guard = self._guards.get(context.runtime.name)
        return None if guard is None else guard.step_up_at(context)

    async def _check(self, *_: object) -> None:
        """Do nothing: the instance's own guard has checked the session."""


class LocalsOfAny(Generic[Identity, RequestData]):
    """The `OIDCLocals` of the instance that has the request's session; empty without one."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names

    @awaited
    async def __call__(self, connection: HTTPConnection) -> OIDCLocals[Identity, RequestData]:
        """The locals; raises SessionError when a store is unavailable."""
        context = await context_with_session(connection, self._names)
        return OIDCLocals() if context is None else await context.locals()
