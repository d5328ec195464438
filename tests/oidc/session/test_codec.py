from __future__ import annotations

import json

import pytest
from pydantic import BaseModel, Field, JsonValue, SecretStr
from typing_extensions import TypedDict

from fastapi_oidc.errors import Code, ConfigurationError, SessionError
from fastapi_oidc.session.session_cookie import SessionCodec
from tests.oidc.session.examples import User, a_session


class UserModel(BaseModel):
    sub: str
    roles: list[str]


class UserDict(TypedDict):
    sub: str


@pytest.mark.parametrize(
    ("identity_type", "identity"),
    [
        (UserModel, UserModel(sub="alice", roles=["admin"])),
        (UserDict, UserDict(sub="alice")),
        (dict, {"sub": "alice", "roles": [1, None]}),
        (str, "alice"),
    ],
)
def test_an_identity_is_whatever_pydantic_reads(
    identity_type: type[User], identity: object
) -> None:
    codec = SessionCodec(identity_type)
    read = codec.decode(codec.encode(a_session().model_copy(update={"identity": identity})))
    assert read.identity == identity
    assert type(read.identity) is type(identity)


def test_an_identity_may_be_none() -> None:
    codec = SessionCodec(User | None)  # type: ignore[arg-type]  # mypy knows no type of a union
    session = a_session().model_copy(update={"identity": None})
    assert codec.decode(codec.encode(session)) == session


def test_what_is_absent_takes_no_room_but_a_null_of_the_application_stays() -> None:
    session = a_session(sid=None, claims={"middle_name": None})
    encoded = SessionCodec(User).encode(session)
    assert encoded.count(b"null") == 1
    assert SessionCodec(User).decode(encoded) == session


def test_an_identity_type_that_pydantic_cannot_read_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError) as caught:
        SessionCodec(type("Opaque", (), {}))
    assert caught.value.code is Code.CONFIGURATION_INVALID


@pytest.mark.parametrize("identity", ["alice", {"sub": "alice"}, object(), "\ud800"])
def test_an_identity_of_another_type_is_refused_when_it_is_written(identity: object) -> None:
    session = a_session().model_copy(update={"identity": identity})
    with pytest.raises(ConfigurationError) as caught:
        SessionCodec(User).encode(session)
    assert caught.value.code is Code.CONFIGURATION_INVALID
    assert "alice" not in str(caught.value)


class Secretive(BaseModel):
    sub: str
    key: SecretStr


class Forgetful(BaseModel):
    sub: str
    role: str = Field(default="reader", exclude=True)


class Admin(UserModel):
    level: int = 7


@pytest.mark.parametrize(
    ("identity_type", "identity"),
    [
        (Secretive, Secretive(sub="alice", key=SecretStr("alice-key"))),
        (Forgetful, Forgetful(sub="alice", role="admin")),
        (UserModel, Admin(sub="alice", roles=[])),
        (dict, {1: "alice"}),
        (dict, {"roles": ("alice",)}),
    ],
)
def test_an_identity_that_would_come_back_as_something_else_is_refused(
    identity_type: type[User], identity: object
) -> None:
    session = a_session().model_copy(update={"identity": identity})
    with pytest.raises(ConfigurationError, match="read back as something else") as caught:
        SessionCodec(identity_type).encode(session)
    assert "alice" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        (("sub",), None, "sub"),
        (("expires_at",), "soon-secret", "expires_at"),
        (("claims",), [], "claims"),
        (("tokens", "access_token"), ["secret"], "tokens.access_token"),
        (("identity",), {"sub": "secret"}, "identity.name"),
    ],
)
def test_a_malformed_session_is_named_without_its_content(
    path: tuple[str, ...], value: JsonValue, place: str
) -> None:
    members = json.loads(SessionCodec(User).encode(a_session()))
    parent = members[path[0]] if len(path) == 2 else members
    parent[path[-1]] = value
    with pytest.raises(SessionError, match=place) as caught:
        SessionCodec(User).decode(json.dumps(members).encode())
    assert caught.value.code is Code.SESSION_MALFORMED
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_what_is_no_session_at_all_is_malformed_as_a_whole() -> None:
    for encoded in (b"secret", b"[]"):
        with pytest.raises(SessionError, match=": the whole: ") as caught:
            SessionCodec(User).decode(encoded)
        assert caught.value.code is Code.SESSION_MALFORMED


def test_a_session_of_a_later_version_can_still_be_read() -> None:
    members = json.loads(SessionCodec(User).encode(a_session()))
    later = json.dumps(members | {"added_later": 1}).encode()
    assert SessionCodec(User).decode(later) == a_session()
