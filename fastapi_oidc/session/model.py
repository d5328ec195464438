"""What a signed-in user's session holds, and the shapes around it.

Everything here is frozen. Tokens and other secrets stay out of `repr`, and only `codec` can write
them out: an endpoint that returns a session by accident fails instead of giving tokens away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Self, TypeAlias, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from fastapi_oidc.protocol.dpop import DPoPKey
from fastapi_oidc.session.origin import REFUSED_SIGNATURE, NeverFromARequest

if TYPE_CHECKING:
    from pydantic import JsonValue
else:
    # A session is read on every request; its claims were checked at login and are sealed since.
    JsonValue = Any

Identity = TypeVar("Identity")

EndReason: TypeAlias = Literal["expired", "revoked", "signed_out", "ended_by_provider"]
"""Why a session is over: its time, the application, its user or the provider ended it."""

SEALING: Final = object()
"""The serialization context in which a session may write out its tokens."""


class Frozen(BaseModel):
    """Cannot be changed after it was made; validation errors never quote their input."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)


class Tokens(NeverFromARequest, Frozen):
    """The tokens of a session; `expires_at` is the access token's end, seconds since the epoch.

    `dpop_key` is the private key that they are bound to, if they are (RFC 9449).
    """

    id_token: str = Field(repr=False)
    access_token: str = Field(repr=False)
    refresh_token: str | None = Field(default=None, repr=False)
    token_type: str = "Bearer"  # noqa: S105 - a scheme of RFC 6750, not a secret
    expires_at: int | None = None
    scope: tuple[str, ...] = ()
    dpop_key: str | None = Field(default=None, repr=False)

    def proof_key(self) -> DPoPKey | None:
        """The key that signs the proofs for these tokens; None for bearer tokens."""
        return None if self.dpop_key is None else DPoPKey.from_text(self.dpop_key)

    @model_serializer(mode="wrap")
    def _only_when_sealing(
        self, handler: SerializerFunctionWrapHandler, info: SerializationInfo[object]
    ) -> dict[str, object]:
        if info.context is not SEALING:
            raise TypeError("tokens never leave a session: send PublicSession.of(session) instead")
        return _without_nulls(handler(self))


Tokens.__signature__ = REFUSED_SIGNATURE


class OIDCSession(NeverFromARequest, Frozen, Generic[Identity]):
    """One signed-in user. Times are seconds since the epoch.

    `id` is random and no secret: it names the session in logs and locks. `claims` are the validated
    ID token claims, `generation` counts the refreshes so far, and `expires_at` is the absolute end,
    fixed at login. `authenticated_at` is compared with the `iat` of logout tokens,
    `prior_revocations` are the stamps of revocations that this login came after. `csrf_id` is the
    id of the session that this one replaced by a step-up: the CSRF tokens of both are the same.
    `last_seen_at` is set with an idle timeout alone, and may lie a tenth of that time back.
    """

    id: str
    issuer: str
    client_id: str
    sub: str
    identity: Identity
    claims: dict[str, JsonValue] = Field(repr=False)
    tokens: Tokens
    sid: str | None = None
    session_state: str | None = None
    auth_time: int | None = None
    acr: str | None = None
    nonce: str | None = Field(default=None, repr=False)
    audiences: tuple[str, ...] = ()
    azp: str | None = None
    generation: int = 0
    created_at: int
    authenticated_at: int
    prior_revocations: tuple[str, ...] = ()
    csrf_id: str | None = None
    refreshed_at: int | None = None
    last_seen_at: int | None = None
    expires_at: int

    @model_serializer(mode="wrap")
    def _short(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        members = handler(self)
        # An identity of None or [] is a value like any other.
        return _without_nulls(members) | {"identity": members["identity"]}


class PublicSession(Frozen, Generic[Identity]):
    """What a browser may know of its session: no token and no claim."""

    is_authenticated: bool
    sub: str | None = None
    identity: Identity | None = None
    expires_at: int | None = None
    access_token_expires_at: int | None = None
    session_state: str | None = None

    @classmethod
    def of(cls, session: OIDCSession[Identity] | None) -> Self:
        """The token-free view of `session`; without one, nobody is signed in."""
        if session is None:
            return cls(is_authenticated=False)
        return cls(
            is_authenticated=True,
            sub=session.sub,
            identity=session.identity,
            expires_at=session.expires_at,
            access_token_expires_at=session.tokens.expires_at,
            session_state=session.session_state,
        )


class PreviousSession(Frozen):
    """The session that a browser had when it began a login: enough to end it.

    The provider's cross-site form post comes without the session cookie. `reference` names the row
    of a session store.
    """

    id: str
    issuer: str
    client_id: str
    expires_at: int
    reference: str | None = Field(default=None, repr=False)

    @classmethod
    def of(cls, session: OIDCSession[Identity], reference: str | None = None) -> Self:
        """What is needed of `session`."""
        return cls(
            id=session.id,
            issuer=session.issuer,
            client_id=session.client_id,
            expires_at=session.expires_at,
            reference=reference,
        )


class LoginTransaction(Frozen):
    """A login that was begun and is not finished; `created_at` in seconds since the epoch.

    `silent` marks a `prompt=none` check whose result goes to a hidden iframe, and `steps_up` a
    login that asks for more than others. `scope` was asked for, None for that of the settings.
    `previous` is the session that the login replaces.
    """

    state: str = Field(repr=False)
    nonce: str = Field(repr=False)
    code_verifier: str = Field(repr=False)
    redirect_uri: str
    return_to: str
    issuer: str
    created_at: int
    max_age: int | None = None
    acr_values: tuple[str, ...] = ()
    scope: tuple[str, ...] | None = None
    steps_up: bool = False
    silent: bool = False
    previous: PreviousSession | None = None


def copied(value: Any) -> Any:
    """JSON again; nothing that can be changed is part of both."""
    if isinstance(value, dict):
        return {name: copied(part) for name, part in value.items()}
    return [copied(part) for part in value] if isinstance(value, list) else value


def _without_nulls(members: dict[str, object]) -> dict[str, object]:
    """What is absent takes no room in a cookie; fields are read back with their defaults."""
    return {name: value for name, value in members.items() if value not in (None, [], ())}
