"""The authorization endpoint: its request, the login page, and the response to the client."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from fastapi_oidc.testing import pages
from fastapi_oidc.testing.contexts import requested_contexts
from fastapi_oidc.testing.grants import AuthorizationCode, Grant, OPSession, session_state
from fastapi_oidc.testing.hints import verified_hint
from fastapi_oidc.testing.messages import (
    NO_STORE,
    Parameters,
    Refusal,
    form_parameters,
    request_parameters,
    required,
)
from fastapi_oidc.testing.record import AuthorizationRequested, Refused, SignedIn
from fastapi_oidc.testing.registration import DevUser
from fastapi_oidc.testing.state import (
    AuthorizationRequest,
    ProviderState,
    ResponseMode,
    ReturnAddress,
)
from fastapi_oidc.testing.targets import requested_resource

_PROMPTS = frozenset({"none", "login", "consent", "select_account"})
_CHALLENGE_LENGTH = 43


def resolved(op: ProviderState, parameters: Parameters) -> Parameters:
    """The parameters, or those that were pushed as `request_uri`. Each push is used once."""
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
    """Refuse an unknown client or redirect URI, to which the browser must not be redirected."""
    client = op.clients.get(required(parameters, "client_id"))
    if client is None:
        raise Refusal("invalid_client", "no client is registered under this client_id")
    redirect_uri = required(parameters, "redirect_uri")
    if not client.may_return_to(redirect_uri):
        raise Refusal("invalid_request", f"redirect_uri is not registered: {redirect_uri}")
    return ReturnAddress(client, redirect_uri, parameters.get("state"), _response_mode(parameters))


def authorization_request(
    op: ProviderState, parameters: Parameters, address: ReturnAddress
) -> AuthorizationRequest:
    """Read the request; its refusals may be sent to the client."""
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
        resource=requested_resource(op, parameters),
        acr_values=requested_contexts(op, parameters),
    )


def _response_mode(parameters: Parameters) -> ResponseMode:
    match parameters.get("response_mode", "query"):
        case "query":
            return "query"
        case "form_post":
            return "form_post"
    raise Refusal("invalid_request", "response_mode must be query or form_post")


def _scope(parameters: Parameters) -> tuple[str, ...]:
    """The scope; a request for an API's token only needs no `openid` (RFC 6749 3.3)."""
    scope = tuple(parameters.get("scope", "").split(" "))
    if "openid" not in scope and "resource" not in parameters:
        raise Refusal("invalid_scope", "scope must contain openid, unless there is a resource")
    return scope


def _code_challenge(parameters: Parameters) -> str:
    """Require PKCE with S256 from every client (RFC 7636 4.3, RFC 9700 2.1.1)."""
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


async def authorize(op: ProviderState, request: Request) -> Response:
    """Respond to an authorization request directly or with the login page (Core 3.1.2)."""
    given = await request_parameters(request)
    parameters = resolved(op, given)
    address = return_address(op, parameters)
    try:
        asked = authorization_request(op, parameters, address)
        client_id, pushed = address.client.client_id, "request_uri" in given
        op.record.add(AuthorizationRequested(client_id, parameters, pushed=pushed))
        session = _session_without_page(op, asked, op.sessions.of(request))
    except Refusal as refusal:
        op.record.add(Refused("authorization", refusal.error, refusal.description))
        return _answer(op, address, refusal.members())
    if session is None:
        return pages.login(op.users.values(), asked, op.logins.put(asked))
    return _grant(op, asked, session)


async def log_in(op: ProviderState, request: Request) -> Response:
    """Sign in the user who was chosen on the login page. A page can be used once."""
    form = await form_parameters(request)
    name = required(form, "user")
    user = op.users.get(name)
    if user is None:
        known = ", ".join(op.users)
        raise Refusal("access_denied", f"there is no user {name!r} here; there are: {known}")
    asked = op.logins.take(required(form, "login"))
    if asked is None:
        raise Refusal("invalid_request", "this login page is too old: start again from the app")
    return _grant(op, asked, _signed_in(op, asked, user, op.sessions.of(request)))


