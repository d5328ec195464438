"""The pages about errors, step-ups, sign-outs and the choice of a provider."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from fastapi_oidc.concurrency import called
from fastapi_oidc.errors import Code, OIDCError
from fastapi_oidc.protocol.return_path import same_origin_path
from fastapi_oidc.web.pages import Fields, Page
from fastapi_oidc.web.request_context import RequestContext
from fastapi_oidc.web.requests import requested_path
from fastapi_oidc.web.routes import Role

_log = logging.getLogger("fastapi_oidc.request")

_NO_LOGIN_HELPS = frozenset(
    {
        Code.SESSION_FORBIDDEN,
        Code.SESSION_CROSS_SITE,
        Code.SESSION_CSRF,
        Code.SESSION_COOKIE_TOO_LARGE,
    }
)


def refusal_page(context: RequestContext[Any, Any], error: OIDCError) -> Page:
    """The page about `error`."""
    heading, _, text = error.public_text.partition(". ")
    action, href = _action(context, error)
    login = context.paths.find(Role.LOGIN)
    can_sign_in = action == "Try again" and login is not None and context.path != login
    return Page(
        kind="refused",
        status=error.status,
        heading=heading.removesuffix("."),
        text=text,
        action=action,
        href=href,
        code=str(error.code),
        other_action="Sign in again" if can_sign_in else "",
        other_href=context.paths.required(Role.LOGIN) if can_sign_in else "",
    )


def step_up_page(
    context: RequestContext[Any, Any], error: OIDCError, login: str, fields: Fields | None
) -> Page:
    """The page for a form whose user must sign in again; it sends the `fields` again afterwards.

    Without `fields` (a form with a file) the user must send the form again from the original page.
    """
    heading, _, _ = error.public_text.partition(". ")
    back = "Sign in again, then go back and send the form once more."
    here = "Sign in again in a new tab. Then come back to this page and send the form again."
    return Page(
        kind="step_up",
        status=error.status,
        heading=heading,
        text=back if fields is None else here,
        action="Sign in again",
        href=login,
        code=str(error.code),
        other_action="" if fields is None else "Send the form again",
        other_href="" if fields is None else _same_path(context),
        fields=fields,
    )


def signed_out_page(return_to: str) -> Page:
    """The page after a sign-out during which the provider did not respond."""
    return Page(
        kind="signed_out",
        status=HTTPStatus.OK,
        heading="You are signed out here",
        text=(
            "The sign-in service did not respond, so you may still be signed in there. "
            "On a shared computer, close the browser."
        ),
        action="Go on",
        href=return_to,
    )


def method_page(context: RequestContext[Any, Any], detail: str) -> Page:
    """The page for a link to a route that takes POST only (RFC 9110 15.5.6)."""
    heading, _, text = detail.partition(". ")
    return Page(
        kind="refused",
        status=HTTPStatus.METHOD_NOT_ALLOWED,
        heading=heading,
        text=text,
        action="Go to the start page",
        href=context.runtime.party.settings.default_return_path,
    )


def chooser_page(choices: tuple[tuple[str, str], ...]) -> Page:
    """The page with the choice of providers: pairs of a name and a login URL."""
    action, href = choices[0]
    return Page(
        kind="choose_provider",
        status=HTTPStatus.OK,
        heading="Sign in",
        text="",
        action=action,
        href=href,
        choices=choices,
    )


async def shown(context: RequestContext[Any, Any], page: Page) -> Response:
    """The response of `render_page`, or else the library's page. An exception is logged."""
    render, connection = context.runtime.engine.render_page, context.connection
    if render is None:
        return page.response()
    try:
        response = await called(render, Request(connection.scope), page)
    except Exception:
        _log.exception("render_page raised for a page of kind %s", page.kind)
        response = None
    return response or page.response()


def is_read(context: RequestContext[Any, Any]) -> bool:
    """Whether a link can repeat the request."""
    return context.connection.scope["method"] in ("GET", "HEAD")


def _action(context: RequestContext[Any, Any], error: OIDCError) -> tuple[str, str]:
    """The text and URL of the main action: try again, sign in, or go to the start page."""
    path, login = context.path, context.paths.find(Role.LOGIN)
    can_repeat = path == login or path not in context.paths
    if error.status >= HTTPStatus.BAD_GATEWAY and is_read(context) and can_repeat:
        return "Try again", _same_path(context)
    if _login_helps(error) and login is not None:
        is_first = error.code is Code.SESSION_REQUIRED
        return "Sign in" if is_first else "Sign in again", context.paths.required(Role.LOGIN)
    return "Go to the start page", context.runtime.party.settings.default_return_path


def _same_path(context: RequestContext[Any, Any]) -> str:
    """The requested path, unless a browser would read it as another origin's URL."""
    default = context.runtime.party.settings.default_return_path
    return same_origin_path(requested_path(context.connection), default=default)


def _login_helps(error: OIDCError) -> bool:
    area = error.code.partition(".")[0]
    return area != "configuration" and error.code not in _NO_LOGIN_HELPS
