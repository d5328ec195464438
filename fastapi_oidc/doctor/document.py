"""Compares the discovery document with the settings; no I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from fastapi_oidc.clock import Clock
from fastapi_oidc.doctor.finding import Finding, fault, ok, warning
from fastapi_oidc.protocol.dpop import PROOF_ALGORITHM
from fastapi_oidc.protocol.encoding import JSON
from fastapi_oidc.protocol.jose.keys import JsonWebKeySet
from fastapi_oidc.protocol.refusal import shown
from fastapi_oidc.settings import OIDCSettings


def abilities(document: Mapping[str, JSON], settings: OIDCSettings) -> Iterator[Finding]:
    """Whether the provider supports what the settings need; an absent list is not a fault."""
    yield _pkce(document)
    yield from _response_mode(document, settings)
    method = settings.authentication().method
    offered = _names(document, "token_endpoint_auth_methods_supported") or ["client_secret_basic"]
    if method not in offered and method != "none":
        yield warning("client", f"{method} is not among {shown(offered)}")
    scopes = _names(document, "scopes_supported") or list(settings.scope)
    for scope in (scope for scope in settings.scope if scope not in scopes):
        yield warning("scope", f"{shown(scope)} is not among {shown(scopes)}")
    if "offline_access" in scopes and "offline_access" not in settings.scope:
        text = "offline_access is offered and scope does not ask for it"
        yield warning("scope", f"{text}: many providers give no refresh token then")
    if settings.dpop:
        yield _dpop(document)
    yield _back_channel_logout(document, settings)


def algorithms(
    document: Mapping[str, JSON], keys: JsonWebKeySet, settings: OIDCSettings
) -> Iterator[Finding]:
    """Whether the provider signs with the pinned algorithms and has keys for them."""
    pinned = settings.algorithms()
    offered = _names(document, "id_token_signing_alg_values_supported") or sorted(pinned)
    if not pinned.intersection(offered):
        text = f"the provider signs with {shown(offered)}, pinned are {shown(sorted(pinned))}"
        yield fault("algorithms", f"{text}: id_token_signing_algorithms")
        return
    yield ok("algorithms", f"{shown(sorted(pinned.intersection(offered)))} are accepted here")
    verifying = {name for key in keys.keys for name in key.verifiers}
    if any(not name.startswith("HS") for name in pinned) and not pinned & verifying:
        yield fault("keys", f"none of {len(keys.keys)} usable keys is for {shown(sorted(pinned))}")
    else:
        yield ok("keys", f"{len(keys.keys)} usable keys")


def clocks(date: str, clock: Clock) -> Finding:
    """The provider's clock compared with this one, by the Date header (RFC 9110 6.6.1)."""
    try:
        moment = parsedate_to_datetime(date)
    except ValueError:
        return warning("clock", "the provider sends no Date to compare with")
    seconds = int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()) - clock.now()
    here = datetime.fromtimestamp(clock.now(), UTC).strftime("%H:%M:%S UTC")
    text = f"the provider's is {abs(seconds)} s {'ahead' if seconds > 0 else 'behind'}; here {here}"
    return (ok if abs(seconds) <= clock.drift else fault)("clock", text)


def _names(document: Mapping[str, JSON], member: str) -> list[str] | None:
    value = document.get(member)
    return [str(name) for name in value] if isinstance(value, list) else None


def _pkce(document: Mapping[str, JSON]) -> Finding:
    """Whether the provider knows S256; it must refuse an unknown method (RFC 7636 4.4.1)."""
    methods = _names(document, "code_challenge_methods_supported")
    if not methods:
        return warning("PKCE", "not mentioned; a code challenge is sent all the same")
    return (ok if "S256" in methods else fault)("PKCE", f"supported are {shown(methods)}")


def _response_mode(document: Mapping[str, JSON], settings: OIDCSettings) -> Iterator[Finding]:
    """Whether the provider sends responses in the mode of the settings (Discovery 1.0, 3)."""
    mode, offered = settings.response_mode, _names(document, "response_modes_supported")
    if offered and mode not in offered:
        yield fault("response mode", f"{mode} is not among {shown(offered)}: response_mode")
    elif not offered and mode == "form_post":
        yield warning("response mode", f"{mode} is not mentioned")


def _dpop(document: Mapping[str, JSON]) -> Finding:
    """Whether the provider accepts the proofs of this library (RFC 9449 5.1)."""
    offered = _names(document, "dpop_signing_alg_values_supported")
    if offered is None:
        return fault("DPoP", "not supported: the metadata has no dpop_signing_alg_values_supported")
    if PROOF_ALGORITHM in offered:
        return ok("DPoP", f"{PROOF_ALGORITHM} is accepted")
    return fault("DPoP", f"proofs are signed with {PROOF_ALGORITHM}, accepted are {shown(offered)}")


def _back_channel_logout(document: Mapping[str, JSON], settings: OIDCSettings) -> Finding:
    if document.get("backchannel_logout_supported") is not True:
        text = "not supported: sessions end here with their refresh"
        return warning("back-channel logout", text)
    # The metadata does not say whether logout tokens have an `exp`.
    accepted = "are accepted" if settings.logout_token_without_exp else "are refused"
    text = f"supported; tokens without exp {accepted} (logout_token_without_exp)"
    return ok("back-channel logout", text)
