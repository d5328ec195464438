"""Claims with odd types in every place: accepted by the rules, or refused by an own error."""

from __future__ import annotations

import json
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from fastapi_oidc.errors import OIDCError, ProtocolViolation
from fastapi_oidc.protocol.id_token import accept_id_token, accept_refreshed_id_token
from fastapi_oidc.protocol.jose.compact import CompactJWS
from fastapi_oidc.protocol.jose.keys import JsonWebKeySet
from fastapi_oidc.protocol.jose.verify import verified_claims
from fastapi_oidc.protocol.json import JSON
from fastapi_oidc.protocol.logout_token import accept_logout_token
from tests.oidc.property.protocol_values import json_values, odd_values, texts
from tests.oidc.protocol import id_tokens, test_logout_token, test_refreshed_id_token
from tests.oidc.protocol.examples import AT, changed
from tests.oidc.protocol.jose.keypairs import base64url, hs, segment

SECRET = "s" * 64
HEADER = {"alg": "HS256", "typ": "JWT"}

claim_changes = st.dictionaries(
    st.sampled_from([*id_tokens.VALID, "events", "jti", "nbf"]),
    odd_values | json_values,
    max_size=3,
)


@given(changes=claim_changes)
def test_any_claims_of_an_id_token(changes: dict[str, JSON]) -> None:
    claims = changed(id_tokens.VALID, changes)
    with suppress(ProtocolViolation):
        id_token = accept_id_token(claims, id_tokens.EXPECTED, AT)
        assert id_token.sub == claims["sub"]
        assert not AT.is_past(id_token.exp)


@given(changes=claim_changes)
def test_any_claims_of_a_refreshed_id_token(changes: dict[str, JSON]) -> None:
    with suppress(ProtocolViolation):
        id_token = accept_refreshed_id_token(
            changed(test_refreshed_id_token.VALID, changes),
            test_refreshed_id_token.ORIGINAL,
            test_refreshed_id_token.EXPECTED,
            AT,
        )
        assert id_token.sub == test_refreshed_id_token.ORIGINAL.sub


@given(changes=claim_changes, typ=st.none() | texts)
def test_any_claims_of_a_logout_token(changes: dict[str, JSON], typ: str | None) -> None:
    with suppress(ProtocolViolation):
        token = accept_logout_token(
            typ, changed(test_logout_token.VALID, changes), test_logout_token.EXPECTED, AT
        )
        assert token.sub or token.sid


@given(
    name=st.sampled_from(sorted(id_tokens.VALID)),
    written=st.sampled_from(
        ["1e400", "-1e400", "NaN", "Infinity", '"\\ud800"', "1" * 5000, "[" * 99]
    )
    | st.text(max_size=20),
)
def test_claims_as_they_are_written(name: str, written: str) -> None:
    """Values that JSON libraries write differently, signed, through the whole way of a token."""
    text = json.dumps(changed(id_tokens.VALID, {name: "HERE"})).replace('"HERE"', written)
    signing_input = f"{segment(HEADER)}.{base64url(text.encode('utf-8', 'surrogatepass'))}"
    token = f"{signing_input}.{base64url(hs(SECRET)(signing_input.encode()))}"
    with suppress(OIDCError):
        claims = verified_claims(
            CompactJWS.parse(token), JsonWebKeySet(()), algorithms={"HS256"}, client_secret=SECRET
        )
        accept_id_token(claims, id_tokens.EXPECTED, AT)
