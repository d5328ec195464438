from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

from fastapi_oidc.protocol.end_session import EndSessionRequest
from tests.oidc.protocol.examples import CLIENT_ID

REQUEST = EndSessionRequest(
    client_id=CLIENT_ID,
    id_token_hint="header.claims.signature",
    post_logout_redirect_uri="https://app.test/?a=b",
    state="state-1",
)


def test_the_parameters_of_a_logout() -> None:
    assert REQUEST.parameters() == {
        "client_id": CLIENT_ID,
        "id_token_hint": "header.claims.signature",
        "post_logout_redirect_uri": "https://app.test/?a=b",
        "state": "state-1",
    }


def test_a_hint_of_the_user_is_sent_by_its_name() -> None:
    request = EndSessionRequest(CLIENT_ID, logout_hint="alice@example.com")
    assert request.parameters()["logout_hint"] == "alice@example.com"


def test_without_a_session_the_client_is_named_all_the_same() -> None:
    assert EndSessionRequest(CLIENT_ID).parameters() == {"client_id": CLIENT_ID}


def test_the_query_of_the_endpoint_is_retained() -> None:
    url = urlsplit(REQUEST.url("https://op.test/logout?tenant=1"))
    assert url.path == "/logout"
    assert parse_qsl(url.query) == [("tenant", "1"), *REQUEST.parameters().items()]


def test_the_id_token_does_not_show() -> None:
    assert "header.claims.signature" not in repr(REQUEST)
