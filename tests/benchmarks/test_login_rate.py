"""Many logins at once: every one that counts has come to its page."""

from __future__ import annotations

import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the peers
    from benchmarks.oidc_login_apps import OURS, PEER, a_dev_provider
    from benchmarks.oidc_login_rate import Rate, a_browser, an_application, compared, one_login


@pytest.mark.parametrize("name", [OURS, PEER])
async def test_a_browser_signs_in_through_a_proxy_again_and_again(name: str) -> None:
    with a_dev_provider() as issuer, an_application(name, issuer) as (port, process):
        assert process.is_alive()
        async with a_browser(port, issuer) as browser:
            for _ in range(2):
                await one_login(browser)
            assert (await browser.get("/me")).json() == {"sub": "alice"}
            browser.cookies.clear()
            assert (await browser.get("/me")).status_code in (401, 500)


def test_half_of_the_logins_in_a_second_is_twice_the_time() -> None:
    targets = list(compared({OURS: Rate(20, 5), PEER: Rate(10, 50)}))
    assert [target.figure for target in targets] == [0.5, 0.1]
    assert all(target.is_met for target in targets)
