"""The provider's pages: plain HTML, no script but the one that submits a form."""

from __future__ import annotations

import base64
import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from urllib.parse import urlsplit

from starlette.responses import HTMLResponse

from fastapi_oidc.testing.messages import NO_STORE, Refusal
from fastapi_oidc.testing.registration import DevUser
from fastapi_oidc.testing.state import AuthorizationRequest

STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --soft: #5b6577; --line: #d9dee7;
  --paper: #fff; --ground: #eef1f6; --accent: #2557d6; --warn: #7a4b00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ecf4; --soft: #a3adbf; --line: #364054;
  --paper: #1b2230; --ground: #10151f; --accent: #8fb0ff; --warn: #f0c36d; } }
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; display: flex; flex-direction: column; gap: 1rem;
  align-items: center; justify-content: center; padding: 1rem; background: var(--ground);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { width: 100%; max-width: 25rem; padding: 2rem; background: var(--paper);
  border: 1px solid var(--line); border-radius: 16px; box-shadow: 0 12px 40px #0000001a; }
h1 { margin: 0; font-size: 1.5rem; }
.to { margin: .25rem 0 1.5rem; color: var(--soft); overflow-wrap: anywhere; }
a { color: var(--accent); }
button { font: inherit; color: inherit; cursor: pointer; border-radius: 12px; width: 100%; }
button:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.person { display: flex; align-items: center; gap: .75rem; margin-bottom: .5rem; padding: .6rem;
  text-align: left; background: none; border: 1px solid var(--line); }
.person:hover { border-color: var(--accent); }
.name { flex: 1; min-width: 0; overflow-wrap: anywhere; }
.name small { display: block; color: var(--soft); }
.face { display: grid; place-items: center; width: 2.5rem; height: 2.5rem; flex: none;
  border-radius: 50%; color: #fff; font-weight: 600; }
.hue0 { background: #2f5fb3; } .hue1 { background: #7b3fa0; } .hue2 { background: #a63a50; }
.hue3 { background: #1f7a55; } .hue4 { background: #8a5a00; } .hue5 { background: #2b6f84; }
.role { padding: .1rem .6rem; border: 1px solid var(--line); border-radius: 99px;
  color: var(--soft); font-size: .8rem; }
.main { padding: .7rem; background: #2557d6; border: 0; color: #fff; font-weight: 600; }
.quiet { margin-top: .5rem; padding: .5rem; background: none; border: 0; color: var(--soft); }
footer { color: var(--warn); font-size: .85rem; text-align: center; }
"""
"""The style sheet, sent inline and allowed by its hash."""


_log = logging.getLogger("fastapi_oidc.testing")

_SUBMIT = "document.forms[0].submit()"
_HUES = 6

FRAMES_LOAD = 2
"""Seconds for the frames of a logout to load."""

PAGE_HEADER = "DevProvider-Page"
"""The header of a page whose first form must be submitted to continue."""


def source_hash(text: str) -> str:
    """The Content-Security-Policy source that allows exactly this inline text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def welcome() -> HTMLResponse:
    """The page at the issuer's address."""
    return _page(
        "A provider for development",
        "<h1>DevProvider</h1><p class='to'>Open your application: it sends you here to sign in.</p>"
        '<p><a href=".well-known/openid-configuration">Metadata of this provider</a></p>',
    )


def login(users: Iterable[DevUser], asked: AuthorizationRequest, login_name: str) -> HTMLResponse:
    """The login page, on which a user is chosen."""
    people = "".join(_person(user, suggested=user.sub == asked.login_hint) for user in users)
    where = urlsplit(asked.address.redirect_uri).netloc
    hidden = _hidden("login", login_name)
    return _page(
        "Sign in",
        f"""<h1>Sign in</h1>
<p class="to">to <strong>{escape(asked.client.client_id)}</strong> at {escape(where)}</p>
<form method="post" action="log-in">{hidden}{people}</form>
<form method="post" action="decline">{hidden}
<button class="quiet">Do not sign in</button></form>""",
        asks="login",
    )


def confirm_logout(user: DevUser, logout_name: str) -> HTMLResponse:
    """The confirmation of a sign-out, for a request without a valid ID token hint."""
    return _page(
        "Sign out",
        f"""<h1>Sign out?</h1>
<p class="to">You are signed in as <strong>{escape(user.display_name)}</strong>.</p>
<form method="post" action="confirm-logout">{_hidden("logout", logout_name)}
<button class="main">Sign out</button></form>""",
        asks="logout",
    )


def signed_out(frames: Sequence[str] = (), return_url: str | None = None) -> HTMLResponse:
    """The last page of a logout. It loads `frames` before it redirects to `return_url`."""
    onward = "You can close this page."
    if return_url is not None:
        link = escape(return_url)
        refresh = f'<meta http-equiv="refresh" content="{FRAMES_LOAD};url={link}">'
        onward = f'{refresh}<a href="{link}">Continue</a>'
    loaded = "".join(f'<iframe src="{escape(url)}" hidden></iframe>' for url in frames)
    content = f"<h1>Signed out</h1><p class='to'>{onward}</p>{loaded}"
    return _page("Signed out", content, framed=[origin(url) for url in frames])


def origin(url: str) -> str:
    """Scheme, host and port of `url`."""
    return "{0.scheme}://{0.netloc}".format(urlsplit(url))


def refusal(refused: Refusal) -> HTMLResponse:
    """An error that cannot be sent to the client."""
    page = _page(
        "Request refused",
        f"<h1>Request refused</h1><p class='to'><code>{escape(refused.error)}</code></p>"
        f"<p>{escape(refused.description)}</p>",
    )
    page.status_code = refused.status
    _log.warning("DevProvider refused a request: %s", refused)
    return page


def form_post(redirect_uri: str, parameters: Mapping[str, str]) -> HTMLResponse:
    """A form that submits itself to the client (Form Post Response Mode 2)."""
    hidden = "".join(_hidden(name, value) for name, value in parameters.items())
    return _page(
        "Signing in",
        f"""<form method="post" action="{escape(redirect_uri)}">{hidden}
<noscript><button class="main">Continue</button></noscript></form><script>{_SUBMIT}</script>""",
        asks="form_post",
    )


def _person(user: DevUser, *, suggested: bool) -> str:
    hue = sum(user.sub.encode()) % _HUES
    initials = "".join(word[0] for word in user.display_name.split()[:2]).upper()
    roles = user.claims.get("roles")
    marks = "".join(
        f'<span class="role">{escape(str(role))}</span>'
        for role in (roles if isinstance(roles, list) else ())
    )
    return f"""
<button class="person" name="user" value="{escape(user.sub)}"{" autofocus" * suggested}>
<span class="face hue{hue}" aria-hidden="true">{escape(initials)}</span>
<span class="name">{escape(user.display_name)}<small>{escape(user.email or user.sub)}</small></span>
{marks}</button>"""


def _hidden(name: str, value: str) -> str:
    return f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">'


def _page(title: str, content: str, *, asks: str = "", framed: Sequence[str] = ()) -> HTMLResponse:
    frames = f"frame-src {' '.join(framed)}; " if framed else ""
    policy = (
        f"default-src 'none'; style-src {source_hash(STYLE)}; script-src {source_hash(_SUBMIT)}; "
        f"{frames}img-src data:; base-uri 'none'; frame-ancestors 'none'"
    )
    body = f"""<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} · DevProvider</title><link rel="icon" href="data:,"><style>{STYLE}</style></head>
<body>
<main>{content}</main>
<footer><strong>For development only.</strong> There are no passwords here.</footer>
</body></html>"""
    marked = {PAGE_HEADER: asks} if asks else {}
    return HTMLResponse(body, headers=NO_STORE | marked | {"Content-Security-Policy": policy})
