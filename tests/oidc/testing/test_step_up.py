"""`acr` and `auth_time`: how strongly and how recently a user authenticated (RFC 9470)."""

import json

import pytest

from tests.oidc.testing.bare_client import BareClient, bare_client, jwt_parts


@pytest.fixture
def rp() -> BareClient:
    return bare_client(acr_values=("password", "otp"))


async def claims(rp: BareClient, **changes: str) -> dict[str, object]:
    return dict(jwt_parts((await rp.tokens(**changes))["id_token"])[1])


@pytest.mark.parametrize("member", [{"value": "otp"}, {"values": ["otp"], "essential": True}])
async def test_the_claims_parameter_demands_it_too(
    rp: BareClient, member: dict[str, object]
) -> None:
    requested = json.dumps({"id_token": {"acr": member}})
    assert (await claims(rp, claims=requested))["acr"] == "otp"


async def test_a_value_that_is_unknown_is_ignored_unless_essential(rp: BareClient) -> None:
    assert (await claims(rp, acr_values="retina"))["acr"] == "password"
    requested = {"id_token": {"acr": {"values": ["retina"], "essential": True}}}
    answer = await rp.answer(claims=json.dumps(requested))
    assert answer["error"] == "unmet_authentication_requirements"


@pytest.mark.parametrize("text", ["nonsense", "[]", '{"id_token": []}'])
async def test_claims_are_checked(rp: BareClient, text: str) -> None:
    assert (await rp.answer(claims=text))["error"] == "invalid_request"


async def test_a_silent_request_cannot_step_up(rp: BareClient) -> None:
    await claims(rp)
    answer = await rp.answer(acr_values="otp", prompt="none", login_hint="")
    assert answer["error"] == "login_required"


async def test_the_person_is_asked_on_the_login_page(rp: BareClient) -> None:
    await claims(rp)
    page = await rp.authorize(acr_values="otp", login_hint="")
    assert "Sign in" in page.text


async def test_max_age_0_is_as_prompt_login(rp: BareClient) -> None:
    await claims(rp)
    assert "Sign in" in (await rp.authorize(max_age="0", login_hint="")).text
    answer = await rp.answer(max_age="0", login_hint="", prompt="none")
    assert answer["error"] == "login_required"


async def test_the_metadata_names_the_values(rp: BareClient) -> None:
    metadata = (await rp.http.get("/.well-known/openid-configuration")).json()
    assert metadata["acr_values_supported"] == ["password", "otp"]
