"""The page on which a person confirms a call that waits."""

from __future__ import annotations

from html import escape
from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse

from fastapi_oidc.broker.access import Access, Approval
from fastapi_oidc.broker.accesses import Accesses
from fastapi_oidc.oidc import OIDC
from fastapi_oidc.session.model import OIDCSession
from fastapi_oidc.web.csrf import CSRF_FIELD
from fastapi_oidc.web.guards import form_of
from fastapi_oidc.web.pages import document


def approval_router(oidc: OIDC[Any, Any], accesses: Accesses, recent_seconds: int) -> APIRouter:
    """`/approvals/{id}`, for users who have authenticated in the last `recent_seconds`."""
    router = APIRouter(include_in_schema=False)
    recently = Depends(oidc.require_recent(recent_seconds))

    @router.get("/approvals/{id}")
    async def show(id: str, session: OIDCSession[Any] = recently) -> HTMLResponse:
        form = _form(*await accesses.asked(session, id), oidc.csrf_token(session))
        return document("Approve a call", form)

    @router.post("/approvals/{id}", dependencies=[Depends(oidc.require_csrf)])
    async def decide(
        request: Request, id: str, session: OIDCSession[Any] = recently
    ) -> HTMLResponse:
        approve = (await form_of(request)).get("decision") == "approve"
        await accesses.decide(session, id, approve=approve)
        return document("Approved" if approve else "Refused", "<p>You can close this page.</p>")

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
