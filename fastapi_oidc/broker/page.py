"""The page on which a person confirms a call that waits."""

from __future__ import annotations

import hashlib
from html import escape
from typing import Any, Final

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse

from fastapi_oidc.broker.approvals import Approvals
from fastapi_oidc.broker.rules import Approval
from fastapi_oidc.oidc import OIDC
from fastapi_oidc.session.model import OIDCSession
from fastapi_oidc.web.csrf import CSRF_FIELD
from fastapi_oidc.web.dependencies import form_of
from fastapi_oidc.web.pages import HEADERS_OF_FORM, STYLE

_PAGE: Final = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
    "<style>{style}</style></head><body><main><h1>{title}</h1>{content}</main></body></html>"
)
_FORM: Final = (
    "<p>{machine} wants to send this as you:</p><p><b>{method}</b> <code>{url}</code></p>"
    "<p>{headers}</p><p>Body: {size} bytes, SHA-256 {digest}</p><pre>{body}</pre>"
    '<form method="post"><input type="hidden" name="{csrf_field}" value="{csrf}">'
    '<input type="hidden" name="fingerprint" value="{fingerprint}">'
    '<button name="decision" value="approve">Approve</button> '
    '<button name="decision" value="refuse">Refuse</button></form>'
)


def approval_router(oidc: OIDC[Any, Any], approvals: Approvals, seconds: int) -> APIRouter:
    """`/approvals/{id}`, for users who have authenticated in the last `seconds`."""
    router = APIRouter(include_in_schema=False)
    recently = Depends(oidc.require_recent(seconds))

    @router.get("/approvals/{id}")
    async def show(id: str, session: OIDCSession[Any] = recently) -> HTMLResponse:
        found = await approvals.find(session, id)
        return _page("Approve a call", _form(found, oidc.csrf_token(session)))

    @router.post("/approvals/{id}", dependencies=[Depends(oidc.require_csrf)])
    async def decide(
        request: Request, id: str, session: OIDCSession[Any] = recently
    ) -> HTMLResponse:
        form = await form_of(request)
        approve, fingerprint = form.get("decision") == "approve", str(form.get("fingerprint"))
        await approvals.decide(session, id, fingerprint, approve=approve)
        return _page("Approved" if approve else "Refused", "")

    return router


def _form(asked: Approval, csrf: str) -> str:
    shown = {
        "machine": asked.machine,
        "method": asked.method,
        "url": asked.url,
        "headers": "; ".join(f"{name}: {text}" for name, text in asked.headers),
        "size": str(len(asked.body)),
        "digest": hashlib.sha256(asked.body).hexdigest(),
        "body": asked.body.decode("utf-8", "backslashreplace"),
        "csrf_field": CSRF_FIELD,
        "csrf": csrf,
        "fingerprint": asked.fingerprint,
    }
    return _FORM.format(**{name: escape(_visible(text)) for name, text in shown.items()})


def _visible(text: str) -> str:
    """The text with escapes for characters that hide or turn others."""
    return "".join(
        each if each.isprintable() or each == "\n" else f"\\u{ord(each):04x}" for each in text
    )


def _page(title: str, content: str) -> HTMLResponse:
    html = _PAGE.format(title=title, style=STYLE, content=content)
    return HTMLResponse(html, headers=HEADERS_OF_FORM)
