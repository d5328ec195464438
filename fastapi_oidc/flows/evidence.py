"""From a login's answer to what the provider says of the end user, once every rule accepted it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fastapi_oidc.errors import ProviderError
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.renewal import Evidence
from fastapi_oidc.protocol.authorization import AuthorizationCode
from fastapi_oidc.protocol.id_token import Expected, IdToken, accept_id_token
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.session.model import Identity, LoginTransaction


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of the provider to one login of this browser."""

    code: AuthorizationCode = field(repr=False)
    cookies: Mapping[str, str] = field(repr=False)
    transaction: LoginTransaction


class CodeNotSent(Exception):
    """There was no connection to the provider, which has not seen the code."""

    def __init__(self, error: ProviderError) -> None:
        super().__init__()
        self.error = error


async def evidence_of(party: RelyingParty[Identity], answer: Answer) -> tuple[Evidence, IdToken]:
    """What the code in `answer` stands for; the code is used up, unless CodeNotSent is raised."""
    tokens = await _tokens(party, answer)
    received_at = party.clock.now()
    id_token = await _accepted(party, tokens, answer.transaction)
    user_info = None
    if party.policy.fetch_userinfo:
        user_info = await party.provider.userinfo(tokens.access_token, sub=id_token.sub)
    session_state = answer.code.session_state or tokens.session_state
    return Evidence(tokens, id_token, user_info, session_state, received_at), id_token


async def _tokens(party: RelyingParty[Identity], answer: Answer) -> TokenResponse:
    try:
        return await party.provider.exchange_code(
            answer.code, answer.transaction.redirect_uri, answer.transaction.code_verifier
        )
    except ProviderError as error:
        if error.is_unsent:
            raise CodeNotSent(error) from error
        raise


async def _accepted(
    party: RelyingParty[Identity], tokens: TokenResponse, transaction: LoginTransaction
) -> IdToken:
    verified = await party.provider.verify(tokens.required_id_token())
    expected = Expected(
        issuer=party.policy.issuer,
        client_id=party.policy.client_id,
        trusted_audiences=party.policy.trusted_audiences,
        nonce=transaction.nonce,
        access_token=tokens.access_token,
        algorithm=verified.algorithm,
        max_age=transaction.max_age,
        tenants=party.policy.tenants,
    )
    return accept_id_token(verified.claims, expected, party.clock.instant())
