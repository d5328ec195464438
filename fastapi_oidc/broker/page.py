"""The page on which a person confirms a call that waits."""

from __future__ import annotations

import re
from html import escape
from typing import Any, Final

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse

from fastapi_oidc.broker.access import Approval
from fastapi_oidc.broker.accesses import Accesses
from fastapi_oidc.oidc import OIDC
from fastapi_oidc.session.model import OIDCSession
from fastapi_oidc.web.csrf import CSRF_FIELD
from fastapi_oidc.web.guards import form_of
from fastapi_oidc.web.pages import document

_PAGE: Final = "oidc_broker_approval"
"""The name of the page's route, whichever broker has it."""

_UNCLEAR: Final = re.compile(r"[^\n -~]")


def approval_router(
    oidc: OIDC[Any, Any], accesses: Accesses, recent_seconds: int, *, is_needed: bool
) -> APIRouter:
    """`/approvals/{id}`, for users who have authenticated in the last `recent_seconds`.

    `is_needed`: an application without these routes is told so at its startup.
    """
    router = APIRouter(include_in_schema=False)
    recently = Depends(oidc.require_recent(recent_seconds))

    @router.get("/approvals/{id}", name=_PAGE)
    async def show(id: str, session: OIDCSession[Any] = recently) -> HTMLResponse:
        _, asked = await accesses.asked(session, id)
        return document("Approve a call", _form(asked, oidc.csrf_token(session)))

    @router.post("/approvals/{id}", dependencies=[Depends(oidc.require_csrf)])
    async def decide(
        request: Request, id: str, session: OIDCSession[Any] = recently
    ) -> HTMLResponse:
        approve = (await form_of(request)).get("decision") == "approve"
        await accesses.decide(session, id, approve=approve)
        told = "approved. It is sent if the machine still waits" if approve else "not sent"
        body = f"<p>The call is {told}. You can close this page.</p>"
        return document("Approved" if approve else "Refused", body)

    if is_needed:
        oidc.runtime.engine.needed[_PAGE] = (
            "A route of the broker has `approve`, and nobody can approve a call.\n"
            "Add the line: app.include_router(broker.router)"
        )
    return router


def _form(asked: Approval, csrf: str) -> str:
    headers = "; ".join(f"{name}: {text}" for name, text in asked.headers)
    return (
        f"<p>{_shown(asked.machine)} wants to send this as you:</p>"
        f"<p><b>{_shown(asked.method)}</b> <code>{_shown(asked.url)}</code></p>"
        f"<p>{_shown(headers)}</p><p>Body: {len(asked.body)} bytes</p>"
        f"<pre>{_shown(asked.body.decode('utf-8', 'backslashreplace'))}</pre>"
        f'<form method="post"><input type="hidden" name="{CSRF_FIELD}" value="{escape(csrf)}">'
        '<button name="decision" value="approve">Approve</button> '
        '<button name="decision" value="refuse">Refuse</button></form>'
    )


def _shown(text: str) -> str:
    """The text as HTML, from left to right, with escapes for all but printable ASCII.

    Other characters may hide or turn their neighbours, or look like others.
    """
    visible = _UNCLEAR.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
    return f'<bdo dir="ltr">{escape(visible)}</bdo>'
