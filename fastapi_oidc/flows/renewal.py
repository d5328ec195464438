"""From what the provider said to the session that is kept: at login and at every refresh."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from fastapi_oidc.errors import SessionError
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.protocol.id_token import IdToken
from fastapi_oidc.protocol.json import JSON
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.session.model import Identity, OIDCSession, Tokens

_logger = logging.getLogger("fastapi_oidc.session")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the provider says of the end user, rules applied; a refresh may lack an ID token."""

    answer: TokenResponse = field(repr=False)
    id_token: IdToken | None
    user_info: Mapping[str, JSON] | None
    session_state: str | None


def begun(
    party: RelyingParty[Identity], evidence: Evidence, id_token: IdToken, identity: Identity
) -> OIDCSession[Identity]:
    """The session of a new login; its absolute end is fixed here."""
    now = party.clock.now()
    return OIDCSession(
        id=secrets.token_urlsafe(16),
        issuer=id_token.iss,
        client_id=party.policy.client_id,
        sub=id_token.sub,
        identity=identity,
        claims=dict(id_token.claims),
        tokens=_tokens(party, evidence, None),
        sid=id_token.sid,
        session_state=evidence.session_state,
        auth_time=id_token.auth_time,
        nonce=id_token.nonce,
        audiences=id_token.aud,
        azp=id_token.azp,
        created_at=now,
        # The provider's clock, because revocations are compared with it.
        authenticated_at=id_token.iat,
        expires_at=now + party.policy.session_lifetime,
    )


def renewed(
    party: RelyingParty[Identity], session: OIDCSession[Identity], evidence: Evidence
) -> OIDCSession[Identity]:
    """`session` with new tokens; who it is and when it ends stay as they were."""
    changes: dict[str, object] = {
        "tokens": _tokens(party, evidence, session.tokens),
        "session_state": evidence.session_state or session.session_state,
        "generation": session.generation + 1,
        "refreshed_at": party.clock.now(),
    }
    if evidence.id_token is not None:
        changes["claims"] = dict(evidence.id_token.claims)
        changes["sid"] = evidence.id_token.sid or session.sid
    return session.model_copy(update=changes)


async def approved(
    party: RelyingParty[Identity], session: OIDCSession[Identity], evidence: Evidence
) -> OIDCSession[Identity]:
    """`session` with the identity resolved anew, as the application wants it kept.

    The old refresh token may be used up by now, so a failing callback must not lose the new one:
    the error is logged and the session goes on with the identity it had. A SessionError is meant:
    it ends the session.
    """
    try:
        identity = await party.application.identity_of(session.claims, evidence.user_info)
        resolved = session.model_copy(update={"identity": identity})
        return await party.application.approved(resolved, "refresh")
    except SessionError:
        raise
    except Exception:
        _logger.exception("a callback raised during a refresh of session %s", session.id)
        return session


def _tokens(party: RelyingParty[Identity], evidence: Evidence, previous: Tokens | None) -> Tokens:
    """RFC 6749 5.1 and 6: what an answer leaves out stays as it was."""
    answer = evidence.answer
    lifetime = answer.expires_in
    return Tokens(
        id_token=answer.id_token or (previous.id_token if previous else ""),
        access_token=answer.access_token,
        refresh_token=answer.refresh_token or (previous.refresh_token if previous else None),
        expires_at=None if lifetime is None else party.clock.now() + lifetime,
        scope=_scope(party, answer, previous),
    )


def _scope(
    party: RelyingParty[Identity], answer: TokenResponse, previous: Tokens | None
) -> tuple[str, ...]:
    if answer.scope is not None:
        return answer.scope
    return previous.scope if previous else party.policy.scope
