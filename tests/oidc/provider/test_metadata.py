"""Discovery: when it happens, how often, and what it refuses (Discovery 1.0, section 4)."""

from __future__ import annotations

import pytest

from fastapi_oidc.errors import Code, ProviderError
from tests.oidc.provider.op import METADATA, OP

DISCOVERY = "/tenant/.well-known/openid-configuration"


def test_making_a_provider_asks_nothing(op: OP) -> None:
    op.provider()
    assert op.requests == []


async def test_the_final_slash_of_the_issuer_is_dropped_for_the_address_alone(op: OP) -> None:
    metadata = await op.provider().metadata()
    assert metadata.issuer == "https://op.test/tenant/"
    assert str(op.requests[0].url) == f"https://op.test{DISCOVERY}"


async def test_young_metadata_needs_no_second_request(op: OP) -> None:
    provider = op.provider()
    metadata = await provider.metadata()
    assert await provider.metadata() is metadata
    assert op.asked(DISCOVERY) == 1


@pytest.mark.parametrize("allow_insecure_http", [True, False])
async def test_an_http_endpoint_of_an_https_issuer_is_refused(
    op: OP, allow_insecure_http: bool
) -> None:
    op.answer(DISCOVERY, {**METADATA, "token_endpoint": "http://op.test/token"})
    with pytest.raises(ProviderError) as caught:
        await op.provider(allow_insecure_http=allow_insecure_http).metadata()
    assert caught.value.code == Code.PROVIDER_INSECURE_ENDPOINT


async def test_an_optional_endpoint_that_is_ignored_is_in_the_log(
    op: OP, caplog: pytest.LogCaptureFixture
) -> None:
    op.answer(DISCOVERY, {**METADATA, "check_session_iframe": "http://op.test/session"})
    assert (await op.provider().metadata()).check_session_iframe is None
    assert caplog.messages == [
        f"https://op.test{DISCOVERY}: check_session_iframe is not https; it counts as absent"
    ]


@pytest.mark.parametrize("status", [201, 400, 404, 500, 503])
async def test_another_status_than_200_is_refused(op: OP, status: int) -> None:
    op.answer(DISCOVERY, METADATA, status=status)
    with pytest.raises(ProviderError) as caught:
        await op.provider().metadata()
    assert caught.value.code == Code.PROVIDER_STATUS


async def test_every_call_shares_the_memory_of_a_failed_discovery(op: OP) -> None:
    op.break_off(DISCOVERY)
    provider = op.provider()
    with pytest.raises(ProviderError) as first:
        await provider.metadata()
    with pytest.raises(ProviderError) as second:
        await provider.refresh("rt")
    assert first.value.code == Code.PROVIDER_UNREACHABLE
    assert second.value.code == Code.PROVIDER_UNAVAILABLE
    op.now += 5
    op.answer(DISCOVERY, METADATA)
    assert (await provider.refresh("rt")).access_token == "at"
