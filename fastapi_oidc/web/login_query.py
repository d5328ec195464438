"""What a request for a login asks for, and whose login it is."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from fastapi.exceptions import RequestValidationError
from pydantic import TypeAdapter, ValidationError
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException

from fastapi_oidc.errors import misconfigured
from fastapi_oidc.flows.login import LoginOptions
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.protocol.refusal import shown
from fastapi_oidc.protocol.urls import is_this_machine, same_origin_path
from fastapi_oidc.web.application import advise_on_root_path
from fastapi_oidc.web.context import RequestContext
from fastapi_oidc.web.pages import NO_STORE
from fastapi_oidc.web.requests import MOVED
from fastapi_oidc.web.routes import Role

PARAMETERS: Final = (
    *("return_to", "provider", "prompt", "login_hint", "max_age", "acr_values", "silent"),
)
"""The parameters of `GET /login`: what a link may ask for."""

_OPTIONS: Final = TypeAdapter(LoginOptions)


def options_in(query: QueryParams) -> LoginOptions:
    """The options in the query; the last value of a repeated parameter counts.

    Raises RequestValidationError (422), as FastAPI does for the parameters of an endpoint.
    """
    given = {name: query[name] for name in PARAMETERS if name in query}
    try:
        return _OPTIONS.validate_python(given, strict=False)
    except ValidationError as error:
        raise RequestValidationError(error.errors(include_url=False)) from None


async def registration_for(context: RequestContext, options: LoginOptions) -> RelyingParty | None:
    """The registration of a login; None if the user must choose one."""
    party = context.party
    if options.provider is not None:
        if (named := party.named(options.provider)) is None:
            names = f" Names are {', '.join(known)}." if (known := context.runtime.labels) else ""
            raise HTTPException(404, f"There is no such provider.{names}", NO_STORE)
        return named
    if not party.is_one_of_several:
        return party
    if not (options.silent or options.steps_up):
        return None
    return await context.registration_of_session() or (party if options.silent else None)


def choices(context: RequestContext, options: LoginOptions) -> tuple[tuple[str, str], ...]:
    """The labels of the registrations, and the URLs of their logins with these options.

    Raises ConfigurationError for options that no link can carry.
    """
    if options.scope is not None or options.extra_params:
        raise misconfigured(
            "a login with scope or extra_params names its provider: users cannot choose"
        )
    words, login = options.acr_values, context.link_to(Role.LOGIN)
    wanted = {name: getattr(options, name) for name in PARAMETERS}
    wanted["acr_values"] = (words if isinstance(words, str) else " ".join(words)) or None
    asked = {name: value for name, value in wanted.items() if not (value is None or value is False)}
    return tuple(
        (label, f"{login}?{urlencode(asked | {'provider': name})}")
        for name, label in context.runtime.labels.items()
    )


def advise_on_login(context: RequestContext, asked: LoginOptions, elsewhere: str | None) -> None:
    """Log why a login may surprise. It is sent `elsewhere` if it began at another address."""
    advise, host = context.party.announcer.advise, context.connection.headers.get("host", "")
    unread = context.connection.query_params.keys() - {*PARAMETERS, MOVED}
    advise_on_root_path(context)
    if asked.return_to is None and unread:  # perhaps for it
        advise("a login", f"does not read {shown(min(unread))}, but {', '.join(PARAMETERS)}")
    if context.runtime.origin is None and not is_this_machine(host):  # anybody can choose it
        where = f"it is missing, so a login returns to the host of its request, here {shown(host)}"
        advise("base_url", f"{where}: set it, except on this machine")
    if elsewhere:
        where = f"it is {context.origin}, and a login began at the host {shown(host)}"
        cause = "If the application is not there, correct it; a proxy must pass on Host"
        advise("base_url", f"{where}: the browser was sent to base_url. {cause}")


def advise_on_return(context: RequestContext, return_to: str | None) -> None:
    """Log that the `return_to` of a login or logout is not followed because of its origin."""
    if return_to and not same_origin_path(return_to, default="", origin=context.origin):
        text = f"nobody returns to {shown(return_to)}: only paths of this application, as /me"
        context.party.announcer.advise("return_to", text)
