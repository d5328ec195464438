"""Where the time of a login goes, and how many one process completes."""

from __future__ import annotations

from tools.benchmarks.curves.pictures import Bars
from tools.benchmarks.oidc_login_apps import OURS, PEER
from tools.benchmarks.oidc_login_rate import PEOPLE, SECONDS, compared, login_rates
from tools.benchmarks.oidc_logins import LOGIN, LOGINS, logins
from tools.benchmarks.targets import Target


def where_a_login_goes(count: int = LOGINS, *, seconds: float = SECONDS) -> Bars:
    """Measures ours and authlib's."""
    taken, rates = logins(count), login_rates(seconds=seconds)
    completed = [f"{name}: {rate.a_second:.0f}" for name, rate in rates.items()]
    return Bars(
        title="A login, and where its time goes",
        x="ms, from the click to the page that needed it",
        bars={name: each.usual for name, each in taken.items()},
        note=f"First quartiles of {count} logins in turns, one after the other, with a provider in "
        f"its own process; the browser is httpx. With {PEOPLE} people at once, one process "
        f"completes in a second: {'; '.join(completed)}.",
        beside={
            f"logins in a second, {PEOPLE} people": {
                name: rate.a_second for name, rate in rates.items()
            },
            "processor of the application for a login, ms": {
                name: rate.cpu for name, rate in rates.items()
            },
        },
        targets=[
            Target(LOGIN, taken[OURS].own / taken[PEER].own, 1),
            *compared(rates),
        ],
    )
