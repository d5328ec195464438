"""The dependencies of an API: `api.require(...)` and `api.require_user`."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any, Final, Generic, Protocol

from fastapi import Security
from fastapi.security import SecurityScopes
from fastapi.security.base import SecurityBase
from starlette.requests import HTTPConnection

from fastapi_oidc.resource_server import AccessToken, Caller
from fastapi_oidc.resource_server.permission import Permission
from fastapi_oidc.session.model import Identity
from fastapi_oidc.web.api_documents import Documented
from fastapi_oidc.web.misuse import Dependency, awaited

_CONNECTION: Final = Parameter(
    "connection", Parameter.POSITIONAL_OR_KEYWORD, annotation=HTTPConnection
)
_NEEDS: Final = Parameter(
    "needs", Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=SecurityScopes
)
_NOTHING: Final = SecurityScopes()


class Accepts(Protocol[Identity]):
    """An API, as its dependencies see it."""

    async def access_token(self, connection: HTTPConnection, *scopes: str) -> AccessToken:
        """See `API`."""
        ...

    async def caller(self, connection: HTTPConnection, *scopes: str) -> Caller[Identity]:
        """See `API`."""
        ...


class AnyToken(SecurityBase, Dependency):
    """The access token of the request, if it has the endpoint's scopes."""

    def __init__(self, api: Accepts[Any], model: Documented) -> None:
        self._api, self.scheme_name, self.model = api, model.scheme_name, model.model
        self.__signature__ = Signature([_CONNECTION, _NEEDS])

    @awaited
    async def __call__(
        self, connection: HTTPConnection, needs: SecurityScopes = _NOTHING
    ) -> AccessToken:
        """The token; raises AccessTokenError."""
        return await self._api.access_token(connection, *needs.scopes)


class RequireToken(Dependency):
    """The access token of the request, if `permit` accepts it for `permission`.

    It depends on `token`, so an override of `api.require()` reaches it.
    """

    def __init__(
        self,
        token: AnyToken,
        permission: Permission,
        permit: Callable[[HTTPConnection, AccessToken, Permission], None],
    ) -> None:
        self.token, self.permission, self._permit = token, permission, permit
        given = Parameter(
            "token",
            Parameter.POSITIONAL_OR_KEYWORD,
            default=Security(token, scopes=permission.scopes),
        )
        self.__signature__ = Signature([_CONNECTION, given])

    @awaited
    async def __call__(
        self, connection: HTTPConnection, token: AccessToken | None = None
    ) -> AccessToken:
        """The token; raises AccessTokenError."""
        if token is None:
            token = await self.token(connection)
        self._permit(connection, token, self.permission)
        return token


class RequireUser(Dependency, Generic[Identity]):
    """The caller. `documented` are parameters that only the OpenAPI document shows."""

    def __init__(self, api: Accepts[Identity], *documented: Parameter) -> None:
        self._api = api
        self.__signature__ = Signature([_CONNECTION, _NEEDS, *documented])

    @awaited
    async def __call__(
        self, connection: HTTPConnection, needs: SecurityScopes = _NOTHING, **_documented: object
    ) -> Caller[Identity]:
        """The caller; raises AccessTokenError or, without a token, SessionError."""
        return await self._api.caller(connection, *needs.scopes)


def documented(name: str, scheme: Documented) -> Parameter:
    """A parameter for the OpenAPI document."""
    return Parameter(name, Parameter.KEYWORD_ONLY, default=Security(scheme))
