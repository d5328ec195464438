"""The `Depends(...)` callables: guards of sessions and access tokens, step-up (RFC 9470), locals.

A guard is a check of what its root returns: `require_auth` the session, `api.require()` the token.
The root is a sub-dependency, so an override of the root reaches every guard that depends on it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from inspect import Parameter, Signature
from itertools import chain
from typing import Any, Final, Generic, TypeAlias, TypeVar

from fastapi import Header, Security
from fastapi.openapi.models import APIKey
from fastapi.security import SecurityScopes
from fastapi.security.base import SecurityBase
from starlette.requests import HTTPConnection, Request

from fastapi_oidc.clock import Instant
from fastapi_oidc.concurrency import called
from fastapi_oidc.errors import Code, SessionError, misconfigured
from fastapi_oidc.protocol.access_token import StepUp, together
from fastapi_oidc.session.cookies import CookieNames
from fastapi_oidc.session.model import Identity, OIDCSession, StandardIdentity
from fastapi_oidc.web import application, misuse, refusals, requests, serving
from fastapi_oidc.web.context import RequestContext
from fastapi_oidc.web.runtime import CSRF_FIELD, CSRF_HEADER, Engine, OIDCLocals

Result = TypeVar("Result")
Subject = TypeVar("Subject")
"""What a guard checks: a session or an access token."""
AnyGuard = TypeVar("AnyGuard", bound=misuse.Dependency)
Predicate: TypeAlias = Callable[[Identity], bool | Awaitable[bool]]
Check: TypeAlias = Callable[[RequestContext, HTTPConnection, Subject], Awaitable[None]]

_NAMED: Final = Parameter.POSITIONAL_OR_KEYWORD
_CONNECTION: Final = Parameter("connection", _NAMED, annotation=HTTPConnection)
_NEEDS: Final = Parameter("needs", _NAMED, default=None, annotation=SecurityScopes)
_NOTHING: Final = SecurityScopes()
CSRF_PARAMETER: Final = Parameter(
    "csrf_header",
    Parameter.KEYWORD_ONLY,
    default=Header(
        default=None,
        alias=CSRF_HEADER,
        description="The session's CSRF token, unless a form has it.",
    ),
    annotation=str | None,
)
"""The header in the OpenAPI document; `require_csrf_token` reads it from the request itself."""

_NO_ROLES: Final = (
    "oidc.require_role reads `roles`, a list of texts, of the identity, and those of {} are {}: "
    "let resolve_identity return an identity with a list"
)

_FORMS: Final = (requests.URL_ENCODED, "multipart/form-data")
_DEFAULT_COOKIE: Final = CookieNames("oidc", secure=True).session

FRESH_SECONDS: Final = 10
"""Seconds after a step-up in which the session still fails for good, instead of redirecting."""


class Root(misuse.Dependency, ABC, Generic[Subject]):
    """What a guard depends on. `engine` is None for the app's only instance."""

    engine: Engine | None

    @abstractmethod
    def __call__(self, connection: HTTPConnection, /) -> misuse.Call[Subject]:
        """What the guard checks."""


class RequireAuth(SecurityBase, Root[OIDCSession[Identity]], Generic[Identity]):
    """The session of the request; a request without a session is refused.

    A page navigation (GET or HEAD) is redirected to the login route and returns afterwards. Any
    other request gets a 401 response with JSON. A websocket without a session, or from an origin
    that is not trusted, is closed before it is accepted. Raises SessionError (session.required,
    session.cross_site).
    """

    name = "require_auth"
    returns = OIDCSession

    def __init__(
        self,
        engine: Engine | None = None,
        cookie_name: str = _DEFAULT_COOKIE,
        only: str | None = None,
    ) -> None:
        self.engine, self._only = engine, only
        self.scheme_name = "oidc" if engine is None else engine.name
        self.model = APIKey.model_validate(
            {"in": "cookie", "name": cookie_name, "description": "OpenID Connect session"}
        )

    @misuse.awaited
    async def __call__(self, connection: HTTPConnection) -> OIDCSession[Identity]:
        """The session; raises SessionError."""
        context: RequestContext = serving.context_of(connection, self.engine)
        context.is_guarded, locals = True, context.known
        if locals is None:
            locals = await context.locals()
        elif locals.session is not None:
            context.require_trusted_origin(connection.scope)
        session = usable_session(locals)
        if session is None:
            serving.require_own_middleware(connection)
            raise refusals.SignInRequired(Code.SESSION_REQUIRED, "no session", ended=locals.ended)
        if self._only and context.party.of(session).settings.name != self._only:
            explanation = f"the session is of another registration than {self._only!r}"
            raise SessionError(Code.SESSION_FORBIDDEN, explanation)
        return session


