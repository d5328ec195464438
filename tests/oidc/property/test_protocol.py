"""Whatever somebody sends, the protocol answers with a value or with an error of its own."""

import json
from contextlib import suppress

import httpx
from hypothesis import example, given
from hypothesis import strategies as st

from fastapi_oidc.protocol.authorization import AuthorizationRefused
from fastapi_oidc.protocol.encoding import JSON, MalformedJSON, parse_json
from fastapi_oidc.protocol.urls import fault_of_url

texts = st.text(st.characters(exclude_categories=[]), max_size=40)
"""Any text, lone surrogates included."""

json_texts = st.text(max_size=40)
"""What JSON can hold: no lone surrogates."""

scalars = st.none() | st.booleans() | st.integers() | st.floats() | json_texts
json_values: st.SearchStrategy[JSON] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(json_texts, inner, max_size=4),
    max_leaves=12,
)


octets = st.binary() | st.text('[]{}:,"\\ud80eE+-0123456789.ntfalsruN ').map(str.encode)
written = json_values.filter(lambda value: value == value).map(json.dumps).map(str.encode)


@given(text=octets | written)
def test_any_octets_are_malformed_or_json_that_can_be_written_again(text: bytes) -> None:
    with suppress(MalformedJSON):
        read = parse_json(text)
        assert json.loads(json.dumps(read, ensure_ascii=False)) == read


@given(error=texts, description=texts.map(lambda text: text * 200))
def test_a_refusal_is_always_safe_to_log(error: str, description: str) -> None:
    refused = AuthorizationRefused(error, description)
    assert str(refused).isascii()
    assert str(refused).isprintable()
    assert len(refused.error_description) <= 2000


labels = st.text("abz09-_xn.%~!$&'()*+,;=[]:@", max_size=12) | st.sampled_from(
    ["xn--a", "xn--ls8h", "xn--mnchen-3ya", "xn--", "999", "1", "[::1]", "[v1.a]", "test"]
)
hosts = st.lists(labels, min_size=1, max_size=5).map(".".join)
paths = st.text(st.characters(max_codepoint=126), max_size=20)


@given(host=hosts, path=paths)
@example(host="xn--a.test", path="")
@example(host="999.1.1.1", path="")
@example(host="[::1]x", path="")
def test_a_url_that_passes_can_be_asked(host: str, path: str) -> None:
    url = f"https://{host}/{path}"
    if fault_of_url(url, allow_insecure_http=False) is None:
        request = httpx.Request("GET", url)
        assert request.url.host
        assert str(request.url.copy_with(query=None))
        assert request.headers["Host"]
