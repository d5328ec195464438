"""The session of a signed-in user, and the types around it.

All types here are frozen. `repr` leaves out tokens and other secrets, and only `SessionCodec`
can serialize them: an endpoint that returns a session by mistake fails and sends no tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    NoReturn,
    Self,
    TypeAlias,
    TypeVar,
)

import pydantic
from pydantic import BaseModel, Field
from pydantic_core import CoreSchema

from fastapi_oidc.errors import misconfigured, refused_signature
from fastapi_oidc.protocol.downstream import NotText
from fastapi_oidc.protocol.dpop import DPoPKey

_REFUSED: Final = (
    "{} cannot be read from a request or returned as a response. Write as a parameter "
    "session: Annotated[OIDCSession[User], Depends(oidc.require_auth)] or "
    "locals: Annotated[OIDCLocals, Depends(oidc.locals)], and return PublicSession.of(session)"
)


class NeverFromARequest:
    """Base class of types that FastAPI must not read from a request.

    FastAPI reads the parameters of an endpoint from the request if pydantic can validate their
    types: with a forgotten `Depends(...)` a client could send any session. So pydantic refuses
    these types, and an endpoint with such a parameter raises ConfigurationError
    (configuration.invalid) when its route is defined.
    """

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: pydantic.GetCoreSchemaHandler, /
    ) -> CoreSchema:
        """Raises ConfigurationError, except while the class is created."""
        if not _is_being_made(cls):
            raise misconfigured(_REFUSED.format(cls.__name__))
        return handler(source)


def _is_being_made(cls: type) -> bool:
    """Whether pydantic calls for the first time, because it is creating the class.

    A session type with a forward reference is built again when the reference is resolved, but not
    by this library.
    """
    return hasattr(cls, "__pydantic_complete__") and "__pydantic_core_schema__" not in vars(cls)


class Claims(dict[str, Any]):
    """A dict that refuses changes: nothing stores them, so they would be lost in silence."""

    def __reduce__(self) -> tuple[type[Claims], tuple[dict[str, Any]]]:
        """How `copy` and `pickle` make another one."""
        return Claims, (dict(self),)

    if not TYPE_CHECKING:  # type checkers know a dict

        def __setitem__(self, *_: object, **__: object) -> NoReturn:
            """Raises TypeError."""
            raise TypeError("a session has no place for data of the application: use a database")

        __delitem__ = __ior__ = __setitem__
        update = setdefault = pop = popitem = clear = __setitem__


if TYPE_CHECKING:
    from pydantic import JsonValue
else:
    # A session is read on every request. Its claims were checked at login and have been sealed
    # since.
    JsonValue = Any

Identity = TypeVar("Identity")

EndReason: TypeAlias = Literal["expired", "revoked", "signed_out", "ended_by_provider"]
"""Why a session has ended: by its time, the application, its user or the provider."""

SEALING: Final = object()
"""The serialization context in which the tokens of a session are written."""


class Frozen(BaseModel):
    """A model that cannot be changed. Errors never quote a value."""

    model_config = pydantic.ConfigDict(frozen=True, hide_input_in_errors=True)

    if not TYPE_CHECKING:  # type checkers know that the fields are frozen

        def __setattr__(self, name: str, value: object) -> None:
            if not name.startswith("_"):  # pydantic's error would quote the value
                explanation = f"{type(self).__name__} cannot be changed: model_copy makes another"
                raise TypeError(explanation)
            super().__setattr__(name, value)


class Tokens(NotText, NeverFromARequest, Frozen):
    """The tokens of a session. `expires_at` is the access token's, in seconds since the epoch.

    Nothing renews an access token that is read here: `oidc.auth(session)` and `access_token()` of
    `oidc.grant(session.id)` give one that has not expired.
    `dpop_key` is the private key of bound tokens, None for bearer tokens (RFC 9449).
    """

    id_token: str = Field(repr=False)
    access_token: str = Field(repr=False)
    refresh_token: str | None = Field(default=None, repr=False)
    token_type: str = "Bearer"  # noqa: S105 - a scheme of RFC 6750, not a secret
    expires_at: int | None = None
    scope: tuple[str, ...] = ()
    dpop_key: str | None = Field(default=None, repr=False)

    def __iter__(self) -> NoReturn:
        """Refused, so that `dict(session.tokens)` shows nothing."""
        raise TypeError("tokens cannot be iterated, so that none is shown by mistake; name one")

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        """Refused, so that no queue gets the tokens of a session."""
        raise TypeError("a session is not pickled: send session.id, and call oidc.grant(id) there")

    def proof_key(self) -> DPoPKey | None:
        """The key that signs the proofs for these tokens; None for bearer tokens."""
        return None if self.dpop_key is None else DPoPKey.from_text(self.dpop_key)

    @pydantic.model_serializer(mode="wrap")
    def _only_when_sealing(
        self,
        handler: pydantic.SerializerFunctionWrapHandler,
        info: pydantic.SerializationInfo,
    ) -> dict[str, object]:
        if info.context is not SEALING:
            raise TypeError("tokens never leave a session: send PublicSession.of(session) instead")
        return _without_nulls(handler(self))


Tokens.__signature__ = refused_signature(_REFUSED.format("Tokens"))


def _of_session(kind: type[Tokens], handler: pydantic.GetCoreSchemaHandler) -> CoreSchema:
    """The schema of the field of sessions; FastAPI, which reads parameters, names no field."""
    return kind.__pydantic_core_schema__ if handler.field_name else handler(kind)


class SteppedUp(Frozen):
    """The requirements of a login with `max_age` or `acr_values`, and when it was completed."""

    at: int
    max_age: int | None = None
    acr_values: tuple[str, ...] = ()


ID_BYTES: Final = 16
"""Random bytes in the id of a session."""


class OIDCSession(NeverFromARequest, Frozen, Generic[Identity]):
    """The login of one user at this application. Times are in seconds since the epoch.

    `id` is random and not a secret: it names the session in logs and records. `claims` are the
    validated ID token claims, and `generation` counts the refreshes. `former_sids` are the `sid`
    values of earlier generations, and `epoch` is the generation of the last step-up.
    `authenticated_at` is compared with the `iat` of logout tokens. `stepped_up` is the latest login
    with requirements. `prior_revocations` are the stamps of revocations before this login.
    `last_seen_at` is only set with an idle timeout, and may be late by a tenth of that time.
    `before_session_persist` may shorten `expires_at`; `absolute_end` is the end that the login set,
    None if it is the same.
    """

    id: str
    issuer: str
    client_id: str
    sub: str
    identity: Identity
    claims: Annotated[dict[str, JsonValue], pydantic.AfterValidator(Claims)] = Field(repr=False)
    tokens: Annotated[Tokens, pydantic.GetPydanticSchema(_of_session)]
    sid: str | None = None
    former_sids: tuple[str, ...] = ()
    session_state: str | None = None
    auth_time: int | None = None
    acr: str | None = None
    stepped_up: SteppedUp | None = None
    nonce: str | None = Field(default=None, repr=False)
    audiences: tuple[str, ...] = ()
    azp: str | None = None
    generation: int = 0
    epoch: int = 0
    created_at: int
    authenticated_at: int
    prior_revocations: tuple[str, ...] = ()
    refreshed_at: int | None = None
    last_seen_at: int | None = None
    expires_at: int
    absolute_end: int | None = None

    @property
    def last_end(self) -> int:
        """When every copy of the session has ended, in seconds since the epoch. Never changes."""
        return self.absolute_end or self.expires_at

    @pydantic.model_serializer(mode="wrap")
    def _short(self, handler: pydantic.SerializerFunctionWrapHandler) -> dict[str, object]:
        members = handler(self)
        # An identity may be None or [].
        return _without_nulls(members) | {"identity": members["identity"]}


AnySession: TypeAlias = "OIDCSession[Any]"
"""A session, whatever the type of its identity."""


class PublicSession(Frozen, Generic[Identity]):
    """The part of a session that a browser may see: no tokens and no claims."""

    is_authenticated: bool
    sub: str | None = None
    identity: Identity | None = None
    expires_at: int | None = None
    access_token_expires_at: int | None = None
    session_state: str | None = None

    def __bool__(self) -> bool:
        """Whether there is a signed-in user."""
        return self.is_authenticated

    @classmethod
    def of(cls, session: OIDCSession[Identity] | None) -> Self:
        """The token-free view of `session`; of None, the view without a signed-in user."""
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
    """The browser's session at the begin of a login, with the data that ending it requires.

    It is stored with the login, because the provider's cross-site form post has no session cookie.
    """

    id: str
    epoch: int = 0
    expires_at: int
    secret: str = Field(default="", repr=False)


class LoginTransaction(Frozen):
    """A login that has begun and is not complete. `created_at` is in seconds since the epoch.

    `silent` marks a `prompt=none` check in a hidden iframe, and `steps_up` a login with `max_age`
    or `acr_values` of its own.
    `previous` is the session that the login replaces.
    """

    state: str = Field(repr=False)
    nonce: str = Field(repr=False)
    code_verifier: str = Field(repr=False)
    redirect_uri: str
    return_to: str
    issuer: str
    client_id: str
    created_at: int
    max_age: int | None = None
    acr_values: tuple[str, ...] = ()
    scope: tuple[str, ...]
    steps_up: bool = False
    silent: bool = False
    previous: PreviousSession | None = None


def _without_nulls(members: dict[str, object]) -> dict[str, object]:
    """Leave out None and empty members to save space in cookies; defaults restore them."""
    return {name: value for name, value in members.items() if value not in (None, [], ())}


class StandardIdentity(Frozen):
    """The profile claims of OpenID Connect Core 5.1 that most applications show."""

    sub: str
    name: str | None = None
    email: str | None = None
    email_verified: bool | None = None
    preferred_username: str | None = None
    picture: str | None = None

    @classmethod
    def from_claims(cls, sub: str, *sources: Mapping[str, object]) -> Self:
        """Each claim from the last source that has it. A claim of a wrong type counts as absent."""
        found = {name: value for source in sources for name, value in source.items()}
        kinds = {name: bool if name == "email_verified" else str for name in cls.model_fields}
        claims = {name: found[name] for name in kinds if isinstance(found.get(name), kinds[name])}
        return cls.model_validate(claims | {"sub": sub})