class FromAPI(Root[Result]):
    """What an API returns for a request: its token or caller, if it has the endpoint's scopes.

    `documented` are parameters that only the OpenAPI document shows. Raises AccessTokenError or,
    for a caller without a token, SessionError.
    """

    def __init__(
        self,
        name: str,
        engine: Engine,
        returns: type[Result],
        ask: Callable[..., Awaitable[Result]],
        scopes: Collection[str],
        *documented: Parameter,
    ) -> None:
        self.name, self.engine, self.returns, self._ask = name, engine, returns, ask
        self.scopes = scopes
        """The scopes of the API; empty if any is one."""
        self.__signature__ = Signature([_CONNECTION, _NEEDS, *documented])

    @misuse.awaited
    async def __call__(
        self, connection: HTTPConnection, needs: SecurityScopes = _NOTHING, **_documented: object
    ) -> Result:
        """The token or caller."""
        return await self._ask(connection, *needs.scopes)


class Guard(misuse.Dependency, Generic[Subject]):
    """The session or token from `root`, if `check` does not refuse it.

    `await guard(request)` calls `root` itself. `needs` is what a login or client must ask for.
    """

    def __init__(
        self,
        name: str,
        root: Root[Subject],
        check: Check[Subject],
        *documented: Parameter,
        needs: Any = None,
        scopes: Sequence[str] = (),
    ) -> None:
        self.name, self.root, self.needs, self._check = name, root, needs, check
        self.returns, self.engine = root.returns, root.engine
        subject = Parameter("subject", _NAMED, default=Security(root, scopes=scopes))
        self.__signature__ = Signature([_CONNECTION, subject, *documented])
        """The signature that FastAPI reads; it has the root."""

    @misuse.awaited
    async def __call__(
        self, connection: HTTPConnection, subject: Subject | None = None, **_documented: object
    ) -> Subject:
        """The session or token; raises SessionError or AccessTokenError."""
        if subject is None:
            subject = await self.root(connection)
        misuse.require_kind("what a guard checks, also of an override", subject, self.returns)
        await self._check(serving.context_of(connection, self.engine), connection, subject)
        return subject


def needs_of(connection: HTTPConnection, is_root: Callable[[Root[Any]], bool]) -> list[Any]:
    """What the endpoint's guards need, whose root is one of these."""
    calls = [each.call for each in application.dependants_of(connection.scope)]
    guards = [each for each in calls if isinstance(each, Guard)]
    return [each.needs for each in guards if each.needs is not None and is_root(each.root)]


def scopes_of(connection: HTTPConnection) -> tuple[str, ...]:
    """The scopes that the endpoint needs of tokens, also those in `Security(..., scopes=[...])`."""
    dependants = application.dependants_of(connection.scope)
    asking = [each for each in dependants if isinstance(each.call, FromAPI)]
    named = ((each.parent_oauth_scopes, each.own_oauth_scopes) for each in asking)
    return tuple(chain.from_iterable(filter(None, chain.from_iterable(named))))


class FromLocals(misuse.Dependency, Generic[Result]):
    """The locals of the request, or what `read` returns for them; a session is optional."""

    refuses = False

    def __init__(
        self,
        name: str,
        engine: Engine | None,
        returns: type,
        read: Callable[[Any], Result] = lambda locals: locals,
    ) -> None:
        self.name, self.engine, self.returns, self._read = name, engine, returns, read

    @misuse.awaited
    async def __call__(self, connection: HTTPConnection) -> Result:
        """The result; raises SessionError when a store is unavailable."""
        return self._read(await serving.find_context(connection, self.engine).locals())


def usable_session(locals: OIDCLocals[Identity, Any]) -> OIDCSession[Identity] | None:
    """The session, None without one; raises SessionError while it is unavailable."""
    if locals.unavailable is not None:
        raise locals.unavailable
    return locals.session


def made_here(guard: AnyGuard) -> AnyGuard:
    """`guard`, which the request that makes it must call: dropped, it would let everybody in."""
    if (context := serving.running()) is not None:
        context.note(guard)
    return guard


def with_predicate(
    predicate: Predicate[Identity], root: RequireAuth[Identity]
) -> Guard[OIDCSession[Identity]]:
    """A guard for identities for which the predicate is true."""
    kind = getattr(root.engine, "identity_type", object)
    misuse.require_takes("the predicate of oidc.require", predicate, kind)
    return made_here(Guard("require", root, partial(_require_true, predicate)))


async def _require_true(
    predicate: Predicate[Identity], _context: object, _: object, session: OIDCSession[Identity]
) -> None:
    """Raises SessionError (session.forbidden), ConfigurationError for a value not a bool."""
    result: object = await called(predicate, session.identity)
    if result and not isinstance(result, bool):
        raise misconfigured(
            f"the predicate of oidc.require returned {type(result).__name__}, not True or "
            "False. Call it if it is a method or function; write bool(...) around other values"
        )
    if not result:
        raise SessionError(Code.SESSION_FORBIDDEN, "the endpoint's predicate was not true")


