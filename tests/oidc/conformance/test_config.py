"""Config RP: discovery, the key set and its rotation."""

import pytest
from starlette.responses import Response

from fastapi_oidc import Code
from fastapi_oidc.testing import DevProvider
from fastapi_oidc.testing.faults import Answer
from tests.oidc.conformance.relying_party import METADATA, RelyingParty, relying_party, with_suffix


@pytest.fixture
def rp() -> RelyingParty:
    return relying_party()


async def test_oidcc_client_test_discovery_openid_config(rp: RelyingParty) -> None:
    await rp.must_accept()
    assert rp.paths[0] == METADATA


async def test_oidcc_client_test_discovery_jwks_uri_keys(rp: RelyingParty) -> None:
    await rp.must_accept()
    assert rp.paths.index(METADATA) < rp.paths.index("/jwks") < rp.paths.index("/userinfo")


async def test_oidcc_client_test_discovery_issuer_mismatch(rp: RelyingParty) -> None:
    rp.edit("metadata", with_suffix("issuer", "INVALID"))
    await rp.must_refuse(Code.PROVIDER_ISSUER_MISMATCH)
    assert rp.paths == [METADATA]


class Rotating:
    """The keys are replaced while the request is under way."""

    def __init__(self, op: DevProvider) -> None:
        self.op = op

    async def happen(self, answer: Answer) -> Response:
        self.op.rotate_keys()
        return await answer()


async def test_oidcc_client_test_signing_key_rotation_just_before_signing(rp: RelyingParty) -> None:
    await rp.must_accept()
    rp.world.op.faults.put("token", Rotating(rp.world.op))
    await rp.must_accept()
    assert rp.paths.count("/jwks") == 2


async def test_oidcc_client_test_signing_key_rotation(rp: RelyingParty) -> None:
    await rp.must_accept()
    rp.world.op.rotate_keys()
    await rp.must_accept()
    assert rp.paths.count("/jwks") == 2
