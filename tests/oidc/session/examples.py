"""Sessions that are valid, for tests that change one thing."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import JsonValue

from fastapi_oidc.errors import Code
from fastapi_oidc.session.codec import SessionCodec
from fastapi_oidc.session.model import LoginTransaction, OIDCSession, PreviousSession, Tokens
from fastapi_oidc.session.records import Advance, Phase, SealedRecords, Take
from fastapi_oidc.session.revocations import Maker, RevocationRecord
from fastapi_oidc.session.sealing import KeyRing
from fastapi_oidc.session.stores import SessionStore

SECRET = "0123456789abcdef0123456789abcdef"
OLD_SECRET = "fedcba9876543210fedcba9876543210"
NOW = 1_800_000_000
LIFETIME = 28_800


@dataclass(frozen=True)
class User:
    """An application's own identity."""

    sub: str
    name: str
    roles: tuple[str, ...] = ()


ALICE = User(sub="alice", name="Alice", roles=("admin",))


Store = TypeVar("Store", bound=SessionStore[Any])


def bound(store: Store, *secrets: str, identity_type: type[Any] = User) -> Store:
    """The store as an `OIDC` object with these cookie secrets has it."""
    store.bind(SessionCodec(identity_type), KeyRing(secrets or [SECRET]).sealer("row"))
    return store


def a_session(
    *,
    id: str = "session-1",
    sub: str = "alice",
    sid: str | None = "op-session-1",
    issuer: str = "https://op.example.com",
    client_id: str = "app",
    authenticated_at: int = NOW,
    created_at: int | None = None,
    expires_at: int = NOW + LIFETIME,
    claims: dict[str, JsonValue] | None = None,
    tokens: Tokens | None = None,
) -> OIDCSession[User]:
    return OIDCSession(
        id=id,
        issuer=issuer,
        client_id=client_id,
        sub=sub,
        identity=ALICE,
        claims=claims or {"iss": issuer, "sub": sub, "amr": ["pwd"], "age": {"min": 18.5}},
        tokens=tokens or Tokens(id_token="id.to.ken", access_token="access", refresh_token="again"),
        sid=sid,
        nonce="nonce-1",
        audiences=(client_id,),
        created_at=authenticated_at if created_at is None else created_at,
        authenticated_at=authenticated_at,
        expires_at=expires_at,
    )


def a_transaction(
    *,
    state: str = "state-1",
    created_at: int = NOW,
    return_to: str = "/reports?year=2026",
    previous: PreviousSession | None = None,
) -> LoginTransaction:
    return LoginTransaction(
        state=state,
        nonce="nonce-1",
        code_verifier="verifier-1",
        redirect_uri="https://app.example.com/auth/callback",
        return_to=return_to,
        issuer="https://op.example.com",
        created_at=created_at,
        previous=previous,
    )


def a_record(
    *,
    sid: str | None = "op-session-1",
    sub: str | None = None,
    session_id: str | None = None,
    issuer: str = "https://op.example.com",
    client_id: str = "app",
    issued_at: int = NOW,
    expires_at: int = NOW + LIFETIME,
    made_by: Maker = "provider",
) -> RevocationRecord:
    return RevocationRecord(
        issuer=issuer,
        client_id=client_id,
        sid=sid,
        sub=sub,
        session_id=session_id,
        jti="logout-1",
        issued_at=issued_at,
        expires_at=expires_at,
        made_by=made_by,
    )


def calls_of(store: SessionStore[User]) -> Iterator[tuple[Awaitable[object], Code]]:
    """Every call that a request makes of a store and its records, and the code of its failure."""
    unavailable = Code.SESSION_STORE_UNAVAILABLE
    yield store.get("id"), unavailable
    yield store.find("id", ()), unavailable
    yield store.set("id", a_session()), unavailable
    yield store.replace("id", a_session()), unavailable
    yield store.touch("id", NOW), unavailable
    yield store.delete("id"), unavailable
    yield store.sessions_of("https://op.example.com", "app", "alice"), unavailable
    yield store.find_by_session_id("session-1"), unavailable
    assert store.revocations is not None
    yield store.revocations.revoke(a_record()), Code.SESSION_REVOCATION_UNAVAILABLE
    yield store.revocations.ended_by(a_session()), Code.SESSION_REVOCATION_UNAVAILABLE
    yield store.revocations.stamps(a_session()), Code.SESSION_REVOCATION_UNAVAILABLE
    assert store.records is not None
    records = SealedRecords(store.records, KeyRing([SECRET]).sealer("record"))
    take = Take(generation=0, owner="me", hold=70, answered_hold=20)
    ended = Advance(phase=Phase.ENDED)
    yield records.take("id", take, lifetime=60), Code.SESSION_LOCK_UNAVAILABLE
    yield records.advance("id", ended, lifetime=60), Code.SESSION_LOCK_UNAVAILABLE
    yield records.look("id"), Code.SESSION_LOCK_UNAVAILABLE
