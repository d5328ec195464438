"""The page that ends a silent login."""

import re
from base64 import b64encode
from hashlib import sha256

import pytest

from fastapi_oidc.web.pages import STYLE_SOURCE, SilentPage


def test_it_says_outcome_and_code() -> None:
    page = SilentPage("error", "authorization.refused").body.decode()
    assert 'data-outcome="error" data-code="authorization.refused"' in page


def test_a_code_cannot_break_out_of_its_attribute() -> None:
    page = SilentPage("error", '"><script>alert(1)</script>').body.decode()
    assert page.count("<script>") == 1
    assert 'data-code="&quot;&gt;&lt;script' in page


@pytest.mark.parametrize("page", [SilentPage("same_user"), SilentPage("error", "x")])
def test_the_policy_allows_its_one_script_alone(page: SilentPage) -> None:
    [script] = re.findall(r"<script>(.*)</script>", page.body.decode())
    digest = b64encode(sha256(script.encode()).digest()).decode()
    assert page.headers["Content-Security-Policy"] == (
        f"default-src 'none'; script-src 'sha256-{digest}'; {STYLE_SOURCE}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    )


def test_the_message_goes_to_its_own_origin_only() -> None:
    assert b"location.origin)" in SilentPage("same_user").body
    assert b"'*'" not in SilentPage("same_user").body
