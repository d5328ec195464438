"""From a code to the session after a login: a new one, or the next generation of the browser's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from fastapi_oidc.errors import Code, OIDCError, ProtocolViolation, ProviderError, SessionError
from fastapi_oidc.events import EventName
from fastapi_oidc.flows import resume, revocation, token_sessions
from fastapi_oidc.flows.endings import Ending
from fastapi_oidc.flows.refresh import replace_session
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.sessions import ANY_EPOCH, Found, Live, Over, Prepared
from fastapi_oidc.flows.token_sessions import LoginTokens
from fastapi_oidc.protocol import authorization, dpop, id_token, token
from fastapi_oidc.session import revocations
from fastapi_oidc.session.model import AnySession, LoginTransaction, SteppedUp
from fastapi_oidc.session.session_cookie import Copy

_OFFLINE: Final = (
    "the provider issued no refresh token, so that access tokens soon expire, and calls to APIs "
    "fail then. It offers offline_access: add it to scope, unless you call no APIs"
)


class CodeNotSent(Exception):
    """This process has not sent the code: no connection, or another process may have sent it.

    It is made of the OIDCError that says why.
    """


@dataclass(frozen=True, slots=True)
class Login:
    """A callback with its pending login."""

    party: RelyingParty
    code: authorization.AuthorizationCode = field(repr=False)
    cookies: Mapping[str, str] = field(repr=False)
    transaction: LoginTransaction

    async def sign_in(self, before_sending: Callable[[], None]) -> Live:
        """The session of this login: a new one, after which the browser's former one ends.

        After a silent login or a step-up it is the next generation of the browser's session.
        `before_sending` may raise SessionError right before the code is sent. The code is used up
        unless CodeNotSent is raised. Raises SessionError when the session that a silent login
        confirms has ended in the meantime, ProtocolViolation (authorization.other_user) for another
        user.
        """
        party, key = self.party, await self._proof_key()
        tokens = await self._exchange_code(key, before_sending)
        received_at = party.clock.now()
        # The provider's keys are fetched now: its response may name a new key.
        bundle = LoginTokens(tokens, await self._accept_id_token(tokens), None, received_at, key)
        new = token_sessions.new_session(party, bundle)
        try:
            await self._advise_on_tokens(tokens)
            # Before everything that a revocation may be about, such as the user's roles.
            found = await party.sessions.cells.read(revocations.keys_of(new))
            stamps = revocations.stamps_in(new, found)
            changes = {"prior_revocations": stamps, "stepped_up": self._requirements()}
            new = new.model_copy(update=changes)
            if party.settings.fetch_userinfo:
                user_info = await party.provider.userinfo(tokens.access_token, sub=new.sub, key=key)
                bundle = replace(bundle, user_info=user_info)
            if self.transaction.silent:
                return await self._confirm(bundle)
            copy = self._copy_before()
            before = None if copy is None else await party.sessions.judge(copy)
            continued = await self._step_up(before, bundle)
            live = continued or await party.sessions.begin(
                await token_sessions.with_callbacks(party, new, bundle, "login")
            )
        except Exception:
            await self._discard(new)
            raise
        if continued is None:
            await self._end_previous(before, live)
        session = live.session
        party.announcer.announce(
            EventName.LOGIN_SUCCEEDED, sub=session.sub, session_id=session.id, sid=session.sid
        )
        return live

    async def _advise_on_tokens(self, tokens: token.TokenResponse) -> None:
        """Advise the scope offline_access if a login got no refresh token (Core 11)."""
        if tokens.refresh_token is None and "offline_access" not in self.party.settings.scope:
            with suppress(OIDCError):
                if (await self.party.provider.metadata()).offers_offline_access:
                    self.party.announcer.advise("scope", _OFFLINE)

    async def _exchange_code(
        self, key: dpop.DPoPKey | None, before_sending: Callable[[], None]
    ) -> token.TokenResponse:
        transaction = self.transaction
        grant = token.authorization_code_grant(
            self.code, transaction.redirect_uri, transaction.code_verifier
        )
        try:
            obtaining = self.party.provider.obtain(grant, key=key, before_sending=before_sending)
            tokens = await obtaining
        except SessionError as error:  # of `before_sending`
            raise CodeNotSent(error) from error
        except ProviderError as error:
            if error.is_unsent:
                raise CodeNotSent(error) from error
            raise
        # Without a scope it is the requested one (RFC 6749 5.1).
        scope = transaction.scope if tokens.scope is None else tokens.scope
        state = self.code.session_state or tokens.session_state
        return replace(tokens, scope=scope, session_state=state)

    async def _proof_key(self) -> dpop.DPoPKey | None:
        """The key for the new tokens; a silent login uses the session's key.

        The session's refresh token may stay the same, and it is bound to that key (RFC 9449 5).
        """
        if not self.party.settings.dpop:
            return None
        live = await resume.current(self.party, self.cookies) if self.transaction.silent else None
        return dpop.DPoPKey.new() if live is None else live.session.tokens.proof_key()

    async def _accept_id_token(self, tokens: token.TokenResponse) -> id_token.IdToken:
        party, transaction = self.party, self.transaction
        verified = await party.provider.verify(tokens.required_id_token())
        expected = replace(
            party.expected,
            algorithm=verified.algorithm,
            access_token=tokens.access_token,
            nonce=transaction.nonce,
            max_age=transaction.max_age,
            acr_values=transaction.acr_values,
        )
        return id_token.accept_id_token(verified.claims, expected, party.clock.instant())

    def _copy_before(self) -> Copy | None:
        """The browser's copy of its session: the request's, or the one from when the login began.

        A callback that is a cross-site form post has no session cookie.
        """
        previous = self.transaction.previous
        copy = self.party.sessions.copy_in(self.cookies)
        if copy is None and previous is not None:
            secret = bytes.fromhex(previous.secret)
            copy = Copy(previous.id, (), previous.epoch, previous.expires_at, secret=secret)
        return copy

    async def _discard(self, refused: AnySession) -> None:
        """Revoke the tokens of a refused login, unless the browser's session may share them.

        Or the session may that has replaced it meanwhile.
        """
        copy = self._copy_before()
        with suppress(SessionError):  # of a store that fails: the session may continue
            # Also for a copy from before another step-up: its session continues.
            before = copy and await self.party.sessions.judge(copy._replace(epoch=ANY_EPOCH))
            match before:
                case Over(keeps_grant=True):
                    return
                case Live(session) if revocation.may_share_grant(refused, session):
                    return
            await revocation.discard(self.party, refused, refused.tokens.refresh_token)

    async def _step_up(self, before: Found, bundle: LoginTokens) -> Live | None:
        """The next generation of the same user's session; None unless a step-up continues it.

        Its copy may be from before the step-up of another tab: its user has authenticated again.
        Earlier copies of its cookie are refused from now on: somebody else may have one.
        """
        if before is None or not self.transaction.steps_up:
            return None
        copy = before.copy._replace(epoch=ANY_EPOCH)
        if isinstance(before, Over) and before.is_refused:
            before = await self.party.sessions.judge(copy)
        live = resume.unless_ended(self.party, before)
        if live is None or not self._is_of(live, bundle.id_token):
            return None
        return await self._replaced(replace(live, copy=copy), bundle)

    def _is_of(self, live: Live, user: id_token.IdToken) -> bool:
        """Whether the session is of the same user: `sub` alone is not unique (Core 5.7)."""
        session = live.session
        is_registered_here = session.client_id == self.party.settings.client_id
        return is_registered_here and (session.issuer, session.sub) == (user.iss, user.sub)

    def _requirements(self) -> SteppedUp | None:
        """What this login required, None without requirements of its own."""
        transaction, now = self.transaction, self.party.clock.now()
        if not transaction.steps_up:
            return None
        return SteppedUp(at=now, max_age=transaction.max_age, acr_values=transaction.acr_values)

    async def _replaced(self, before: Live, bundle: LoginTokens) -> Live:
        """The session's next generation, with the tokens of this login."""

        async def make(now: Live) -> Prepared:
            made = token_sessions.with_new_tokens(self.party, now.session, bundle)
            session = self._with_login(made, bundle)
            return await token_sessions.apply_callbacks(self.party, now, session, bundle)

        outcome = await replace_session(self.party, before, make)
        live = resume.live_after(self.party, before, outcome)
        return replace(live, copy=live.copy._replace(epoch=live.seen.row.epoch))

    def _with_login(self, session: AnySession, bundle: LoginTokens) -> AnySession:
        is_silent, refresh_token = self.transaction.silent, bundle.response.refresh_token
        # Later ID tokens are compared with the ID token that came with the refresh token.
        if refresh_token is not None or not is_silent:
            session = token_sessions.with_new_login(session, bundle.id_token)
        if is_silent:
            return session
        # The refresh token of the login before would bring ID tokens of that login (Core 12.2).
        tokens = session.tokens.model_copy(update={"refresh_token": refresh_token})
        changes = {
            "authenticated_at": bundle.id_token.iat,
            "tokens": tokens,
            "stepped_up": self._requirements(),
            "epoch": session.generation,
        }
        return session.model_copy(update=changes)

    async def _end_previous(self, before: Found, live: Live) -> None:
        """End the session that the browser had, and the one that it had when the login began.

        A copy from before a step-up ends nothing: somebody else may have it.
        """
        if isinstance(before, Over) and before.is_refused:
            return
        party, previous, last = self.party, self.transaction.previous, None
        if isinstance(before, Live):
            last = before.session
            shares = revocation.may_share_grant(last, live.session)
            row = await party.sessions.end(Ending(last.id, "signed_out", last.last_end, shares))
            if not shares:
                newest = party.sessions.newest(last, row) or last
                await revocation.discard(party, newest, newest.tokens.refresh_token)
        if previous is not None and (last is None or previous.id != last.id):
            await party.sessions.end(Ending(previous.id, "signed_out", previous.expires_at))

    async def _confirm(self, bundle: LoginTokens) -> Live:
        """The session with new tokens, if the end user is the same (Session Management 3.1)."""
        live = await resume.current(self.party, self.cookies)
        if live is None:
            explanation = "the session ended while it was being confirmed"
            raise SessionError(Code.SESSION_REQUIRED, explanation)
        if not self._is_of(live, bundle.id_token):
            raise ProtocolViolation(Code.AUTHORIZATION_OTHER_USER)
        return await self._replaced(live, bundle)
