"""Guards that require a recent or a strong authentication (RFC 9470)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from starlette.requests import HTTPConnection, Request

from fastapi_oidc.clock import Instant
from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.protocol.access_token import StepUp, together
from fastapi_oidc.session.model import Identity, OIDCSession
from fastapi_oidc.web.context import RequestContext
from fastapi_oidc.web.guards import Guard, RequireAuth, made_here, needs_of
from fastapi_oidc.web.pages import Fields
from fastapi_oidc.web.refusals import StepUpRequired, is_navigation
from fastapi_oidc.web.requests import URL_ENCODED, media_type
from fastapi_oidc.web.runtime import Engine
from fastapi_oidc.web.serving import require_own_middleware

FRESH_SECONDS: Final = 10
"""Seconds after a step-up in which the session still fails for good, instead of redirecting."""


def with_step_up(
    name: str, step_up: StepUp, root: RequireAuth[Identity]
) -> Guard[OIDCSession[Identity]]:
    """A guard for sessions whose authentication is enough for `step_up`.

    Otherwise a page navigation is redirected to a login that requires it, and returns afterwards.
    The response to a posted form is a page that sends the form again after the login. Any other
    request gets a 401 response.
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
    require_own_middleware(connection)
    declared = needs_of(connection, lambda root: _is_of(root, context.engine))
    needed = together([*declared, *context.step_ups])
    if needed is None:
        raise SessionError(Code.SESSION_FORBIDDEN, "the endpoint's guards accept no acr in common")
    _require_that_it_can_help(needed, session, at)
    asked = _with_proofs(needed, context.engine.step_ups, session, at)
    raise StepUpRequired(asked, await _fields_to_send_again(context, connection))


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


async def _fields_to_send_again(
    context: RequestContext, connection: HTTPConnection
) -> Fields | None:
    """The fields of a form; None for any other request.

    The form is sent again from our own origin. One of another site has met no session, see
    `RequestContext.is_of_trusted_origin`.
    """
    if not isinstance(connection, Request) or connection.method != "POST":
        return None
    if media_type(connection) != URL_ENCODED or not is_navigation(connection):
        return None
    pairs = (await connection.form()).multi_items()
    return tuple((name, value) for name, value in pairs if isinstance(value, str))
