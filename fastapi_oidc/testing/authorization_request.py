"""Reading an authorization request, sent directly or pushed (Core 3.1.2.1, RFC 9126)."""

from __future__ import annotations

from fastapi_oidc.testing.asked import AuthorizationRequest, ResponseMode, ReturnAddress
from fastapi_oidc.testing.messages import Parameters, Refusal, required
from fastapi_oidc.testing.state import ProviderState

_PROMPTS = frozenset({"none", "login", "consent", "select_account"})
_CHALLENGE_LENGTH = 43


def resolved(op: ProviderState, parameters: Parameters) -> Parameters:
    """The parameters, or those that were pushed under `request_uri`; each push is used once."""
    if "request_uri" not in parameters:
        client = op.clients.get(parameters.get("client_id", ""))
        if client is not None and client.require_pushed_authorization_requests:
            raise Refusal("invalid_request", "this client must push its authorization requests")
        return parameters
    pushed = op.pushed.take(parameters["request_uri"])
    if pushed is None:
        raise Refusal("invalid_request_uri", "the request_uri is unknown, expired or used")
    if pushed["client_id"] != required(parameters, "client_id"):
        raise Refusal("invalid_request", "the request was pushed by another client")
    return pushed


def return_address(op: ProviderState, parameters: Parameters) -> ReturnAddress:
    """Refuses an unknown client or redirect URI, which must never be redirected to."""
    client = op.clients.get(required(parameters, "client_id"))
    if client is None:
        raise Refusal("invalid_client", "no client is registered under this client_id")
    redirect_uri = required(parameters, "redirect_uri")
    if not client.may_return_to(redirect_uri):
        raise Refusal("invalid_request", f"redirect_uri is not registered: {redirect_uri}")
    return ReturnAddress(client, redirect_uri, parameters.get("state"), _response_mode(parameters))


def authorization_request(parameters: Parameters, address: ReturnAddress) -> AuthorizationRequest:
    """Refuses everything that a client may be told about."""
    if "request" in parameters:
        raise Refusal("request_not_supported", "request objects are not supported")
    if required(parameters, "response_type") != "code":
        raise Refusal("unsupported_response_type", "response_type must be code")
    return AuthorizationRequest(
        address=address,
        scope=_scope(parameters),
        nonce=parameters.get("nonce"),
        code_challenge=_code_challenge(parameters),
        prompt=_prompt(parameters),
        max_age=_max_age(parameters),
        login_hint=parameters.get("login_hint"),
        id_token_hint=parameters.get("id_token_hint"),
    )


def _response_mode(parameters: Parameters) -> ResponseMode:
    match parameters.get("response_mode", "query"):
        case "query":
            return "query"
        case "form_post":
            return "form_post"
    raise Refusal("invalid_request", "response_mode must be query or form_post")


def _scope(parameters: Parameters) -> tuple[str, ...]:
    scope = tuple(parameters.get("scope", "").split(" "))
    if "openid" not in scope:
        raise Refusal("invalid_scope", "scope must contain openid")
    return scope


def _code_challenge(parameters: Parameters) -> str:
    """PKCE with S256 is demanded of every client (RFC 7636 4.3, RFC 9700 2.1.1)."""
    challenge = required(parameters, "code_challenge")
    if parameters.get("code_challenge_method") != "S256" or len(challenge) != _CHALLENGE_LENGTH:
        raise Refusal("invalid_request", "code_challenge must be of method S256")
    return challenge


def _prompt(parameters: Parameters) -> frozenset[str]:
    prompt = frozenset(parameters.get("prompt", "").split())
    if not prompt <= _PROMPTS:
        raise Refusal("invalid_request", "prompt has an unknown value")
    if "none" in prompt and len(prompt) > 1:
        raise Refusal("invalid_request", "prompt none cannot be combined")
    return prompt


def _max_age(parameters: Parameters) -> int | None:
    text = parameters.get("max_age")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        raise Refusal("invalid_request", "max_age must be a number of seconds")
    return int(text)
