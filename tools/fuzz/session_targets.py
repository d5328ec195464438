"""What a browser sends as cookies, sealed by us or not."""

from __future__ import annotations

import zlib
from contextlib import suppress
from typing import Final

from fastapi_oidc import StandardIdentity
from fastapi_oidc.errors import SessionError
from fastapi_oidc.session.cookies import CookieNames, KeyRing, TransactionCookies
from fastapi_oidc.session.session_cookie import SessionCodec, SessionCookie
from fastapi_oidc.web.requests import own_cookies

NAMES: Final = CookieNames("oidc", secure=True)
SEALER: Final = KeyRing(["a secret of this target and no other"]).sealer("session")
CODEC: Final = SessionCodec(StandardIdentity)
COOKIE: Final = SessionCookie(CODEC, SEALER, NAMES)
TRANSACTIONS: Final = TransactionCookies(SEALER, NAMES)
STATE: Final = "state-1"
NOW: Final = 1_800_000_000


def cookie_header(data: bytes) -> None:
    """One header line for each line; only our cookies are read."""
    headers = [(b"cookie", line) for line in data.split(b"\n")]
    found = own_cookies(headers, NAMES)
    assert all(NAMES.is_ours(name) for name in found)


def sealed_session(data: bytes) -> None:
    """A cookie that somebody made up, and content in each form that another version has sealed."""
    deflated = zlib.compress(data, wbits=-zlib.MAX_WBITS)
    contents = (data, b"d" + deflated, b"j" + deflated)
    sealed = (SEALER.seal(content, name=NAMES.session) for content in contents)
    for value in (data.decode("latin-1"), *sealed):
        with suppress(SessionError):
            session = COOKIE.open(value).session
            assert session is not None
            again = COOKIE.open(COOKIE.seal(session, CODEC.encode(session), 0, b"")).session
            assert session == again


def transaction(data: bytes) -> None:
    """A pending login: broken ones are not found, and leave when the next login begins."""
    name = NAMES.transaction(STATE)
    for value in (data.decode("latin-1"), SEALER.seal(data, name=name)):
        pending = TRANSACTIONS.find(STATE, {name: value}, now=NOW)
        if pending is not None:
            changes = TRANSACTIONS.begun(pending, {name: value})
            assert changes[-1].value is not None
