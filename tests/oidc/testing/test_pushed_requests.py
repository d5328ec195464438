from dataclasses import replace

import httpx
import pytest

from tests.oidc.testing.bare_client import APP, BareClient, bare_client, returned


async def push(rp: BareClient, **changes: str) -> httpx.Response:
    return await rp.post("/par", rp.parameters(**changes))


async def visit(rp: BareClient, request_uri: str, *, client_id: str = "app") -> httpx.Response:
    parameters = {"client_id": client_id, "request_uri": request_uri}
    return await rp.http.get("/authorize", params=parameters)


async def test_it_is_used_once(rp: BareClient) -> None:
    request_uri = (await push(rp)).json()["request_uri"]
    await visit(rp, request_uri)
    assert (await visit(rp, request_uri)).status_code == 400


async def test_it_lives_one_minute(rp: BareClient) -> None:
    request_uri = (await push(rp)).json()["request_uri"]
    rp.time.now += 60
    assert (await visit(rp, request_uri)).status_code == 400


async def test_it_belongs_to_its_client() -> None:
    rp = bare_client(APP, replace(APP, client_id="other"))
    request_uri = (await push(rp)).json()["request_uri"]
    assert (await visit(rp, request_uri, client_id="other")).status_code == 400


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"redirect_uri": "https://app.test/other"}, "invalid_request"),
        ({"scope": "profile"}, "invalid_scope"),
        ({"code_challenge": ""}, "invalid_request"),
        ({"request_uri": "urn:example:1"}, "invalid_request"),
        ({"client_id": "other"}, "invalid_client"),
    ],
)
async def test_it_is_checked_when_it_is_pushed(
    rp: BareClient, change: dict[str, str], error: str
) -> None:
    refused = await push(rp, **change)
    assert refused.json()["error"] == error


async def test_a_client_that_must_push_cannot_do_without() -> None:
    rp = bare_client(replace(APP, require_pushed_authorization_requests=True))
    assert (await rp.authorize()).status_code == 400
    request_uri = (await push(rp)).json()["request_uri"]
    assert "code" in returned(await visit(rp, request_uri))
