"""The page on which a person confirms a call that waits."""

from __future__ import annotations

from html import escape
from typing import Any, Final

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse

from fastapi_oidc.broker.access import Access, Approval
from fastapi_oidc.broker.accesses import Accesses
from fastapi_oidc.events import EventName
from fastapi_oidc.oidc import OIDC
from fastapi_oidc.session.model import OIDCSession
from fastapi_oidc.web.csrf import CSRF_FIELD
from fastapi_oidc.web.guards import form_of
from fastapi_oidc.web.pages import document

APPROVAL_ROUTE: Final = "broker_approval"


def approval_router(oidc: OIDC[Any, Any], accesses: Accesses) -> APIRouter:
    """`/approvals/{id}`, for users who have authenticated recently."""
    router = APIRouter(include_in_schema=False)
    recently = Depends(oidc.require_recent(accesses.limits.recent_seconds))

    @router.get("/approvals/{id}", name=APPROVAL_ROUTE)
    async def show(id: str, session: OIDCSession[Any] = recently) -> HTMLResponse:
        form = _form(*await accesses.asked(session, id), oidc.csrf_token(session))
        return document("Approve a call", form)

    @router.post("/approvals/{id}", dependencies=[Depends(oidc.require_csrf)])
    async def decide(
        request: Request, id: str, session: OIDCSession[Any] = recently
    ) -> HTMLResponse:
        access, asked = await accesses.asked(session, id)
        is_approved = (await form_of(request)).get("decision") == "approve"
        approved = [id] if is_approved else []
        await accesses.change(access, lambda found: found.decided(asked, *approved))
        told = "approved" if is_approved else "refused"
        call = asked.model_dump(include={"route", "method", "path"}) | {"approval": id}
        accesses.announce(EventName.ACCESS_APPROVAL_DECIDED, access, f"{asked} {told}", **call)
        return document(told.capitalize(), "<p>You can close this page.</p>")

    return router


def _form(access: Access, asked: Approval, csrf: str) -> str:
    headers = "; ".join(f"{name}: {text}" for name, text in asked.headers)
    return (
        f"<p>{_shown(access.machine)} wants to send this as you:</p>"
        f"<p><b>{_shown(asked.method)}</b> <code>{_shown(asked.url)}</code></p>"
        f"<p>{_shown(headers)}</p><p>Body: {len(asked.body)} bytes</p>"
        f"<pre>{_shown(asked.body.decode('utf-8', 'backslashreplace'))}</pre>"
        f'<form method="post"><input type="hidden" name="{CSRF_FIELD}" value="{escape(csrf)}">'
        '<button name="decision" value="approve">Approve</button> '
        '<button name="decision" value="refuse">Refuse</button></form>'
    )


def _shown(text: str) -> str:
    """The text as HTML, with escapes for all but ASCII: others may hide, or look like another."""
    return escape(text.encode("ascii", "backslashreplace").decode())
