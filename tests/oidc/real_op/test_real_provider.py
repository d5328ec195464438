from pathlib import Path

import httpx
import pytest

from tests.oidc.real_op import real_provider
from tests.oidc.real_op.real_provider import RealProvider, running_provider


@pytest.fixture
def not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(real_provider, "NODE_FOLDER", tmp_path)


@pytest.mark.usefixtures("not_installed")
def test_without_its_package_a_test_is_skipped_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="npm ci --prefix tests"):
        running_provider("oidc-provider").__enter__()


@pytest.mark.usefixtures("not_installed")
def test_without_its_package_a_test_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="npm ci --prefix tests"):
        running_provider("oidc-provider").__enter__()


def test_the_provider_ends_with_the_block() -> None:
    with running_provider("oidc-provider") as provider:
        assert httpx.get(f"{provider.issuer}/jwks").status_code == 200
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{provider.issuer}/jwks")


def test_every_algorithm_has_a_key_and_rotation_replaces_them(provider: RealProvider) -> None:
    before = httpx.get(f"{provider.issuer}/jwks").json()["keys"]
    provider.rotate_keys()
    after = httpx.get(f"{provider.issuer}/jwks").json()["keys"]
    assert {key["alg"] for key in before} == {"RS256", "PS256", "ES256", "EdDSA"}
    assert not {key["kid"] for key in before} & {key["kid"] for key in after}
