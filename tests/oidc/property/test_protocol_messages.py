"""Whatever somebody sends, the protocol answers with a value or with an error of its own."""

from __future__ import annotations

import json
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from fastapi_oidc.protocol.authorization import AuthorizationRefused
from fastapi_oidc.protocol.json import JSON, MalformedJSON, parse_json
from tests.oidc.property.protocol_values import json_values, texts


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


@given(error=texts, description=texts.map(lambda text: text * 200))
def test_a_refusal_is_always_safe_to_log(error: str, description: str) -> None:
    refused = AuthorizationRefused(error, description)
    assert str(refused).isascii()
    assert str(refused).isprintable()
    assert len(refused.error_description) <= 2000
