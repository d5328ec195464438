"""What `fastapi_oidc` costs: `python -m benchmarks.oidc`.

In one process and without a socket, so that only Python code is measured, in processor time: what
a session of 2 kB adds to a request, and what it takes to accept an RS256 ID token. Peers get the
same payload.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.oidc_id_tokens import a_signed_id_token, token_cases
from benchmarks.oidc_sessions import a_session_of_2_kb, session_cases
from benchmarks.rounds import medians
from fastapi_oidc import SessionCodec, StandardIdentity

ROUNDS = 201
REQUESTS = 50
TOKENS = 50


def main() -> None:
    session = a_session_of_2_kb()
    payload = SessionCodec(StandardIdentity).encode(session)
    print(f"A request with a session of {len(payload)} bytes of JSON, in-process ASGI, µs:")
    show(medians(session_cases(session, payload), rounds=ROUNDS, calls=REQUESTS))
    token, key = a_signed_id_token()
    print(f"\nAccepting an RS256 ID token of {len(token)} characters, µs:")
    show_tokens(medians(token_cases(token, key), rounds=ROUNDS, calls=TOKENS))


def show(figures: Mapping[str, float]) -> None:
    bare, floor = figures["bare endpoint"], figures["floor"]
    for name, microseconds in figures.items():
        added = "" if name in ("bare endpoint", "floor") else f"  adds {microseconds - bare:6.1f}"
        print(f"  {name:<32}{microseconds:8.1f}{added}")
    ours = figures["fastapi_oidc"] - bare
    peer = figures["Starlette SessionMiddleware"] - bare
    print(f"  ours / SessionMiddleware: {ours / peer:.2f} (target: below 1)")
    print(f"  ours / floor:             {ours / floor:.2f} (target: below 1.7)")


def show_tokens(figures: Mapping[str, float]) -> None:
    for name, microseconds in figures.items():
        print(f"  {name:<32}{microseconds:8.1f}")
    ratio = figures["fastapi_oidc"] / figures["bare cryptography verify"]
    print(f"  ours / bare verify:       {ratio:.2f} (target: below 2)")


if __name__ == "__main__":
    main()
