"""What `fastapi_oidc` costs: `python -m tools.benchmarks.oidc`.

A request with a session of 2 kB in the cookie, in a tight loop and with cold caches; reading it
from each store; fifty connections on two workers; an RS256 ID token; a login; and a thousand
sessions that expire at once. Peers get the same payload. But for the fifty connections, requests
are made in one process and without a socket, so that only Python code is measured. Exits with 1
when a target was missed, and says which.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Mapping

from fastapi_oidc import SessionCodec, StandardIdentity
from tools.benchmarks.machine import show_machine
from tools.benchmarks.oidc_id_tokens import a_signed_id_token, token_cases
from tools.benchmarks.oidc_imports import oidc_import_targets
from tools.benchmarks.oidc_login_rate import login_rate_targets
from tools.benchmarks.oidc_logins import login_targets
from tools.benchmarks.oidc_peers import peer_cases
from tools.benchmarks.oidc_served import served_targets
from tools.benchmarks.oidc_sessions import (
    BARE,
    OURS,
    OURS_DEPENDS,
    OURS_ENDINGS,
    OURS_FIRST,
    OURS_MEMORY,
    PEER,
    PEER_DEPENDS,
    PEER_FIRST,
    a_session_of_2_kb,
    cold,
    floor_of,
    session_cases,
)
from tools.benchmarks.oidc_stores import growth_targets, store_targets
from tools.benchmarks.oidc_storm import storm_targets
from tools.benchmarks.rounds import Cost, costs, repeated
from tools.benchmarks.targets import Target, report

ROUNDS, REQUESTS = 101, 50
COLD_ROUNDS = 200
SPARE_BROWSERS = 10
TOKENS = 20


def main() -> int:
    """Measures everything and prints it; the exit status."""
    show_machine()
    return report(list(oidc_targets()))


def oidc_targets() -> Iterator[Target]:
    """Measures everything, shows the figures and says what was aimed at."""
    session = a_session_of_2_kb()
    yield from request_targets()
    yield from store_targets(session)
    yield from growth_targets(session)
    yield from served_targets()
    yield from token_targets()
    yield from login_targets()
    yield from login_rate_targets()
    yield from storm_targets()
    yield from oidc_import_targets()


def request_targets() -> Iterator[Target]:
    session = a_session_of_2_kb()
    payload = SessionCodec(StandardIdentity).encode(session)
    browsers = ROUNDS * REQUESTS + COLD_ROUNDS + SPARE_BROWSERS
    cases = session_cases(session, payload, browsers=browsers) | peer_cases(payload)
    print(f"\nA request with a session of {len(payload)} bytes of JSON, in-process ASGI, µs:")
    tight = costs(cases, rounds=ROUNDS, calls=REQUESTS)
    show_requests("in a tight loop", tight)
    yield from compared("tight loop", tight)
    memory = added_ratio(tight, OURS_MEMORY, OURS_ENDINGS)
    yield Target("request, tight loop, memory store / cookie, both with endings", memory, 1)
    cool = cold(cases, rounds=COLD_ROUNDS)
    show_requests("with cold caches", cool)
    yield from compared("cold caches", cool)
    floor = costs({"floor": repeated(floor_of(payload))}, rounds=ROUNDS, calls=REQUESTS)["floor"]
    print(f"  base64, AES-GCM and json alone: {floor.median_wall:.1f}")


def compared(how: str, figures: Mapping[str, Cost]) -> Iterator[Target]:
    """What ours adds to a bare endpoint, beside what the peer adds, each way to ask for it.

    What is aimed at is about a browser that asks again: a page makes its requests within seconds,
    with one cookie. The first request of each minute, and unlike ways to ask, are shown.
    """
    judged = (
        ("both by the request", OURS, PEER),
        ("both by a Depends", OURS_DEPENDS, PEER_DEPENDS),
    )
    shown = (
        ("each request with another cookie / SessionMiddleware", OURS_FIRST, PEER_FIRST),
        ("ours by a Depends / SessionMiddleware by the request", OURS_DEPENDS, PEER),
        ("memory store with endings / cookie without", OURS_MEMORY, OURS),
    )
    for kind, ours, peer in shown:
        print(f"    {added_ratio(figures, ours, peer):.2f} {kind}")
    for kind, ours, peer in judged:
        ratio = added_ratio(figures, ours, peer)
        yield Target(f"request, {how}, ours / SessionMiddleware, {kind}", ratio, 1)


def added_ratio(figures: Mapping[str, Cost], ours: str, peer: str) -> float:
    return added(figures[ours], figures[BARE]) / added(figures[peer], figures[BARE])


def added(cost: Cost, bare: Cost) -> float:
    """The median over the rounds of what it took more on the clock, µs."""
    return statistics.median(a - b for a, b in zip(cost.wall, bare.wall, strict=True))


def show_requests(how: str, figures: Mapping[str, Cost]) -> None:
    print(f"  {how:<40}{'wall':>8}{'CPU':>8}{'adds':>8}")
    for name, cost in figures.items():
        times = f"{cost.median_wall:8.1f}{cost.median_cpu:8.1f}{added(cost, figures[BARE]):8.1f}"
        print(f"    {name:<38}{times}")


def token_targets() -> Iterator[Target]:
    token, key = a_signed_id_token()
    figures = costs(token_cases(token, key), rounds=ROUNDS, calls=TOKENS)
    print(f"\nAccepting an RS256 ID token of {len(token)} characters, µs, wall and CPU:")
    for name, cost in figures.items():
        print(f"  {name:<32}{cost.median_wall:8.1f}{cost.median_cpu:8.1f}")
    ours, bare = figures["fastapi_oidc"], figures["bare cryptography verify"]
    yield Target("accepting an ID token / bare verify", ours.wall_ratio(bare), 2)


if __name__ == "__main__":
    sys.exit(main())
