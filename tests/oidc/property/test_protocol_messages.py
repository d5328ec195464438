"""Whatever somebody sends, the protocol answers with a value or with an error of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from fastapi_oidc.errors import OIDCError
from fastapi_oidc.protocol.authorization import (
    AuthorizationCode,
    AuthorizationRefused,
    pushed_request_uri,
    response_state,
)
from fastapi_oidc.protocol.json import JSON, MalformedJSON, parse_json
from fastapi_oidc.protocol.logout_token import logout_token_parameter
from fastapi_oidc.protocol.metadata import ProviderMetadata
from fastapi_oidc.protocol.refusal import refusal
from fastapi_oidc.protocol.return_path import is_same_origin_path
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.protocol.urls import fault_of_url
from fastapi_oidc.protocol.userinfo import accept_userinfo
from tests.oidc.property.protocol_values import json_values, odd_values, parameters, texts
from tests.oidc.protocol.examples import ISSUER, changed
from tests.oidc.protocol.test_metadata import DOCUMENT
from tests.oidc.protocol.test_token import ANSWER


@given(text=st.binary() | st.text('[]{}:,"\\ud80eE+-0123456789.ntfalsruN ').map(str.encode))
def test_any_octets_are_json_or_malformed(text: bytes) -> None:
    with suppress(MalformedJSON):
        parse_json(text)


@given(value=json_values.filter(lambda value: value == value))
def test_what_is_read_can_be_written_again(value: JSON) -> None:
    try:
        read = parse_json(json.dumps(value).encode())
    except MalformedJSON:
        return
    assert parse_json(json.dumps(read, ensure_ascii=False).encode()) == read


@given(parameters=parameters, issuer_promised=st.booleans())
def test_any_authorization_response(
    parameters: dict[str, Sequence[str]], issuer_promised: bool
) -> None:
    with suppress(OIDCError):
        code = AuthorizationCode.parse(
            parameters, state="state-1", issuer=ISSUER, issuer_promised=issuer_promised
        )
        assert parameters["state"] == ["state-1"]
        assert parameters["code"] == [code.value]


@given(error=texts, description=texts.map(lambda text: text * 200))
def test_a_refusal_is_always_safe_to_log(error: str, description: str) -> None:
    refused = AuthorizationRefused(error, description)
    assert str(refused).isascii()
    assert str(refused).isprintable()
    assert len(refused.error_description) <= 2000


@given(parameters=parameters)
def test_any_form(parameters: dict[str, Sequence[str]]) -> None:
    with suppress(OIDCError):
        assert response_state(parameters)
    with suppress(OIDCError):
        assert logout_token_parameter(parameters)


@given(name=st.sampled_from(sorted(DOCUMENT)), value=json_values | odd_values)
def test_any_metadata(name: str, value: JSON) -> None:
    with suppress(OIDCError):
        ProviderMetadata.parse(changed(DOCUMENT, {name: value}), issuer=ISSUER)
    with suppress(OIDCError):
        ProviderMetadata.parse(value, issuer=ISSUER)


@given(
    name=st.sampled_from(sorted(ANSWER)),
    value=json_values | odd_values,
    status=st.integers(100, 599),
)
def test_any_token_response(name: str, value: JSON, status: int) -> None:
    with suppress(OIDCError):
        TokenResponse.parse(changed(ANSWER, {name: value}))
    with suppress(OIDCError):
        TokenResponse.parse(value)
    assert refusal({"error": value}, status, url="https://op.test/token").error.isprintable()
    assert refusal(value, status, url="https://op.test/token").error.isprintable()


@given(value=json_values | odd_values)
def test_any_other_answer(value: JSON) -> None:
    with suppress(OIDCError):
        accept_userinfo(value, sub="alice")
    with suppress(OIDCError):
        accept_userinfo({"sub": value}, sub="alice")
    with suppress(OIDCError):
        pushed_request_uri(value)


@given(url=texts | texts.map("https://{}".format) | texts.map("https://op.test{}".format))
def test_any_url(url: str) -> None:
    if fault_of_url(url, allow_insecure_http=False) is None:
        assert url.startswith("https://")
        assert url.isprintable()


@given(
    value=texts
    | texts.map("/{}".format)
    | st.text("/\\.%09aAdD2fF5cCeE?#@: \t\n").map("/{}".format)
)
def test_a_return_path_never_leaves_the_origin(value: str) -> None:
    if is_same_origin_path(value):
        assert value.startswith("/")
        assert not value.startswith(("//", "/\\"))
        assert value.isascii()
        assert value.isprintable()
