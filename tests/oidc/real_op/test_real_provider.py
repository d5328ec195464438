import httpx

from tests.oidc.real_op.real_provider import RealProvider


def test_every_algorithm_has_a_key_and_rotation_replaces_them(provider: RealProvider) -> None:
    before = httpx.get(f"{provider.issuer}/jwks").json()["keys"]
    provider.rotate_keys()
    after = httpx.get(f"{provider.issuer}/jwks").json()["keys"]
    assert {key["alg"] for key in before} == {"RS256", "PS256", "ES256", "EdDSA"}
    assert not {key["kid"] for key in before} & {key["kid"] for key in after}
