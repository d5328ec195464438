"""The doctor at a provider that nobody here wrote."""

import pytest

from fastapi_oidc import OIDCSettings
from fastapi_oidc.doctor import Finding, Verdict, examine
from tests.oidc.real_op.relying_party import RelyingParty


async def found(settings: OIDCSettings) -> list[Finding]:
    return [finding async for finding in examine(settings)]


async def test_the_certified_provider_has_no_fault(rp: RelyingParty) -> None:
    findings = await found(rp.oidc.settings)
    assert [finding for finding in findings if finding.verdict is Verdict.FAULT] == []
    topics = {finding.topic for finding in findings if finding.verdict is Verdict.OK}
    assert {
        "discovery",
        "issuer",
        "clock",
        "PKCE",
        "algorithms",
        "keys",
        "client",
        "redirect URI",
    } <= topics


@pytest.mark.parametrize(
    ("change", "topic"),
    [
        ({"client_secret": "another-secret-of-32-characters-0"}, "client"),
        ({"id_token_signing_algorithms": ["ES512"]}, "algorithms"),
        ({"base_url": "http://127.0.0.1:1"}, "redirect URI"),
    ],
)
async def test_one_wrong_setting_is_its_only_fault(
    rp: RelyingParty, change: dict[str, object], topic: str
) -> None:
    findings = await found(rp.oidc.settings.model_copy(update=change))
    faults = [finding.topic for finding in findings if finding.verdict is Verdict.FAULT]
    assert faults == [topic]
