"""Guards that require a recent or a strong authentication (RFC 9470)."""

from __future__ import annotations

from typing import Any

from starlette.requests import HTTPConnection, Request

from fastapi_oidc.errors import SessionError
from fastapi_oidc.protocol.step_up import StepUp
from fastapi_oidc.session.model import Identity, OIDCSession
from fastapi_oidc.web.dependencies import URL_ENCODED, Guard, RequireAuth, form_of, media_type
from fastapi_oidc.web.pages import Fields
from fastapi_oidc.web.refusal import StepUpRequired, is_navigation
from fastapi_oidc.web.request_context import RequestContext
from fastapi_oidc.web.request_contexts import require_own_middleware
from fastapi_oidc.web.requests import require_same_origin


class RequireStepUp(Guard[Identity]):
    """The session of the request, if its authentication is enough for a `StepUp`.

    Otherwise a page navigation is redirected to a login that requires it, and returns afterwards.
    The response to a posted form is a page that sends the form again after the login. Any other
    request gets a 401 response.
    """

    def __init__(self, step_up: StepUp, require_auth: RequireAuth[Identity]) -> None:
        super().__init__(require_auth)
        self._step_up = step_up

    async def _check(
        self,
        context: RequestContext[Identity, Any],
        connection: HTTPConnection,
        session: OIDCSession[Identity],
    ) -> None:
        """Raises SessionError (session.step_up_required)."""
        at = context.runtime.party.clock.instant()
        if not self._step_up.is_met(session.auth_time, session.acr, at):
            require_own_middleware(connection)
            raise StepUpRequired(self._step_up, await _fields_to_send_again(context, connection))


async def _fields_to_send_again(
    context: RequestContext[Any, Any], connection: HTTPConnection
) -> Fields | None:
    """The fields of a form from one of our own pages; None for any other request.

    The form is sent again from our own origin, so a form from another site must be excluded.
    """
    if not isinstance(connection, Request) or connection.method != "POST":
        return None
    if media_type(connection) != URL_ENCODED or not is_navigation(connection):
        return None
    try:
        require_same_origin(context)
    except SessionError:
        return None
    pairs = (await form_of(connection)).multi_items()
    return tuple((name, value) for name, value in pairs if isinstance(value, str))
