"""The check_session_iframe (Session Management 1.0, 3.2)."""

from __future__ import annotations

import json

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from fastapi_oidc.testing.pages import source_hash
from fastapi_oidc.testing.state import ProviderState

_SCRIPT = """
const cookie = %s;

function browserState() {
  const pair = document.cookie.split("; ").find((one) => one.startsWith(cookie + "="));
  return pair === undefined ? "" : pair.slice(cookie.length + 1);
}

async function sessionState(clientId, origin, salt) {
  const text = new TextEncoder().encode(`${clientId} ${origin} ${browserState()} ${salt}`);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", text));
  const encoded = btoa(String.fromCharCode(...digest));
  return encoded.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "") + "." + salt;
}

addEventListener("message", async (event) => {
  if (event.source === null || event.source === window) return;
  const parts = typeof event.data === "string" ? event.data.split(" ") : [];
  const salt = parts.length === 2 ? parts[1].split(".")[1] : undefined;
  if (!parts[0] || !salt) return event.source.postMessage("error", event.origin);
  const expected = await sessionState(parts[0], event.origin, salt);
  event.source.postMessage(expected === parts[1] ? "unchanged" : "changed", event.origin);
});
"""


async def check_session(op: ProviderState, request: Request) -> Response:
    """The page whose script answers `changed`, `unchanged` or `error` to its parent."""
    script = _SCRIPT % json.dumps(op.sessions.browser_state_cookie)
    policy = f"default-src 'none'; script-src {source_hash(script)}"
    body = f"<!doctype html><title>Session check</title><script>{script}</script>"
    return HTMLResponse(body, headers={"Content-Security-Policy": policy})
