"""Sessions as texts and cookies: what comes back, what is too large, and what is refused."""

import os
import secrets
import zlib
from typing import Any

import pytest
from pydantic import BaseModel, Field, SecretStr, ValidationError
from pydantic_core import PydanticSerializationError
from typing_extensions import TypedDict

from fastapi_oidc.errors import Code, ConfigurationError, SessionError
from fastapi_oidc.session.cookies import CookieNames, KeyRing
from fastapi_oidc.session.model import OIDCSession, PublicSession, StandardIdentity, Tokens
from fastapi_oidc.session.revocations import keys_of
from fastapi_oidc.session.session_cookie import (
    DEFAULT_MAX_COOKIE_SIZE,
    MAXIMUM_PLAINTEXT_BYTES,
    CookieTooLarge,
    ReferenceCookie,
    SessionCodec,
    SessionCookie,
    digest_of,
)
from tests.oidc.session.examples import ALICE, SECRET, User, a_session, a_transaction
from tests.oidc.session.keycloak import keycloak_session


class UserModel(BaseModel):
    sub: str
    roles: list[str]


class Forgetful(BaseModel):
    sub: str
    role: str = Field(default="reader", exclude=True)


class UserDict(TypedDict):
    sub: str


@pytest.mark.parametrize(
    ("identity_type", "identity"),
    [
        (UserModel, UserModel(sub="alice", roles=["admin"])),
        (UserDict, UserDict(sub="alice")),
        (dict, {"sub": "alice", "roles": [1, None]}),
        (str, "alice"),
        (User | None, None),
        (Forgetful, Forgetful(sub="alice")),
    ],
)
def test_an_identity_is_what_pydantic_reads(identity_type: type[User], identity: object) -> None:
    codec = SessionCodec(identity_type)
    read = codec.decode(codec.encode(a_session().model_copy(update={"identity": identity})))
    assert read.identity == identity
    assert type(read.identity) is type(identity)


def test_what_is_absent_takes_no_room_but_a_null_of_the_application_stays() -> None:
    session = a_session(sid=None, claims={"middle_name": None})
    encoded = SessionCodec(User).encode(session)
    assert encoded.count(b"null") == 1
    assert SessionCodec(User).decode(encoded) == session


def test_an_identity_type_that_pydantic_cannot_read_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError) as caught:
        SessionCodec(type("Opaque", (), {}))
    assert caught.value.code is Code.CONFIGURATION_INVALID


class Secretive(BaseModel):
    sub: str
    key: SecretStr


class Admin(UserModel):
    level: int = 7


@pytest.mark.parametrize(
    ("identity_type", "identity"),
    [
        (Secretive, Secretive(sub="alice", key=SecretStr("alice-key"))),
        (Forgetful, Forgetful(sub="alice", role="admin")),
        (UserModel, Admin(sub="alice", roles=[])),
        *((User, each) for each in ("alice", {"sub": "alice"}, object(), "\ud800")),
        *((dict, each) for each in ({1: "alice"}, {"roles": ("alice",)})),
    ],
)
def test_an_identity_that_would_come_back_as_something_else_is_refused(
    identity_type: type[User], identity: object
) -> None:
    session = a_session().model_copy(update={"identity": identity})
    with pytest.raises(ConfigurationError, match="read back from JSON as something") as caught:
        SessionCodec(identity_type).encode(session)
    assert "alice" not in str(caught.value)


SESSION_JSON = SessionCodec(User).encode(a_session())


@pytest.mark.parametrize(
    "encoded",
    [
        *(b"secret", b"[]", b"{}"),
        SESSION_JSON.replace(b'"sub":"alice"', b'"sub":["secret"]'),
        SESSION_JSON.replace(b'"access"', b'["secret"]'),
        SESSION_JSON.replace(b'"name":"Alice"', b'"name":["secret"]'),
    ],
)
def test_a_malformed_session_is_refused_without_its_content(encoded: bytes) -> None:
    with pytest.raises(SessionError, match="another release, or one with another") as caught:
        SessionCodec(User).decode(encoded)
    assert caught.value.code is Code.SESSION_MALFORMED
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_session_of_a_later_version_can_still_be_read() -> None:
    later = SESSION_JSON.replace(b"{", b'{"added_later":1,', 1)
    assert SessionCodec(User).decode(later) == a_session()


SEALER = KeyRing([SECRET]).sealer("session")
NAMES = CookieNames("oidc", secure=True)


