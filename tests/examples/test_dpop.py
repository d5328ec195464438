"""`python -m examples.dpop`: a stolen token opens nothing."""

from __future__ import annotations

import re

import httpx

from fastapi_oidc.testing import sign_in_sync
from tests.examples.programs import lines_of, started


def test_the_token_alone_opens_nothing() -> None:
    with started("examples.dpop") as process, httpx.Client() as browser:
        [told] = lines_of(process, 1)
        [url] = re.findall(r"http://\S+/", told)
        assert sign_in_sync(browser, url, user="alice").json() == {
            "with the key": 200,
            "with the token alone": 401,
        }