async def decline(op: ProviderState, request: Request) -> Response:
    """The user chose not to sign in (Core 3.1.2.6)."""
    asked = op.logins.take(required(await form_parameters(request), "login"))
    if asked is None:
        raise Refusal("invalid_request", "this login page is too old: start again from the app")
    refusal = Refusal("access_denied", "the user declined to sign in")
    op.record.add(Refused("authorization", refusal.error, refusal.description))
    return _answer(op, asked.address, refusal.members())


def _session_without_page(
    op: ProviderState, asked: AuthorizationRequest, session: OPSession | None
) -> OPSession | None:
    """The session for the response; None when the login page is needed."""
    is_fresh = session is not None and not _must_sign_in_again(op, asked, session)
    if "none" in asked.prompt:
        if session is None or not is_fresh or not _is_expected(op, asked, session.user):
            raise Refusal("login_required", "no suitable user is signed in")
        return session
    hinted = op.users.get(asked.login_hint or "")
    if hinted is not None and not (is_fresh and session is not None and session.user == hinted):
        return _signed_in(op, asked, hinted, session)
    return session if is_fresh else None


def _must_sign_in_again(op: ProviderState, asked: AuthorizationRequest, session: OPSession) -> bool:
    if asked.prompt & {"login", "select_account"}:
        return True
    if asked.max_age == 0:  # like prompt=login (Core 3.1.2.1)
        return True
    if asked.acr_values and session.acr not in asked.acr_values:
        return True
    return asked.max_age is not None and op.clock.now() - session.auth_time > asked.max_age


def _is_expected(op: ProviderState, asked: AuthorizationRequest, user: DevUser) -> bool:
    """Whether `user` is the user of the `id_token_hint` (Core 3.1.2.1)."""
    if asked.id_token_hint is None:
        return True
    hinted = verified_hint(op, asked.id_token_hint)
    return hinted is not None and hinted.user == user


def _signed_in(
    op: ProviderState, asked: AuthorizationRequest, user: DevUser, session: OPSession | None
) -> OPSession:
    """The browser's session after `user` signed in; another user's session is replaced."""
    acr = next(iter(asked.acr_values or op.acr_values), None)
    if session is not None and session.user == user:
        session.auth_time, session.acr = op.clock.now(), acr
        return session
    if session is not None:
        op.sessions.end(session)
    return op.sessions.begin(OPSession(user, op.clock.now(), acr))


def _grant(op: ProviderState, asked: AuthorizationRequest, session: OPSession) -> Response:
    """Respond with a new code (Core 3.1.2.5)."""
    address, sid = asked.address, session.sid_for(asked.client)
    grant = Grant(
        asked.client,
        session.user,
        asked.scope,
        asked.nonce,
        session.auth_time,
        sid,
        acr=session.acr,
        resources=frozenset({asked.resource} if asked.resource else ()),
    )
    code = op.credentials.issue_code(
        AuthorizationCode(
            grant,
            op.clock.now() + op.lifetimes.code,
            redirect_uri=address.redirect_uri,
            code_challenge=asked.code_challenge,
        )
    )
    op.record.add(SignedIn(asked.client.client_id, session.user.sub, sid))
    watched = session_state(session, asked.client, address.redirect_uri)
    response = _answer(op, address, {"code": code, "session_state": watched})
    op.sessions.write_cookies(response, session)
    return response


def _answer(op: ProviderState, address: ReturnAddress, members: Mapping[str, str]) -> Response:
    """Redirect the browser back with `members`, the state and the issuer (RFC 9207)."""
    state = {} if address.state is None else {"state": address.state}
    issuer = {"iss": op.issuer} if op.published_issuer == op.issuer else {}
    edited = op.edits.edited("authorization_response", {**members, **state, **issuer})
    parameters = {name: str(value) for name, value in edited.items()}
    if address.response_mode == "form_post":
        return pages.form_post(address.redirect_uri, parameters)
    joint = "&" if "?" in address.redirect_uri else "?"
    url = address.redirect_uri + joint + urlencode(parameters)
    return RedirectResponse(url, 303, headers=NO_STORE)
