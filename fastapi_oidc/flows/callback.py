"""Complete a login: from the provider's answer to a kept session (OpenID Connect Core 3.1)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from fastapi_oidc.errors import Code, OIDCError, ProtocolViolation, ProviderError, SessionError
from fastapi_oidc.flows.confirm import confirmed
from fastapi_oidc.flows.endings import end_here, end_previous
from fastapi_oidc.flows.events import Event, EventName, refused
from fastapi_oidc.flows.evidence import Answer, CodeNotSent, evidence_of
from fastapi_oidc.flows.outcomes import Failed, Refused, SignedIn
from fastapi_oidc.flows.redemptions import Redemptions, name_of
from fastapi_oidc.flows.refresher import Refresher
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.renewal import begun, within_limit
from fastapi_oidc.flows.resume import living
from fastapi_oidc.flows.standing import Changes
from fastapi_oidc.protocol.authorization import AuthorizationCode, response_state
from fastapi_oidc.protocol.return_path import same_origin_path
from fastapi_oidc.session.keeper import Kept
from fastapi_oidc.session.model import Identity, LoginTransaction


@dataclass(frozen=True, slots=True)
class Callback:
    """What a browser brought back from the provider."""

    parameters: Mapping[str, Sequence[str]] = field(repr=False)
    cookies: Mapping[str, str] = field(repr=False)


async def complete_login(
    party: RelyingParty[Identity],
    refresher: Refresher[Identity],
    redemptions: Redemptions[Identity],
    callback: Callback,
) -> SignedIn[Identity] | Refused | Failed:
    """A session for a good answer, a refusal for any other; each uses the transaction up.

    While the provider cannot be asked, nothing is used up: a reload tries again.
    """
    used_up: Changes = ()
    silent = False
    try:
        state = response_state(callback.parameters)
        used_up = party.transactions.ended(state, callback.cookies)
        transaction = party.transactions.find(state, callback.cookies, now=party.clock.now())
        if transaction is None or transaction.issuer != party.policy.issuer:
            return await _without_transaction(party, callback, used_up)
        silent = transaction.silent
        code = await _code(party, callback, transaction)
        await party.provider.prepare_refresh()
        answer = Answer(code, callback.cookies, transaction)
        outcome = await redemptions.once(
            name_of(transaction), lambda: _redeemed(party, refresher, answer)
        )
        if isinstance(outcome, Refused) and outcome.may_be_retried:
            return outcome
        if isinstance(outcome, SignedIn):
            # The application may change an identity; what is kept, and remembered, stays as it is.
            outcome = replace(outcome, session=party.codec.copied(outcome.session))
        return replace(outcome, changes=used_up)
    except OIDCError as error:
        party.announcer(refused(EventName.LOGIN_REFUSED, error, party.clock.now()))
        return Refused(error, silent, () if isinstance(error, ProviderError) else used_up)


async def _code(
    party: RelyingParty[Identity], callback: Callback, transaction: LoginTransaction
) -> AuthorizationCode:
    metadata = await party.provider.metadata()
    return AuthorizationCode.parse(
        callback.parameters,
        state=transaction.state,
        issuer=party.policy.issuer,
        issuer_promised=metadata.promises_authorization_response_issuer,
        scope=party.policy.scope,
    )


async def _redeemed(
    party: RelyingParty[Identity], refresher: Refresher[Identity], answer: Answer
) -> SignedIn[Identity] | Refused | Failed:
    silent = answer.transaction.silent
    try:
        if silent:
            return await _confirm(party, refresher, answer)
        return await _sign_in(party, answer)
    except CodeNotSent as unsent:
        party.announcer(refused(EventName.LOGIN_REFUSED, unsent.error, party.clock.now()))
        return Refused(unsent.error, silent, may_be_retried=True)
    except OIDCError as error:
        party.announcer(refused(EventName.LOGIN_REFUSED, error, party.clock.now()))
        return Refused(error, silent)
    except Exception as error:
        explanation = f"the application raised {type(error).__name__}"
        party.announcer(Event(EventName.LOGIN_REFUSED, party.clock.now(), explanation=explanation))
        return Failed(error)


async def _without_transaction(
    party: RelyingParty[Identity], callback: Callback, changes: Changes
) -> SignedIn[Identity]:
    """A reload of an old callback: harmless when signed in already, else a way back to login."""
    kept = await living(party, callback.cookies)
    if kept is None:
        raise ProtocolViolation(
            Code.AUTHORIZATION_TRANSACTION_MISSING,
            "no cookie of this browser belongs to the state: expired, used, or begun elsewhere",
        )
    path = party.policy.default_return_path
    return SignedIn(kept.session, path, replayed=True, changes=changes)


async def _sign_in(party: RelyingParty[Identity], answer: Answer) -> SignedIn[Identity]:
    """A new session in a new place; the one that this browser had is over."""
    kept, is_ours = await _once_anywhere(party, answer)
    return_to = same_origin_path(
        answer.transaction.return_to, default=party.policy.default_return_path
    )
    return SignedIn(kept.session, return_to, replayed=not is_ours, kept=kept)


async def _once_anywhere(
    party: RelyingParty[Identity], answer: Answer
) -> tuple[Kept[Identity], bool]:
    """The new session, and whether it was made here and not in another process."""
    began = False

    async def begin() -> Kept[Identity]:
        nonlocal began
        began = True
        return await _new_session(party, answer)

    if party.shared is not None:
        try:
            return await party.shared.once(name_of(answer.transaction), begin), began
        except SessionError as error:
            # A lock that is down keeps nobody from signing in.
            if began or error.code is not Code.SESSION_LOCK_UNAVAILABLE:
                raise
    return await begin(), True


async def _new_session(party: RelyingParty[Identity], answer: Answer) -> Kept[Identity]:
    evidence, id_token = await evidence_of(party, answer)
    resolving = party.application.identity_of(
        id_token.claims, evidence.user_info, evidence.answer.access_token
    )
    session = begun(party, evidence, id_token, await within_limit(party, resolving))
    session = await within_limit(party, party.application.approved(session, "login"))
    kept = party.keeper.placed(session)
    party.keeper.cookies(kept, party.clock.now())  # refuses what no cookie can hold
    await party.keeper.save(kept)
    kept = await _after_revocations(party, kept)
    await _end_previous(party, answer.cookies, answer.transaction)
    party.announce(
        EventName.LOGIN_SUCCEEDED, sub=session.sub, session_id=session.id, sid=session.sid
    )
    return kept


async def _after_revocations(party: RelyingParty[Identity], kept: Kept[Identity]) -> Kept[Identity]:
    """A new session that no revocation of the second before it covers.

    The application's revocations are compared with `created_at`, in seconds. So a login in the
    very second of one waits for the next: a session that was dated ahead would outlive the next
    revocation.
    """
    found = await party.keeper.reread(kept)
    if found is None or found.ended != "revoked":
        return kept
    await next_second()
    later = kept.session.model_copy(update={"created_at": party.clock.now()})
    kept = Kept(later, kept.reference)
    await party.keeper.replace(kept)
    return kept


async def next_second() -> None:
    """Comes back when the clock shows another second."""
    await asyncio.sleep(1.0)


async def _end_previous(
    party: RelyingParty[Identity], cookies: Mapping[str, str], transaction: LoginTransaction
) -> None:
    """End the sessions that this browser has now and had when it began the login.

    They differ when a cross-site form post brought the answer, without the session cookie.
    """
    ended = await end_here(party, cookies)
    previous = transaction.previous
    if previous is None or (ended is not None and ended.session.id == previous.id):
        return
    await end_previous(party, previous, "signed_out")


async def _confirm(
    party: RelyingParty[Identity], refresher: Refresher[Identity], answer: Answer
) -> SignedIn[Identity]:
    """The session with new tokens, when the same end user answered (Session Management 3.1)."""
    evidence, id_token = await evidence_of(party, answer)
    kept = await confirmed(party, refresher, answer.cookies, evidence, id_token)
    return SignedIn(kept.session, "/", silent=True, kept=kept)
