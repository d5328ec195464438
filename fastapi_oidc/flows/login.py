"""Begin a login: the redirect to the authorization endpoint (OpenID Connect Core 3.1.2)."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Annotated, Literal, TypeAlias

from pydantic import Field
from pydantic.dataclasses import dataclass

from fastapi_oidc.clock import LONGEST_DURATION
from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.events import EventName
from fastapi_oidc.flows.relying_party import OPTIONS, Redirection, RelyingParty
from fastapi_oidc.flows.resume import current
from fastapi_oidc.protocol import authorization, urls
from fastapi_oidc.session.model import AnySession, LoginTransaction, PreviousSession

Prompt: TypeAlias = Literal["none", "login", "consent", "select_account"]
Hint: TypeAlias = Annotated[str, Field(max_length=255)]


@dataclass(frozen=True, slots=True, config=OPTIONS)
class LoginOptions:
    """The options of one login.

    `return_to` is a path of this application; any other value becomes the default path. `provider`
    is the name in the settings of one of several registrations. `silent`
    checks whether the same end user is still signed in at the provider (`prompt=none`, in the
    hidden iframe of Session Management 1.0 3.1). `scope` replaces the scope in the settings.
    `scope` and `acr_values` are lists or texts with spaces.

    The callback verifies `max_age` (seconds) and `acr_values`, of which the ID token must have one.
    If the same user returns, open pages can still send their forms. Raises ValueError, which names
    each option that is unknown or of a wrong type.
    """

    return_to: str | None = None
    provider: str | None = None
    prompt: Prompt | None = None
    login_hint: Hint | None = None
    max_age: Annotated[int | None, Field(ge=0, le=LONGEST_DURATION)] = None
    acr_values: Hint | Sequence[str] = ()
    scope: str | Sequence[str] | None = None
    extra_params: Mapping[str, str] = field(default_factory=dict)
    silent: bool = False

    @property
    def steps_up(self) -> bool:
        """Whether this login requires a step-up: `max_age` or `acr_values` (RFC 9470)."""
        return not self.silent and (self.max_age is not None or bool(self.acr_values))


async def begin_login(
    party: RelyingParty, options: LoginOptions, *, redirect_uri: str, cookies: Mapping[str, str]
) -> Redirection:
    """The redirect to the provider, with the transaction cookie of this login."""
    session = await _session_to_confirm(party, cookies) if options.silent else None
    previous = None if options.silent else _previous(party, cookies)
    transaction = _transaction(party, options, redirect_uri, previous)
    location = await _location(party, options, transaction, session)
    party.announcer.announce(EventName.LOGIN_STARTED, sub=session.sub if session else None)
    return Redirection(location, party.transactions.begun(transaction, cookies))


async def _session_to_confirm(party: RelyingParty, cookies: Mapping[str, str]) -> AnySession:
    """The session whose end user the provider is to confirm."""
    live = await current(party, cookies)
    if live is None:
        raise SessionError(Code.SESSION_REQUIRED, "a silent login confirms an existing session")
    if party.of(live.session) is not party:  # whose provider alone may get its ID token
        raise SessionError(Code.SESSION_REQUIRED, "the session is of another provider")
    return live.session


def _previous(party: RelyingParty, cookies: Mapping[str, str]) -> PreviousSession | None:
    """The session that the login replaces; a form post callback has no session cookie."""
    copy = party.sessions.copy_in(cookies)
    if copy is None:
        return None
    return PreviousSession(
        id=copy.id, epoch=copy.epoch, expires_at=copy.expires_at, secret=copy.secret.hex()
    )


def _transaction(
    party: RelyingParty, options: LoginOptions, redirect_uri: str, previous: PreviousSession | None
) -> LoginTransaction:
    default, origin = party.settings.default_return_path, party.settings.base_url
    scope = party.settings.scope if options.scope is None else _words(options.scope)
    return LoginTransaction(
        state=secrets.token_urlsafe(32),
        nonce=secrets.token_urlsafe(32),
        code_verifier=secrets.token_urlsafe(48),
        issuer=party.settings.issuer,
        client_id=party.settings.client_id,
        redirect_uri=redirect_uri,
        return_to=urls.same_origin_path(options.return_to, default=default, origin=origin),
        created_at=party.clock.now(),
        max_age=_max_age(party, options),
        acr_values=_words(options.acr_values),
        scope=authorization.with_openid(scope),
        steps_up=options.steps_up,
        silent=options.silent,
        previous=previous,
    )


def _words(values: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(values.split() if isinstance(values, str) else values)


def _max_age(party: RelyingParty, options: LoginOptions) -> int | None:
    """The `max_age` of the login; None for a silent login, which only confirms the user.

    A visitor chooses that of the query, which cannot lift the requirement of the settings.
    """
    ages = [] if options.silent else [party.settings.max_age, options.max_age]
    return min((age for age in ages if age is not None), default=None)


async def _location(
    party: RelyingParty,
    options: LoginOptions,
    transaction: LoginTransaction,
    session: AnySession | None,
) -> str:
    """The URL of the authorization request."""
    settings = party.settings
    # A cross-site POST into the hidden iframe would arrive without the session cookie. The default
    # of the response type is not sent (Core 3.1.2.1).
    is_posted = settings.response_mode == "form_post" and not options.silent
    parameters = authorization.authorization_parameters(
        {**settings.extra_params, **options.extra_params},
        client_id=settings.client_id,
        redirect_uri=transaction.redirect_uri,
        scope=transaction.scope,
        state=transaction.state,
        nonce=transaction.nonce,
        code_challenge=authorization.code_challenge(transaction.code_verifier),
        response_mode="form_post" if is_posted else None,
        prompt="none" if options.silent else options.prompt,
        login_hint=options.login_hint,
        id_token_hint=session.tokens.id_token if session else None,
        max_age=transaction.max_age,
        acr_values=transaction.acr_values,
    )
    return await party.provider.authorization_url(parameters, is_pushed=settings.use_par)