def with_role(role: str, root: RequireAuth[Identity]) -> Guard[OIDCSession[Identity]]:
    """A guard for identities with this role; ConfigurationError if none can have `roles`."""
    if root.engine is not None and root.engine.identity_type is StandardIdentity:
        raise misconfigured(_NO_ROLES.format("StandardIdentity", "None"))
    return made_here(Guard("require_role", root, partial(_require_role, role)))


async def _require_role(role: str, _context: object, _: object, session: OIDCSession[Any]) -> None:
    """Raises SessionError (session.forbidden), ConfigurationError without `roles`."""
    roles: Any = getattr(session.identity, "roles", None)
    is_list = isinstance(roles, Collection) and not isinstance(roles, str | Mapping)
    if others := [each for each in roles if not isinstance(each, str)] if is_list else [roles]:
        kind = type(session.identity).__name__
        raise misconfigured(_NO_ROLES.format(kind, type(others[0]).__name__))
    if role not in roles:
        raise SessionError(Code.SESSION_FORBIDDEN, f"the user lacks the role {role!r}")


def with_csrf_token(root: RequireAuth[Identity]) -> Guard[OIDCSession[Identity]]:
    """A guard for requests with the session's CSRF token.

    The token is in the header `X-CSRF-Token` or, for HTML forms, in the field `csrf_token`.
    """
    return Guard("require_csrf", root, _require_csrf_token, CSRF_PARAMETER)


async def _require_csrf_token(
    context: RequestContext, connection: HTTPConnection, session: OIDCSession[Any]
) -> None:
    """Raises SessionError (session.csrf)."""
    token = connection.headers.get(CSRF_HEADER)
    if token is None:
        token = await _csrf_field(connection)
    context.runtime.csrf.require(session, token)


async def _csrf_field(connection: HTTPConnection) -> str | None:
    """The CSRF field of an HTML form, which the endpoint can still read."""
    if not isinstance(connection, Request) or requests.media_type(connection) not in _FORMS:
        return None
    values = (await connection.form()).getlist(CSRF_FIELD)
    return values[0] if len(values) == 1 and isinstance(values[0], str) else None


def with_step_up(
    name: str, step_up: StepUp, root: RequireAuth[Identity]
) -> Guard[OIDCSession[Identity]]:
    """A guard for sessions whose authentication is enough for `step_up`.

    Otherwise a page navigation is redirected to a login that requires it, and returns afterwards.
    The response to a posted form is a page with the login, whose reload sends the form again. Any
    other request gets a 401 response.
    """
    return made_here(Guard(name, root, partial(_require_step_up, step_up), needs=step_up))


async def _require_step_up(
    step_up: StepUp, context: RequestContext, connection: HTTPConnection, session: OIDCSession[Any]
) -> None:
    """Raises SessionError (session.step_up_required, session.forbidden)."""
    context.step_ups += (step_up,)
    at = context.party.clock.instant()
    if step_up.is_met(session.auth_time, session.acr, at):
        return
    serving.require_own_middleware(connection)
    declared = needs_of(connection, lambda root: _is_of(root, context.engine))
    needed = together([*declared, *context.step_ups])
    if needed is None:
        raise SessionError(Code.SESSION_FORBIDDEN, "the endpoint's guards accept no acr in common")
    _require_that_it_can_help(needed, session, at)
    raise refusals.StepUpRequired(_with_proofs(needed, context.engine.step_ups, session, at))


def _is_of(root: object, engine: Engine) -> bool:
    return isinstance(root, RequireAuth) and root.engine is engine


def _require_that_it_can_help(needed: StepUp, session: OIDCSession[Any], at: Instant) -> None:
    """Raise SessionError (session.forbidden) if a step-up has just been asked for all of it."""
    last = session.stepped_up
    if last is None or not 0 <= at.now - last.at <= FRESH_SECONDS:
        return
    if StepUp(last.max_age, last.acr_values).covers(needed):
        explanation = (
            f"the guards require {needed.parameters()}, and a step-up that asked for it left the "
            f"session with acr={session.acr} and auth_time={session.auth_time}"
        )
        raise SessionError(Code.SESSION_FORBIDDEN, explanation)


def _with_proofs(
    needed: StepUp, known: Iterable[StepUp], session: OIDCSession[Any], at: Instant
) -> StepUp:
    """`needed` and what the session proves to other guards, which the login would lose."""
    for proved in known:
        if proved.is_met(session.auth_time, session.acr, at):
            needed = together([needed, proved]) or needed
    return needed


require_auth: RequireAuth[Any] = RequireAuth()
"""`Depends(require_auth)`: the session of the app's only OIDC instance; else to the login."""

require_csrf: Guard[OIDCSession[Any]] = with_csrf_token(require_auth)
"""`Depends(require_csrf)`: like `require_auth`; the request must have the CSRF token."""

oidc_locals: FromLocals[OIDCLocals[Any, Any]] = FromLocals("oidc_locals", None, OIDCLocals)
"""`Depends(oidc_locals)`: session, identity and request data of the app's only OIDC instance."""
