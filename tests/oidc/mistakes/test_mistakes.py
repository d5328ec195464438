"""Each mistake of docs/troubleshooting.md is made, and what its maker reads has the page's words.

So a symptom is found on the page by what was seen, and the page lists no symptom that nobody sees.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.oidc.mistakes import requests, signing_in
from tests.oidc.mistakes.desk import Desk, Mistake

TEXT: Final = (Path(__file__).parents[3] / "docs" / "troubleshooting.md").read_text()
QUOTED: Final = re.compile(r'"([^"`]+)"|`([^`]+)`')

MISTAKES: Final[Mapping[str, tuple[Mistake, ...]]] = {
    "Nobody can sign in": (
        signing_in.a_redirect_uri_that_is_not_registered,
        signing_in.another_browser,
        signing_in.another_host,
        signing_in.no_way_to_the_provider,
        signing_in.a_wrong_secret,
        signing_in.clocks_that_differ,
        signing_in.more_than_a_cookie_holds,
    ),
    "People are signed out": (
        signing_in.too_long_ago,
        signing_in.no_refresh_token,
        signing_in.another_secret,
        signing_in.memory_of_another_process,
        signing_in.a_refresh_token_that_is_over,
    ),
    "Requests are refused": (
        requests.no_token_in_a_form,
        requests.a_websocket_of_another_origin,
        requests.no_cors,
        requests.a_sign_out_by_fetch,
        requests.a_link_to_the_sign_out,
        requests.a_session_that_no_middleware_reads,
        requests.a_store_that_is_down,
    ),
    "Tests fail": (requests.a_client_without_the_provider, requests.a_user_whom_nobody_knows),
}
"""By the page's section, one for each of its rows."""

UNQUOTED: Final = {
    "the provider shows an error about the redirect URI": "fault: redirect URI",
    "\"Failed to fetch\" for `fetch('/auth/logout')`, although the session has ended": (
        "https://op.test/end-session"
    ),
    "not signed out, but calls to another API fail with 401 after some minutes": "offline_access",
}
"""What is read where the symptom is another program's."""


def symptoms(section: str) -> list[str]:
    """The first cells of the section's table."""
    text = TEXT.split(f"\n## {section}\n")[1].split("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    return [row.split(" | ")[0].removeprefix("| ") for row in rows[1:]]


def explained(symptom: str) -> list[str]:
    """The words of the symptom that its maker has before them."""
    if symptom in UNQUOTED:
        return [UNQUOTED[symptom]]
    quoted = ["".join(each) for each in QUOTED.findall(symptom)]
    return [part for text in quoted for part in text.split("...")]


ROWS = [
    (symptom, mistake)
    for section, mistakes in MISTAKES.items()
    for symptom, mistake in zip(symptoms(section), mistakes, strict=True)
]


def test_every_section_is_here() -> None:
    sections = re.findall(r"^## (.*)$", TEXT, re.MULTILINE)
    assert sorted(sections) == sorted(MISTAKES)


@pytest.mark.parametrize(
    ("symptom", "mistake"), ROWS, ids=[mistake.__name__ for _, mistake in ROWS]
)
async def test_a_mistake_is_explained_where_its_maker_looks(
    symptom: str,
    mistake: Mistake,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    seen = await mistake(Desk(monkeypatch, caplog, tmp_path))
    assert explained(symptom)
    for words in explained(symptom):
        assert words.lower() in seen.lower()
