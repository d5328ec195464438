"""Config RP: discovery, the key set and its rotation."""

from __future__ import annotations

import pytest

from fastapi_oidc import Code
from tests.oidc.conformance.relying_party import RelyingParty, relying_party
from tests.oidc.conformance.suite_messages import with_suffix


@pytest.fixture
def rp() -> RelyingParty:
    return relying_party()


async def test_oidcc_client_test_discovery_openid_config(rp: RelyingParty) -> None:
    await rp.must_accept()
    assert rp.op.calls[0] == "metadata"


async def test_oidcc_client_test_discovery_jwks_uri_keys(rp: RelyingParty) -> None:
    await rp.must_accept()
    assert rp.op.calls.index("metadata") < rp.op.calls.index("jwks") < rp.op.calls.index("userinfo")


async def test_oidcc_client_test_discovery_issuer_mismatch(rp: RelyingParty) -> None:
    rp.op.edits["metadata"] = with_suffix("issuer", "INVALID")
    answer = await rp.sign_in()
    assert answer.json()["code"] == Code.PROVIDER_ISSUER_MISMATCH
    assert rp.op.calls == ["metadata"]


async def test_oidcc_client_test_signing_key_rotation_just_before_signing(rp: RelyingParty) -> None:
    await rp.must_accept()
    rp.op.before_token = rp.op.keys.rotate
    rp.op.userinfo_tokens.clear()
    await rp.must_accept()
    assert rp.op.calls.count("jwks") == 2


async def test_oidcc_client_test_signing_key_rotation(rp: RelyingParty) -> None:
    await rp.must_accept()
    rp.op.keys.rotate()
    rp.op.userinfo_tokens.clear()
    await rp.must_accept()
    assert rp.op.calls.count("jwks") == 2
    assert rp.op.calls.count("userinfo") == 2
