"""Sessions that are valid, for tests that change one thing."""

from dataclasses import dataclass

from pydantic import JsonValue

from fastapi_oidc.session.model import LoginTransaction, OIDCSession, PreviousSession, Tokens

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
        client_id="app",
        scope=("openid",),
        created_at=created_at,
        previous=previous,
    )
