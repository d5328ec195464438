"""Which of several registrations a request is for, or the choice that its user has."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from starlette.exceptions import HTTPException

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.flows.login import LoginOptions
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.resume import current
from fastapi_oidc.session.model import Identity
from fastapi_oidc.web.headers import NO_STORE
from fastapi_oidc.web.request_context import RequestContext
from fastapi_oidc.web.routes import Role


async def chosen(
    context: RequestContext[Identity, Any], options: LoginOptions
) -> RelyingParty[Identity] | None:
    """The registration of a login; None if the user must choose one."""
    party = context.runtime.party
    if options.provider is not None:
        if (named := party.named(options.provider)) is None:
            raise HTTPException(404, "There is no such provider.", NO_STORE)
        return named
    if not party.is_one_of_several:
        return party
    if not (options.silent or options.steps_up):
        return None
    return await of_session(context) or (party if options.silent else None)


async def of_session(context: RequestContext[Identity, Any]) -> RelyingParty[Identity] | None:
    """The registration of the browser's session; None without one."""
    party = context.runtime.party
    if not party.is_one_of_several:
        return party
    live = await current(party, context.cookies)
    return None if live is None else party.of(live.session)


def choices(
    context: RequestContext[Any, Any], options: LoginOptions
) -> tuple[tuple[str, str], ...]:
    """The labels of the registrations, and the URLs of their logins with these options.

    Raises ConfigurationError for options that no link can carry.
    """
    if options.scope is not None or options.extra_params:
        explanation = "a login with scope or extra_params names its provider: users cannot choose"
        raise ConfigurationError(Code.CONFIGURATION_INVALID, explanation)
    words, login = options.acr_values, context.paths.required(Role.LOGIN)
    wanted = {
        "return_to": options.return_to,
        "prompt": options.prompt,
        "login_hint": options.login_hint,
        "max_age": options.max_age,
        "acr_values": (words if isinstance(words, str) else " ".join(words)) or None,
    }
    asked = {name: value for name, value in wanted.items() if value is not None}
    return tuple(
        (label, f"{login}?{urlencode(asked | {'provider': name})}")
        for name, label in context.runtime.labels.items()
    )
