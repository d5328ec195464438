"""Session JSON without the claims that its ID token has: they are read from the token again."""

from __future__ import annotations

import json
from typing import Final

from pydantic_core import from_json

from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.protocol.jose import base64url
from fastapi_oidc.session.model import SEALING, Identity, OIDCSession

MARK: Final = b"i"  # as no JSON begins
# The last such place in a session: in texts quotation marks are escaped, and what may have members
# of any name, the identity, stands before it.
_TOKENS: Final = b',"tokens":{"id_token":"'


def written_once(session: OIDCSession[Identity]) -> bytes | None:
    """The session without claims; None unless they are those of its ID token, in every respect."""
    try:
        claims = base64url.decode(session.tokens.id_token.split(".")[1])
        # As texts: for Python, 1 and True and 1.0 are equal.
        are_the_same = json.dumps(from_json(claims)) == json.dumps(session.claims)
    except (ValueError, IndexError):
        return None
    if not are_the_same:
        return None
    return MARK + session.model_dump_json(context=SEALING, exclude={"claims"}).encode()


def restored(encoded: bytes) -> bytes:
    """The whole JSON of what `written_once` wrote; raises SessionError (session.malformed).

    The payload is put in as the issuer wrote it, JSON text that is parsed once with the rest.
    """
    try:
        place = encoded.rindex(_TOKENS)
        start = encoded.index(b".", place) + 1
        claims = base64url.decode(encoded[start : encoded.index(b".", start)].decode())
    except ValueError:
        raise SessionError(Code.SESSION_MALFORMED, "tokens.id_token: no JWT") from None
    return b"".join((encoded[1:place], b',"claims":', claims, encoded[place:]))
