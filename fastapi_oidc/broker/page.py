"""The page on which a person confirms a call that waits."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from html import escape
from typing import Any, TypeAlias

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse

from fastapi_oidc.broker.access import Access, Approval
from fastapi_oidc.oidc import OIDC
from fastapi_oidc.session.model import OIDCSession
from fastapi_oidc.web.csrf import CSRF_FIELD
from fastapi_oidc.web.guards import form_of
from fastapi_oidc.web.pages import document

Find: TypeAlias = Callable[[OIDCSession[Any], str], Awaitable[tuple[Access, Approval]]]
"""What waits for the session's user under an id; raises Refused (broker.not_approved)."""


Decide: TypeAlias = Callable[..., Awaitable[object]]
"""Records the decision of the session's user; see `Broker.decide`."""


def approval_router(oidc: OIDC[Any, Any], find: Find, decide: Decide, seconds: int) -> APIRouter:
    """`/approvals/{id}`, for users who have authenticated in the last `seconds`."""
    router = APIRouter(include_in_schema=False)
    recently = Depends(oidc.require_recent(seconds))

    @router.get("/approvals/{id}")
    async def show(id: str, session: OIDCSession[Any] = recently) -> HTMLResponse:
        _, asked = await find(session, id)
        return document("Approve a call", _form(asked, oidc.csrf_token(session)))

    @router.post("/approvals/{id}", dependencies=[Depends(oidc.require_csrf)])
    async def decided(
        request: Request, id: str, session: OIDCSession[Any] = recently
    ) -> HTMLResponse:
        form = await form_of(request)
        approve, fingerprint = form.get("decision") == "approve", str(form.get("fingerprint"))
        await decide(session, id, fingerprint, approve=approve)
        told = "is sent now" if approve else "is not sent"
        body = f"<p>The call {told}. You can close this page.</p>"
        return document("Approved" if approve else "Refused", body)

    return router


def _form(asked: Approval, csrf: str) -> str:
    headers = "; ".join(f"{name}: {text}" for name, text in asked.headers)
    body, digest = asked.body, hashlib.sha256(asked.body).hexdigest()
    return (
        f"<p>{_shown(asked.machine)} wants to send this as you:</p>"
        f"<p><b>{_shown(asked.method)}</b> <code>{_shown(asked.url)}</code></p>"
        f"<p>{_shown(headers)}</p><p>Body: {len(body)} bytes, SHA-256 {digest}</p>"
        f"<pre>{_shown(body.decode('utf-8', 'backslashreplace'))}</pre>"
        f'<form method="post"><input type="hidden" name="{CSRF_FIELD}" value="{escape(csrf)}">'
        f'<input type="hidden" name="fingerprint" value="{asked.fingerprint}">'
        '<button name="decision" value="approve">Approve</button> '
        '<button name="decision" value="refuse">Refuse</button></form>'
    )


def _shown(text: str) -> str:
    """The text as HTML, with escapes for characters that hide or turn others."""
    return escape(
        "".join(
            each if each.isprintable() or each == "\n" else f"\\u{ord(each):04x}" for each in text
        )
    )
