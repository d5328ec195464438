"""The codes of all errors, with the HTTP status and the text that a browser receives."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from http import HTTPStatus
from typing import Final, NamedTuple

DOCUMENTATION: Final = (
    "https://github.com/fastapi-oidc-vmm/fastapi-oidc-vmm/blob/main/docs/errors.md"
)


class Code(StrEnum):
    """The stable code of an error. Codes are part of the public API and never renamed."""

    CONFIGURATION_INVALID = "configuration.invalid"
    CONFIGURATION_INSECURE_URL = "configuration.insecure_url"
    CONFIGURATION_SECRET_TOO_SHORT = "configuration.secret_too_short"
    CONFIGURATION_PROTECTED_PARAMETER = "configuration.protected_parameter"
    CONFIGURATION_KEY_UNUSABLE = "configuration.key_unusable"
    CONFIGURATION_MIDDLEWARE_MISSING = "configuration.middleware_missing"
    CONFIGURATION_INSTANCE_AMBIGUOUS = "configuration.instance_ambiguous"
    CONFIGURATION_ROUTE_MISSING = "configuration.route_missing"
    CONFIGURATION_STORE_MISSING = "configuration.store_missing"

    PROVIDER_UNREACHABLE = "provider.unreachable"
    PROVIDER_UNAVAILABLE = "provider.unavailable"
    PROVIDER_TIMEOUT = "provider.timeout"
    PROVIDER_REDIRECTED = "provider.redirected"
    PROVIDER_STATUS = "provider.status"
    PROVIDER_REFUSAL_UNREADABLE = "provider.refusal_unreadable"
    PROVIDER_ANSWER_TOO_LARGE = "provider.answer_too_large"
    PROVIDER_ANSWER_MALFORMED = "provider.answer_malformed"
    PROVIDER_ISSUER_MISMATCH = "provider.issuer_mismatch"
    PROVIDER_METADATA_INVALID = "provider.metadata_invalid"
    PROVIDER_INSECURE_ENDPOINT = "provider.insecure_endpoint"
    PROVIDER_ENDPOINT_MISSING = "provider.endpoint_missing"
    PROVIDER_KEYS_INVALID = "provider.keys_invalid"

    AUTHORIZATION_PARAMETER_REPEATED = "authorization.parameter_repeated"
    AUTHORIZATION_PARAMETER_TOO_LONG = "authorization.parameter_too_long"
    AUTHORIZATION_MALFORMED = "authorization.malformed"
    AUTHORIZATION_STATE_MISSING = "authorization.state_missing"
    AUTHORIZATION_STATE_MISMATCH = "authorization.state_mismatch"
    AUTHORIZATION_TRANSACTION_MISSING = "authorization.transaction_missing"
    AUTHORIZATION_ISSUER_MISSING = "authorization.issuer_missing"
    AUTHORIZATION_ISSUER_MISMATCH = "authorization.issuer_mismatch"
    AUTHORIZATION_CODE_MISSING = "authorization.code_missing"
    AUTHORIZATION_REFUSED = "authorization.refused"
    AUTHORIZATION_OTHER_USER = "authorization.other_user"

    TOKEN_INVALID_GRANT = "token.invalid_grant"
    TOKEN_INVALID_CLIENT = "token.invalid_client"
    TOKEN_REFUSED = "token.refused"
    TOKEN_MALFORMED = "token.malformed"
    TOKEN_TYPE = "token.type"
    TOKEN_NOT_BOUND = "token.not_bound"
    TOKEN_ID_TOKEN_MISSING = "token.id_token_missing"

    JWS_MALFORMED = "jws.malformed"
    JWS_TOO_LARGE = "jws.too_large"
    JWS_ALGORITHM = "jws.algorithm"
    JWS_CRITICAL = "jws.critical"
    JWS_TYPE = "jws.type"
    JWS_KEY_MISSING = "jws.key_missing"
    JWS_SIGNATURE = "jws.signature"
    JWS_CLAIMS_MALFORMED = "jws.claims_malformed"

    ID_TOKEN_ISSUER = "id_token.issuer"
    ID_TOKEN_SUBJECT = "id_token.subject"
    ID_TOKEN_AUDIENCE = "id_token.audience"
    ID_TOKEN_AUTHORIZED_PARTY = "id_token.authorized_party"
    ID_TOKEN_EXPIRY = "id_token.expiry"
    ID_TOKEN_EXPIRED = "id_token.expired"
    ID_TOKEN_ISSUED_AT = "id_token.issued_at"
    ID_TOKEN_NONCE = "id_token.nonce"
    ID_TOKEN_ACCESS_TOKEN_HASH = "id_token.access_token_hash"
    ID_TOKEN_AUTH_TIME = "id_token.auth_time"
    ID_TOKEN_EVENTS = "id_token.events"
    ID_TOKEN_SESSION_ID = "id_token.session_id"
    ID_TOKEN_AUTHENTICATION_CONTEXT = "id_token.authentication_context"

    USERINFO_MALFORMED = "userinfo.malformed"
    USERINFO_SUBJECT = "userinfo.subject"
    USERINFO_ISSUER = "userinfo.issuer"
    USERINFO_AUDIENCE = "userinfo.audience"
    USERINFO_EXPIRED = "userinfo.expired"

    LOGOUT_REQUEST_MALFORMED = "logout_request.malformed"
    LOGOUT_REQUEST_ISSUER = "logout_request.issuer"

    LOGOUT_TOKEN_REQUEST = "logout_token.request"
    LOGOUT_TOKEN_ISSUER = "logout_token.issuer"
    LOGOUT_TOKEN_AUDIENCE = "logout_token.audience"
    LOGOUT_TOKEN_ISSUED_AT = "logout_token.issued_at"
    LOGOUT_TOKEN_EXPIRY = "logout_token.expiry"
    LOGOUT_TOKEN_EXPIRED = "logout_token.expired"
    LOGOUT_TOKEN_ID = "logout_token.id"
    LOGOUT_TOKEN_SUBJECT = "logout_token.subject"
    LOGOUT_TOKEN_EVENTS = "logout_token.events"
    LOGOUT_TOKEN_NONCE = "logout_token.nonce"

    ACCESS_TOKEN_REQUIRED = "access_token.required"
    ACCESS_TOKEN_REQUEST = "access_token.request"
    ACCESS_TOKEN_KIND = "access_token.kind"
    ACCESS_TOKEN_ISSUER = "access_token.issuer"
    ACCESS_TOKEN_SUBJECT = "access_token.subject"
    ACCESS_TOKEN_AUDIENCE = "access_token.audience"
    ACCESS_TOKEN_CLIENT = "access_token.client"
    ACCESS_TOKEN_SCOPE_MALFORMED = "access_token.scope_malformed"
    ACCESS_TOKEN_EXPIRY = "access_token.expiry"
    ACCESS_TOKEN_EXPIRED = "access_token.expired"
    ACCESS_TOKEN_ISSUED_AT = "access_token.issued_at"
    ACCESS_TOKEN_INACTIVE = "access_token.inactive"
    ACCESS_TOKEN_BINDING = "access_token.binding"
    ACCESS_TOKEN_CERTIFICATE = "access_token.certificate"
    ACCESS_TOKEN_SCOPE = "access_token.scope"
    ACCESS_TOKEN_ROLE = "access_token.role"
    ACCESS_TOKEN_STEP_UP_REQUIRED = "access_token.step_up_required"

    DPOP_MALFORMED = "dpop.malformed"
    DPOP_SIGNATURE = "dpop.signature"
    DPOP_TARGET = "dpop.target"
    DPOP_ISSUED_AT = "dpop.issued_at"
    DPOP_ACCESS_TOKEN = "dpop.access_token"
    DPOP_KEY = "dpop.key"
    DPOP_NONCE = "dpop.nonce"
    DPOP_REPLAYED = "dpop.replayed"

    SESSION_REQUIRED = "session.required"
    SESSION_EXPIRED = "session.expired"
    SESSION_REVOKED = "session.revoked"
    SESSION_SIGNED_OUT = "session.signed_out"
    SESSION_STEP_UP_REQUIRED = "session.step_up_required"
    SESSION_FORBIDDEN = "session.forbidden"
    SESSION_CROSS_SITE = "session.cross_site"
    SESSION_CSRF = "session.csrf"
    SESSION_SEAL_BROKEN = "session.seal_broken"
    SESSION_MALFORMED = "session.malformed"
    SESSION_COOKIE_TOO_LARGE = "session.cookie_too_large"
    SESSION_STORE_UNAVAILABLE = "session.store_unavailable"
    SESSION_LOCK_UNAVAILABLE = "session.lock_unavailable"
    SESSION_REFRESH_POSTPONED = "session.refresh_postponed"
    SESSION_RESPONSE_STARTED = "session.response_started"

    BROKER_REQUEST = "broker.request"
    BROKER_VERSION = "broker.version"
    BROKER_NAME = "broker.name"
    BROKER_NOT_ALLOWED = "broker.not_allowed"
    BROKER_NOT_APPROVED = "broker.not_approved"
    BROKER_EXPIRED = "broker.expired"
    BROKER_WITHDRAWN = "broker.withdrawn"
    BROKER_SIGNED_OUT = "broker.signed_out"
    BROKER_USED_UP = "broker.used_up"
    BROKER_BUSY = "broker.busy"
    BROKER_TOO_LARGE = "broker.too_large"
    BROKER_TIMEOUT = "broker.timeout"
    BROKER_ADDRESS = "broker.address"
    BROKER_UNREACHABLE = "broker.unreachable"
    BROKER_TAKEN = "broker.taken"

    @property
    def link(self) -> str:
        """The URL of the code's entry in the documentation."""
        return f"{DOCUMENTATION}#{self.value}"


