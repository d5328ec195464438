"""Complete a login: from the provider's answer to a kept session (OpenID Connect Core 3.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fastapi_oidc.errors import Code, OIDCError, ProtocolViolation, SessionError
from fastapi_oidc.flows.events import Event, EventName, refused
from fastapi_oidc.flows.outcomes import Changes, Failed, Refused, SignedIn
from fastapi_oidc.flows.refresher import Refresher
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.renewal import Evidence, approved, begun, renewed
from fastapi_oidc.flows.resume import end_previous, forget, living
from fastapi_oidc.protocol.authorization import AuthorizationCode, response_state
from fastapi_oidc.protocol.id_token import Expected, IdToken, accept_id_token
from fastapi_oidc.protocol.return_path import same_origin_path
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.session.keeper import Kept
from fastapi_oidc.session.model import Identity, LoginTransaction


@dataclass(frozen=True, slots=True)
class _Answer:
    """One answer of the provider to one login of this browser."""

    parameters: Mapping[str, Sequence[str]] = field(repr=False)
    cookies: Mapping[str, str] = field(repr=False)
    transaction: LoginTransaction


async def complete_login(
    party: RelyingParty[Identity],
    refresher: Refresher[Identity],
    parameters: Mapping[str, Sequence[str]],
    cookies: Mapping[str, str],
) -> SignedIn[Identity] | Refused | Failed:
    """A session for a good answer, a refusal for any other; each uses the transaction up."""
    changes: Changes = ()
    silent = False
    try:
        state = response_state(parameters)
        changes = (party.transactions.ended(state),)
        transaction = party.transactions.find(state, cookies, now=party.clock.now())
        if transaction is None or transaction.issuer != party.policy.issuer:
            return await _without_transaction(party, cookies, changes)
        silent = transaction.silent
        answer = _Answer(parameters, cookies, transaction)
        return await (_confirm if silent else _sign_in)(party, refresher, answer, changes)
    except OIDCError as error:
        party.announcer(refused(EventName.LOGIN_REFUSED, error, party.clock.now()))
        return Refused(error, silent, changes)
    except Exception as error:
        explanation = f"the application raised {type(error).__name__}"
        party.announcer(Event(EventName.LOGIN_REFUSED, party.clock.now(), explanation=explanation))
        return Failed(error, changes)


async def _without_transaction(
    party: RelyingParty[Identity], cookies: Mapping[str, str], changes: Changes
) -> SignedIn[Identity]:
    """A reload of an old callback: harmless when signed in already, else a way back to login."""
    kept = await living(party, cookies)
    if kept is None:
        raise ProtocolViolation(
            Code.AUTHORIZATION_TRANSACTION_MISSING,
            "no cookie of this browser belongs to the state: expired, used, or begun elsewhere",
        )
    path = party.policy.default_return_path
    return SignedIn(kept.session, path, replayed=True, changes=changes)


async def _sign_in(
    party: RelyingParty[Identity],
    refresher: Refresher[Identity],
    answer: _Answer,
    changes: Changes,
) -> SignedIn[Identity]:
    """A new session in a new place; the one that this browser had is no longer kept."""
    evidence, id_token = await _evidence(party, answer)
    identity = await party.application.identity_of(id_token.claims, evidence.user_info)
    session = begun(party, evidence, id_token, identity)
    session = await party.application.approved(session, "login")
    kept = party.keeper.placed(session)
    cookies = party.keeper.cookies(kept, party.clock.now())
    await party.keeper.save(kept)
    await end_previous(party, refresher, answer.cookies)
    party.announce(
        EventName.LOGIN_SUCCEEDED, sub=session.sub, session_id=session.id, sid=session.sid
    )
    default = party.policy.default_return_path
    return_to = same_origin_path(answer.transaction.return_to, default=default)
    return SignedIn(session, return_to, changes=(*cookies, *changes))


async def _confirm(
    party: RelyingParty[Identity],
    refresher: Refresher[Identity],
    answer: _Answer,
    changes: Changes,
) -> SignedIn[Identity]:
    """The session with new tokens, when the same end user answered (Session Management 3.1)."""
    evidence, id_token = await _evidence(party, answer)
    kept = await living(party, answer.cookies)
    if kept is None:
        raise SessionError(Code.SESSION_REQUIRED, "the session ended while it was being confirmed")
    if kept.session.sub != id_token.sub:
        raise ProtocolViolation(Code.AUTHORIZATION_OTHER_USER)
    kept = refresher.newest(kept)
    successor = await approved(party, renewed(party, kept.session, evidence), evidence)
    kept = Kept(successor, kept.reference)
    cookies = party.keeper.cookies(kept, party.clock.now())
    await party.keeper.save(kept)
    if refresher.has_ended(successor):
        await forget(party, kept)
        raise SessionError(Code.SESSION_SIGNED_OUT, "signed out while it was being confirmed")
    party.announce(EventName.SESSION_REFRESHED, sub=successor.sub, session_id=successor.id)
    return SignedIn(successor, "/", silent=True, changes=(*cookies, *changes))


async def _evidence(party: RelyingParty[Identity], answer: _Answer) -> tuple[Evidence, IdToken]:
    """What the provider says of the end user, once every rule has accepted it."""
    metadata = await party.provider.metadata()
    code = AuthorizationCode.parse(
        answer.parameters,
        state=answer.transaction.state,
        issuer=party.policy.issuer,
        issuer_promised=metadata.promises_authorization_response_issuer,
    )
    tokens = await party.provider.exchange_code(
        code, answer.transaction.redirect_uri, answer.transaction.code_verifier
    )
    id_token = await _accepted(party, tokens, answer.transaction)
    user_info = None
    if party.policy.fetch_userinfo:
        user_info = await party.provider.userinfo(tokens.access_token, sub=id_token.sub)
    session_state = code.session_state or tokens.session_state
    return Evidence(tokens, id_token, user_info, session_state), id_token


async def _accepted(
    party: RelyingParty[Identity], tokens: TokenResponse, transaction: LoginTransaction
) -> IdToken:
    verified = await party.provider.verify(tokens.required_id_token())
    expected = Expected(
        issuer=party.policy.issuer,
        client_id=party.policy.client_id,
        trusted_audiences=party.policy.trusted_audiences,
        nonce=transaction.nonce,
        access_token=tokens.access_token,
        algorithm=verified.algorithm,
        max_age=transaction.max_age,
    )
    return accept_id_token(verified.claims, expected, party.clock.instant())
