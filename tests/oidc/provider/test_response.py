"""How an answer of the OP is read."""

from __future__ import annotations

import pytest

from fastapi_oidc.errors import Code, ProviderError
from fastapi_oidc.provider.http import OPResponse
from tests.oidc.protocol.examples import refused


def answer(
    body: bytes = b'{"a": 1}', *, media_type: str = "application/json", status: int = 200
) -> OPResponse:
    return OPResponse("https://op.test/token", status, media_type, body)


@pytest.mark.parametrize(
    "media_type", ["application/json", "application/jwk-set+json", "application/scim+json"]
)
def test_json_media_types_are_read(media_type: str) -> None:
    assert answer(media_type=media_type).document() == {"a": 1}


@pytest.mark.parametrize("media_type", ["", "text/html", "text/json", "application/jsonp", "json"])
def test_other_media_types_are_not_json(media_type: str) -> None:
    with refused(Code.PROVIDER_ANSWER_MALFORMED, ProviderError):
        answer(media_type=media_type).document()


def test_a_byte_order_mark_is_ignored() -> None:
    assert answer(b'\xef\xbb\xbf{"a": 1}').document() == {"a": 1}


def test_a_published_document_may_be_plain_text() -> None:
    plain = answer(media_type="text/plain")
    assert plain.published_document() == {"a": 1}
    for other in ("text/html", ""):
        with pytest.raises(ProviderError):
            answer(media_type=other).published_document()
    with pytest.raises(ProviderError):
        plain.document()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe\xfa",
        b'{"expires_in": NaN}',
        b'{"expires_in": Infinity}',
        b"[" * 100_000,
        b"9" * 10_000,
    ],
    ids=["empty", "cut", "no text", "NaN", "Infinity", "deep", "huge number"],
)
def test_a_body_that_is_not_json_is_refused_without_quoting_it(body: bytes) -> None:
    with pytest.raises(ProviderError) as caught:
        answer(body).document()
    assert caught.value.code == Code.PROVIDER_ANSWER_MALFORMED
    assert str(body)[2:10] not in str(caught.value) or not body


def test_an_error_answer_that_is_not_json_has_no_document() -> None:
    assert answer(b"<h1>Bad gateway</h1>", media_type="text/html").document_or_none() is None


def test_text_that_is_not_ascii_is_refused() -> None:
    with refused(Code.PROVIDER_ANSWER_MALFORMED, ProviderError):
        answer("é".encode(), media_type="application/jwt").text()


def test_another_status_than_expected_is_refused() -> None:
    answer(status=201).require_status(200, 201)
    with pytest.raises(ProviderError) as caught:
        answer(status=503).require_status(200, 201)
    assert caught.value.code == Code.PROVIDER_STATUS
    assert caught.value.details["status"] == 503


def test_the_representation_hides_the_body() -> None:
    assert "secret" not in repr(answer(b'{"access_token": "secret"}'))