class PublicAnswer(NamedTuple):
    """The HTTP status and the text of an error; a browser receives these and the code alone."""

    status: HTTPStatus
    text: str


_MISCONFIGURED = 500, "Sign-in is not set up correctly on this site. Tell the site's operator."
_PROVIDER_BROKEN = 502, "The sign-in service sent a response that this site cannot use."
_PROVIDER_DOWN = 503, "The sign-in service is not available. Try again shortly."
_REFUSED = 400, "This sign-in could not be completed."
_NOT_STEPPED_UP = 403, "The sign-in service did not confirm your sign-in as this site requires."
_LOGOUT_REFUSED = 400, "The logout request was refused."
_UNPROVEN = 401, "The access token was not accepted."
_SESSION_UNKNOWN = 503, "Your session cannot be read right now. Try again shortly."
_TRANSACTION_MISSING = 400, "This sign-in is too old or was started in another browser."
_TOKEN_MISSING = (
    403,
    "The request lacks the token of its page. Go back, reload the page and try again.",
)

_BY_AREA: Mapping[str, tuple[int, str]] = {
    "configuration": _MISCONFIGURED,
    "provider": _PROVIDER_BROKEN,
    "token": _PROVIDER_BROKEN,
    "logout_request": _LOGOUT_REFUSED,
    "logout_token": _LOGOUT_REFUSED,
    "access_token": _UNPROVEN,
    "dpop": _UNPROVEN,
    "session": (401, "Sign in to continue."),
    "broker": (401, "The access has ended."),
}

