"""The record of a session's token for another API: generation n has the n-th token."""

from __future__ import annotations

from fastapi_oidc.protocol.downstream import DownstreamAPI
from fastapi_oidc.protocol.issued_token import IssuedToken
from fastapi_oidc.session.records import RefreshRecord


def record_id(session_id: str, api: DownstreamAPI) -> str:
    """The record's name."""
    return f"{session_id}/{api.key(api.grant)}"


def token_in(record: RefreshRecord) -> IssuedToken | None:
    """The token of `record`, whatever its time; None before the first one."""
    return IssuedToken.decode(record.session) if record.session else None
