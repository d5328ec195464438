"""Discovery: when it happens, how often, and what it refuses (Discovery 1.0, section 4)."""

from __future__ import annotations

import pytest

from fastapi_oidc.errors import Code, ProviderError
from tests.oidc.protocol.examples import refused
from tests.oidc.provider.op import METADATA, OP

DISCOVERY = "/tenant/.well-known/openid-configuration"


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
    with refused(Code.PROVIDER_STATUS, ProviderError):
        await op.provider().metadata()