class Cookie(SessionCookie):
    """The cookie of an application with identities of a type."""

    def __init__(
        self, kind: type[Any] = User, *, max_cookie_size: int = DEFAULT_MAX_COOKIE_SIZE
    ) -> None:
        self.codec = SessionCodec(kind)
        super().__init__(self.codec, SEALER, NAMES, max_cookie_size=max_cookie_size)

    def sealed(self, session: OIDCSession[Any]) -> str:
        return self.seal(session, self.codec.encode(session), 0, b"")


def a_session_with(access_token: str) -> OIDCSession[User]:
    return a_session(tokens=Tokens(id_token="i", access_token=access_token))


def sealed(plaintext: bytes) -> str:
    return SEALER.seal(plaintext, name=NAMES.session)


def refused(value: str) -> Code:
    with pytest.raises(SessionError) as caught:
        Cookie().open(value)
    return caught.value.code


def test_each_reader_of_a_cookie_has_claims_and_an_identity_of_its_own() -> None:
    cookie, session = Cookie(UserModel), a_session(claims={"groups": [{"names": ["reader"]}]})
    session = session.model_copy(update={"identity": UserModel(sub="alice", roles=["reader"])})
    value = cookie.sealed(session)
    for _ in range(2):
        copy = cookie.open(value)
        assert copy.session is not None
        assert copy.session == session
        assert copy.keys == keys_of(session)
        copy.session.identity.roles.append("admin")
        groups: Any = copy.session.claims["groups"]
        groups[0]["names"].append("admin")
    assert cookie._content_of.cache_info().hits == 1, "it is opened once"


def test_the_largest_keycloak_session_of_the_field_fits_with_room_to_spare() -> None:
    session = keycloak_session()
    encoded = SessionCodec(User).encode(session)
    assert len(NAMES.session) + len(sealed(deflated(encoded))) > 4096
    value = Cookie().sealed(session)
    assert len(NAMES.session) + len(value) < 2600
    assert Cookie().open(value).session == session


def test_a_session_that_does_not_fit_says_why_and_what_to_do() -> None:
    token = secrets.token_hex(4000)
    with pytest.raises(CookieTooLarge) as caught:
        Cookie().sealed(a_session_with(token))
    error = caught.value
    assert token[:16] not in str(error) + repr(error.parts)
    assert error.code is Code.SESSION_COOKIE_TOO_LARGE
    assert (error.limit, error.parts["tokens.access_token"]) == (3800, 8002)
    assert error.size > error.limit
    for part in (
        f"needs {error.size} bytes and may have 3800; its parts: tokens.access_token 8002, claims ",
        *("session_store", "before_session_persist", "max_cookie_size"),
    ):
        assert part in str(error)


def test_name_and_value_count_against_an_exact_limit() -> None:
    session = a_session_with(secrets.token_hex(200))
    with pytest.raises(CookieTooLarge) as caught:
        Cookie(max_cookie_size=200).sealed(session)
    size = caught.value.size
    with pytest.raises(CookieTooLarge):
        Cookie(max_cookie_size=size - 1).sealed(session)
    value = Cookie(max_cookie_size=size).sealed(session)
    assert len(NAMES.session) + len(value) == size


def deflated(content: bytes) -> bytes:
    return zlib.compress(content, wbits=-15)


def test_a_session_that_deflates_well_is_still_bounded() -> None:
    overhead = len(SessionCodec(User).encode(a_session_with("")))
    largest = a_session_with("x" * (MAXIMUM_PLAINTEXT_BYTES - overhead))
    larger = a_session_with("x" * (MAXIMUM_PLAINTEXT_BYTES - overhead + 1))
    assert Cookie().open(Cookie().sealed(largest)).session == largest
    with pytest.raises(CookieTooLarge):
        Cookie().sealed(larger)
    for content in (SessionCodec(User).encode(larger), bytes(20_000_000)):
        assert refused(sealed(deflated(content))) is Code.SESSION_MALFORMED


STREAM = deflated(SESSION_JSON + b" " * 1000)


@pytest.mark.parametrize(
    "plaintext",
    [
        *(b"", b"{}", b"not deflate", deflated(b""), deflated(b"{}")),
        *(STREAM[:-1], STREAM[:-2], STREAM[:-20], STREAM + b"rest"),
    ],
)
def test_a_malformed_plaintext_is_refused(plaintext: bytes) -> None:
    assert refused(sealed(plaintext)) is Code.SESSION_MALFORMED


RING = KeyRing([SECRET])


def a_cookie(purpose: str = "reference") -> ReferenceCookie:
    return ReferenceCookie(RING.sealer(purpose), NAMES)


