"""Strict parsing of a request's access token (RFC 6750 2.1, RFC 9449 7.1)."""

from __future__ import annotations

import re
from typing import Any, Final

from starlette.requests import HTTPConnection

from fastapi_oidc.errors import Code, ProtocolViolation
from fastapi_oidc.resource_server import PresentedToken
from fastapi_oidc.web.authorization_header import token_scheme_in
from fastapi_oidc.web.request_context import RequestContext
from fastapi_oidc.web.requests import requested_path

_B64TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")


def presented_token(
    context: RequestContext[Any, Any], connection: HTTPConnection, certificate_header: str | None
) -> PresentedToken:
    """The token in the Authorization header; tokens elsewhere in the request are ignored.

    Raises ProtocolViolation: access_token.required without a token, access_token.request for
    several or a malformed one.
    """
    scheme = token_scheme_in(connection.scope["headers"])
    lines = connection.headers.getlist("authorization")
    if scheme is None:
        if any(line and " " not in line for line in lines):
            explanation = "the Authorization header has no scheme: Authorization: Bearer TOKEN"
            raise ProtocolViolation(Code.ACCESS_TOKEN_REQUEST, explanation)
        if "access_token" in connection.query_params:
            explanation = "a token in the query is not read (RFC 9700 4.3.2): send it as a header"
            raise ProtocolViolation(Code.ACCESS_TOKEN_REQUEST, explanation)
        raise ProtocolViolation(Code.ACCESS_TOKEN_REQUIRED, "no access token")
    if len(lines) > 1:
        raise ProtocolViolation(Code.ACCESS_TOKEN_REQUEST, "several Authorization headers")
    value = lines[0].partition(" ")[2].strip(" ")
    if not _B64TOKEN.fullmatch(value):
        raise ProtocolViolation(Code.ACCESS_TOKEN_REQUEST, f"the scheme {scheme} without a token")
    certificates = connection.headers.getlist(certificate_header) if certificate_header else []
    return PresentedToken(
        scheme=scheme,
        value=value,
        method=connection.scope.get("method", "GET"),
        # Behind a front server only base_url has the host of the request's URL.
        url=context.origin + requested_path(connection) if scheme == "DPoP" else "",
        proofs=connection.headers.getlist("dpop"),
        certificate=certificates[0] if len(certificates) == 1 else None,
    )
