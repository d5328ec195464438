"""What the provider says of the end user of a login, once every rule accepted it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fastapi_oidc import Code, OIDCError, ProviderError
from fastapi_oidc.flows.evidence import Answer, CodeNotSent, evidence_of
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.renewal import Evidence
from fastapi_oidc.protocol.authorization import AuthorizationCode
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.provider import VerifiedToken
from tests.oidc.session.examples import NOW, a_transaction
from tests.oidc.world import Time, make_world

CODE = AuthorizationCode("code-1")
TRANSACTION = a_transaction().model_copy(update={"max_age": 60})
TOKENS = TokenResponse("access-1", "id.to.ken", "again", 300, ("openid",), "of the tokens")
USER_INFO = {"sub": "alice", "name": "Alice"}


class Provider:
    """Answers with what a test says; notes what it was asked."""

    def __init__(self, time: Time, claims: dict[str, Any]) -> None:
        self._time, self._claims = time, claims
        self.asked: list[tuple[Any, ...]] = []
        self.error: ProviderError | None = None

    async def exchange_code(self, *about: Any) -> TokenResponse:
        self.asked.append(("code", *about))
        if self.error is not None:
            raise self.error
        return TOKENS

    async def verify(self, token: str) -> VerifiedToken:
        self.asked.append(("verify", token))
        self._time.advance(3)
        return VerifiedToken(None, "RS256", self._claims)

    async def userinfo(self, access_token: str, *, sub: str) -> dict[str, Any]:
        self.asked.append(("userinfo", access_token, sub))
        return USER_INFO


class Site:
    """A client of such a provider, with the claims of an ID token that is accepted."""

    def __init__(self, claims: dict[str, Any] | None = None, **settings: Any) -> None:
        time = Time(NOW)
        party = make_world(time=time, settings=settings).oidc.site.party
        said = {
            "iss": party.policy.issuer,
            "sub": "alice",
            "aud": ["app", "api"],
            "azp": "app",
            "exp": NOW + 300,
            "iat": NOW,
            "nonce": "nonce-1",
            "auth_time": NOW - 50,
        }
        self.provider = Provider(time, said | (claims or {}))
        provider: Any = self.provider
        self.party: RelyingParty[Any] = replace(party, provider=provider)

    async def evidence(self, code: AuthorizationCode = CODE) -> Evidence:
        evidence, id_token = await evidence_of(self.party, Answer(code, {}, TRANSACTION))
        assert evidence.id_token is id_token
        return evidence


TRUSTING: dict[str, Any] = {"trusted_id_token_audiences": ["api"]}


async def test_it_is_all_that_was_said_since_the_tokens_came() -> None:
    site = Site(**TRUSTING)
    evidence = await site.evidence()
    assert evidence.id_token is not None
    assert (evidence.id_token.sub, evidence.id_token.aud) == ("alice", ("app", "api"))
    assert evidence == Evidence(TOKENS, evidence.id_token, USER_INFO, "of the tokens", NOW)
    assert site.provider.asked == [
        ("code", CODE, TRANSACTION.redirect_uri, TRANSACTION.code_verifier),
        ("verify", "id.to.ken"),
        ("userinfo", "access-1", "alice"),
    ]


async def test_the_session_state_of_the_authorization_response_comes_first() -> None:
    code = AuthorizationCode("code-1", "of the response")
    assert (await Site(**TRUSTING).evidence(code)).session_state == "of the response"


async def test_user_info_that_is_not_wanted_is_not_asked_for() -> None:
    site = Site(**TRUSTING, fetch_userinfo=False)
    assert (await site.evidence()).user_info is None
    assert site.provider.asked[-1] == ("verify", "id.to.ken")


@pytest.mark.parametrize(
    ("claims", "code"),
    [
        ({"iss": "https://another.test"}, Code.ID_TOKEN_ISSUER),
        ({"aud": ["another"]}, Code.ID_TOKEN_AUDIENCE),
        ({"aud": ["app", "another"]}, Code.ID_TOKEN_AUDIENCE),
        ({"nonce": "another"}, Code.ID_TOKEN_NONCE),
        ({"at_hash": "77QmUPtjPfzWtF2AnpK9RQ"}, Code.ID_TOKEN_ACCESS_TOKEN_HASH),
        ({"auth_time": NOW - 1000}, Code.ID_TOKEN_AUTH_TIME),
        ({"exp": NOW - 100}, Code.ID_TOKEN_EXPIRED),
    ],
)
async def test_an_id_token_that_breaks_a_rule_is_refused(
    claims: dict[str, Any], code: Code
) -> None:
    site = Site(claims, **TRUSTING)
    with pytest.raises(OIDCError) as caught:
        await site.evidence()
    assert caught.value.code is code
    assert site.provider.asked[-1][0] == "verify"


@pytest.mark.parametrize("is_unsent", [True, False])
async def test_a_code_that_was_not_sent_is_told_apart(is_unsent: bool) -> None:
    site = Site(**TRUSTING)
    error = site.provider.error = ProviderError(Code.PROVIDER_UNREACHABLE)
    error.is_unsent = is_unsent
    with pytest.raises(CodeNotSent if is_unsent else ProviderError) as caught:
        await site.evidence()
    assert (caught.value.error if isinstance(caught.value, CodeNotSent) else caught.value) is error
