"""`python -m examples.dpop`: a stolen token opens nothing."""

from __future__ import annotations

import re

import httpx

from fastapi_oidc.testing import sign_in_sync
from tests.examples.programs import lines_of, started


def test_only_the_call_with_a_proof_is_answered() -> None:
    with started("examples.dpop") as process, httpx.Client() as browser:
        [told] = lines_of(process, 1)
        [url] = re.findall(r"http://\S+/", told)
        assert sign_in_sync(browser, url, user="alice").json() == {
            "with a proof": 200,
            "without the key": 401,
            "with the proof of another request": 401,
        }