@pytest.mark.parametrize("session", [a_session(), a_session(sid=None)], ids=["sid", "no sid"])
def test_a_cookie_has_what_finds_and_ends_its_session(session: OIDCSession[User]) -> None:
    secret = os.urandom(32)
    copy = a_cookie().open(a_cookie().seal(session, b"", 3, secret))
    assert copy == (session.id, keys_of(session), 3, session.expires_at, None, secret)


def test_another_sid_or_epoch_needs_another_cookie() -> None:
    session, cookie = a_session(), a_cookie()
    copy = cookie.open(cookie.seal(session, b"", 3, os.urandom(32)))
    assert cookie.leads_to(copy, session, 3)
    assert not cookie.leads_to(copy, session, 4)
    assert not cookie.leads_to(copy, a_session(sid="another"), 3)


def test_the_row_has_only_a_digest_of_the_secret() -> None:
    secret = os.urandom(32)
    assert digest_of(secret) != secret.hex()
    assert len(bytes.fromhex(digest_of(secret))) == 32


@pytest.mark.parametrize("rest", [b"", b"{}", b"[]", b'["id", [], 0]', b'["id", 7, 0, 1]', b"\xff"])
def test_a_reference_of_another_form_is_refused(rest: bytes) -> None:
    sealed = RING.sealer("reference").seal(bytes(32) + rest, name=NAMES.session)
    with pytest.raises(SessionError) as caught:
        a_cookie().open(sealed)
    assert caught.value.code is Code.SESSION_MALFORMED


TOKENS = Tokens(
    id_token="secret-id", access_token="secret-access", refresh_token="secret-refresh", expires_at=9
)


def test_a_session_cannot_be_changed_and_the_error_does_not_quote_the_value() -> None:
    with pytest.raises(TypeError, match="Tokens cannot be changed: model_copy") as caught:
        TOKENS.access_token = "secret-1"  # type: ignore[misc]  # the point of the test
    assert "secret-1" not in str(caught.value)


def test_no_secret_is_in_repr() -> None:
    text = repr(a_session(tokens=TOKENS)) + repr(a_transaction())
    assert "alice" in text
    for secret in ("secret-", "nonce-1", "verifier-1", "state-1", "pwd"):
        assert secret not in text


def test_a_dumped_session_fails_instead_of_giving_tokens_away() -> None:
    with pytest.raises(PydanticSerializationError, match=r"PublicSession\.of"):
        a_session(tokens=TOKENS).model_dump()
    with pytest.raises(PydanticSerializationError, match=r"PublicSession\.of"):
        a_session(tokens=TOKENS).model_dump_json()


def test_validation_errors_do_not_quote_their_input() -> None:
    with pytest.raises(ValidationError) as caught:
        Tokens.model_validate({"id_token": ["secret-id"], "access_token": "secret-access"})
    assert "secret-" not in str(caught.value)


def test_the_public_session_has_no_token_and_no_claim() -> None:
    session = a_session(tokens=TOKENS).model_copy(update={"session_state": "state-of-the-op"})
    public = PublicSession.of(session)
    assert public == PublicSession(
        is_authenticated=True,
        sub="alice",
        identity=ALICE,
        expires_at=session.expires_at,
        access_token_expires_at=9,
        session_state="state-of-the-op",
    )
    text = public.model_dump_json()
    assert "secret-" not in text
    assert "pwd" not in text


def test_without_a_session_nobody_is_signed_in() -> None:
    assert PublicSession.of(None) == PublicSession[object](is_authenticated=False)


def test_tokens_are_shown_by_no_accident() -> None:
    tokens = a_session().tokens
    for show in (dict, list, iter, tuple):
        with pytest.raises(TypeError, match="cannot be iterated"):
            show(tokens)
    assert "again" not in str(dict(a_session()))


def test_each_profile_claim_has_its_place_and_the_last_source_wins() -> None:
    profile = {
        "name": "Alice",
        "email": "a@example.com",
        "email_verified": True,
        "preferred_username": "al",
        "picture": "https://example.com/a.png",
    }
    first = {**profile, "name": "A", "nickname": "A", "sub": "mallory"}
    identity = StandardIdentity.from_claims("alice", first, {"name": "Alice"})
    assert identity.model_dump() == {"sub": "alice", **profile}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, ["x"]) for name in ("name", "email", "preferred_username", "picture")),
        ("email_verified", "true"),
    ],
)
def test_a_claim_of_another_type_counts_as_absent(name: str, value: object) -> None:
    identity = StandardIdentity.from_claims("alice", {name: value})
    assert identity == StandardIdentity(sub="alice")