_BY_CODE: Mapping[Code, tuple[int, str]] = {
    Code.PROVIDER_UNREACHABLE: (502, "The sign-in service cannot be reached. Try again shortly."),
    Code.PROVIDER_UNAVAILABLE: _PROVIDER_DOWN,
    Code.PROVIDER_REFUSAL_UNREADABLE: _PROVIDER_DOWN,
    Code.PROVIDER_TIMEOUT: (504, "The sign-in service took too long. Try again shortly."),
    Code.AUTHORIZATION_TRANSACTION_MISSING: _TRANSACTION_MISSING,
    Code.AUTHORIZATION_REFUSED: (400, "The sign-in service did not sign you in."),
    Code.AUTHORIZATION_OTHER_USER: (403, "Another user is signed in at the sign-in service."),
    Code.TOKEN_INVALID_GRANT: _REFUSED,
    Code.ID_TOKEN_AUTH_TIME: _NOT_STEPPED_UP,
    Code.ID_TOKEN_AUTHENTICATION_CONTEXT: _NOT_STEPPED_UP,
    Code.SESSION_STEP_UP_REQUIRED: (401, "Confirm that it is you. Sign in again to do this."),
    Code.ACCESS_TOKEN_REQUIRED: (401, "This request needs a header Authorization: Bearer TOKEN."),
    Code.ACCESS_TOKEN_REQUEST: (400, "The Authorization header cannot be read."),
    Code.ACCESS_TOKEN_AUDIENCE: (401, "The access token is for another API."),
    Code.ACCESS_TOKEN_EXPIRED: (401, "The access token has expired."),
    Code.ACCESS_TOKEN_INACTIVE: (401, "The access token has expired or was revoked."),
    Code.ACCESS_TOKEN_BINDING: (401, "The access token needs a matching proof of possession."),
    Code.ACCESS_TOKEN_SCOPE: (403, "The access token lacks a required scope."),
    Code.ACCESS_TOKEN_ROLE: (403, "You may not do this."),
    Code.ACCESS_TOKEN_STEP_UP_REQUIRED: (401, "The user must authenticate again for this request."),
    Code.SESSION_FORBIDDEN: (403, "You may not do this."),
    Code.SESSION_CROSS_SITE: (403, "This request came from another site."),
    Code.SESSION_CSRF: _TOKEN_MISSING,
    Code.SESSION_COOKIE_TOO_LARGE: _MISCONFIGURED,
    Code.SESSION_STORE_UNAVAILABLE: _SESSION_UNKNOWN,
    Code.SESSION_LOCK_UNAVAILABLE: _SESSION_UNKNOWN,
    Code.SESSION_REFRESH_POSTPONED: _SESSION_UNKNOWN,
    Code.SESSION_RESPONSE_STARTED: _MISCONFIGURED,
    Code.BROKER_REQUEST: (400, "The request cannot be passed on as it is."),
    Code.BROKER_VERSION: (505, "Use HTTP/1.1."),
    Code.BROKER_NAME: (404, "No API of this name was given to this machine."),
    Code.BROKER_NOT_ALLOWED: (403, "This machine may not call this method and path."),
    Code.BROKER_NOT_APPROVED: (403, "The person did not approve this call."),
    Code.BROKER_USED_UP: (429, "All calls of this access are used up."),
    Code.BROKER_BUSY: (429, "Too many calls are under way. Try again shortly."),
    Code.BROKER_TOO_LARGE: (413, "The body is too large."),
    Code.BROKER_TIMEOUT: (504, "The call took too long."),
    Code.BROKER_ADDRESS: (502, "The API is at an address that may not be called."),
    Code.BROKER_UNREACHABLE: (502, "The API sent no usable response."),
    Code.BROKER_TAKEN: (409, "Another person has given this machine access."),
}

ANSWERS: Mapping[Code, PublicAnswer] = {
    code: PublicAnswer(HTTPStatus(status), text)
    for code in Code
    for status, text in [_BY_CODE.get(code) or _BY_AREA.get(code.partition(".")[0], _REFUSED)]
}
"""For every code, the HTTP status and the sentence that a browser may see."""
