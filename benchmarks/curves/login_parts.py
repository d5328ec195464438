"""Where the time of a login goes."""

from __future__ import annotations

from benchmarks.curves.pictures import Bars
from benchmarks.oidc_login_apps import OURS, PEER
from benchmarks.oidc_logins import LOGIN, LOGINS, logins
from benchmarks.targets import Target


def where_a_login_goes(count: int = LOGINS) -> Bars:
    """Measures ours and authlib's."""
    taken = logins(count)
    rates = [f"{name}: {each.rate:.0f}" for name, each in taken.items()]
    return Bars(
        title="A login, and where its time goes",
        x="ms, from the click to the page that needed it",
        bars={name: each.usual for name, each in taken.items()},
        note=f"First quartiles of {count} logins in turns, with a provider in its own process; "
        f"the browser is httpx. Logins a second, one after the other: {'; '.join(rates)}.",
        targets=[Target(LOGIN, taken[OURS].own / taken[PEER].own, 1)],
    )
