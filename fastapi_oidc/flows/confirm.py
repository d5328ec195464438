"""Renew a session by the provider's silent answer (Session Management 1.0 3.1)."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi_oidc.errors import Code, ProtocolViolation, SessionError
from fastapi_oidc.flows.refresh import fitting
from fastapi_oidc.flows.refresh_outcomes import Outcome, Postponed, Renewed
from fastapi_oidc.flows.refresher import Refresher
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.renewal import Evidence, reauthenticated, renewed
from fastapi_oidc.flows.resume import living
from fastapi_oidc.protocol.id_token import IdToken
from fastapi_oidc.session.keeper import Kept
from fastapi_oidc.session.model import Identity


async def confirmed(
    party: RelyingParty[Identity],
    refresher: Refresher[Identity],
    cookies: Mapping[str, str],
    evidence: Evidence,
    id_token: IdToken,
) -> Kept[Identity]:
    """The session of these cookies with the tokens of the silent answer, kept.

    Raises SessionError when it ended meanwhile, ProtocolViolation (authorization.other_user).
    """
    kept = await living(party, cookies)
    if kept is None:
        raise SessionError(Code.SESSION_REQUIRED, "the session ended while it was being confirmed")
    if kept.session.sub != id_token.sub:
        raise ProtocolViolation(Code.AUTHORIZATION_OTHER_USER)

    async def by_answer(current: Kept[Identity]) -> Kept[Identity]:
        session = renewed(party, current.session, evidence)
        # The refresh token decides with which ID token later ones are compared.
        if evidence.answer.refresh_token is not None:
            session = reauthenticated(session, id_token)
        return await fitting(party, current, session, evidence)

    if evidence.answer.refresh_token is None:
        # It keeps that of the session, which may be used up by an answer that waits.
        kept = party.register.newest(kept)
        if await refresher.has_presented(kept):
            kept = _successor(await refresher.renew(kept))
    return _successor(await refresher.succeed(kept, by_answer))


def _successor(outcome: Outcome[Identity]) -> Kept[Identity]:
    match outcome:
        case Renewed(successor):
            return successor
        case Postponed():
            raise SessionError(
                Code.SESSION_REFRESH_POSTPONED, "the session cannot be renewed right now"
            )
        case _:
            raise SessionError(
                Code.SESSION_SIGNED_OUT, "the session ended while it was being confirmed"
            )
