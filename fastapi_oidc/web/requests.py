"""Strict parsing and checks of the requests to the library's routes."""

from __future__ import annotations

from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, urlsplit

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.requests import HTTPConnection, Request

from fastapi_oidc.errors import Code, ProtocolViolation, SessionError
from fastapi_oidc.protocol.authorization import Parameters
from fastapi_oidc.protocol.urls import with_query
from fastapi_oidc.web.context import RequestContext
from fastapi_oidc.web.routes import route_path

MOVED = "moved"
"""The parameter of a login request that began at another host."""

_DEFAULT_PORTS = {"https": ":443", "http": ":80"}

MAX_FORM_BYTES = 65_536
MAX_FIELDS = 100
URL_ENCODED = "application/x-www-form-urlencoded"

Query = TypeVar("Query", bound=BaseModel)


def parsed_query(connection: HTTPConnection, model: type[Query]) -> Query:
    """The query as `model`; the last value of a repeated parameter counts.

    Raises RequestValidationError (422), as FastAPI does for the parameters of an endpoint.
    """
    try:
        return model.model_validate(dict(connection.query_params))
    except ValidationError as error:
        details = error.errors(include_url=False)
        faults = [{**detail, "loc": ("query", *detail["loc"])} for detail in details]
        raise RequestValidationError(faults) from None


def query_parameters(connection: HTTPConnection) -> Parameters:
    """All values of each query parameter."""
    query = connection.scope["query_string"].decode("latin-1")
    return _grouped(query, Code.AUTHORIZATION_MALFORMED)


def requested_path(connection: HTTPConnection) -> str:
    """The requested path and query, percent-encoded, without the host."""
    scope = connection.scope
    raw_path: bytes | None = scope.get("raw_path")
    path = quote(scope["path"]) if raw_path is None else raw_path.decode("latin-1")
    if route_path(scope) == scope["path"]:
        path = quote(scope.get("root_path", "")) + path
    query = scope["query_string"].decode("latin-1")
    return f"{path}?{query}" if query else path


def media_type(connection: HTTPConnection) -> str:
    """The media type of the body, without parameters (RFC 9110 8.3.1)."""
    return connection.headers.get("content-type", "").partition(";")[0].strip().lower()


async def form_parameters(request: Request, fault: Code) -> Parameters:
    """All values of each form field (`application/x-www-form-urlencoded`, UTF-8).

    Raises ProtocolViolation with the code `fault` for another content type, more than 64 KiB or
    more than 100 fields. An empty body is an empty form.
    """
    body = await _body(request, fault)
    if body and media_type(request) != URL_ENCODED:
        raise ProtocolViolation(fault, "the body is not a URL-encoded form")
    try:
        return _grouped(body.decode("utf-8"), fault)
    except UnicodeDecodeError:
        raise ProtocolViolation(fault, "the form is not UTF-8") from None


def require_same_origin(context: RequestContext[Any, Any]) -> None:
    """Refuse a request from a page of another origin (RFC 6749 10.12, Fetch Metadata).

    Raises SessionError (session.cross_site).
    """
    if not context.is_of_own_page:
        raise SessionError(Code.SESSION_CROSS_SITE, "a page of another origin sent it")


def url_at_base(context: RequestContext[Any, Any]) -> str | None:
    """The URL of this request at the host of `base_url`, if it was sent to another host.

    A login's cookie must be set for the host to which the provider redirects. Behind a proxy that
    changes the host, the redirect returns here, so it happens only once.
    """
    base_url, connection = context.runtime.origin, context.connection
    host = connection.headers.get("host", "").lower()
    if base_url is None or not host or MOVED in connection.query_params:
        return None
    base = urlsplit(base_url)
    if host.removesuffix(_DEFAULT_PORTS[base.scheme]) == base.netloc:
        return None
    return with_query(base_url + requested_path(connection), {MOVED: "1"})


def require_own_iframe(connection: HTTPConnection) -> None:
    """Refuse a silent login outside of this application's own hidden iframe.

    Raises SessionError (session.cross_site).
    """
    site = connection.headers.get("sec-fetch-site", "same-origin")
    destination = connection.headers.get("sec-fetch-dest", "iframe")
    if site != "same-origin" or destination != "iframe":
        raise SessionError(Code.SESSION_CROSS_SITE, "a silent login needs our own iframe")


async def _body(request: Request, fault: Code) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM_BYTES:
            raise ProtocolViolation(fault, f"the body has more than {MAX_FORM_BYTES} bytes")
    return bytes(body)


def _grouped(encoded: str, fault: Code) -> Parameters:
    try:
        pairs = parse_qsl(encoded, keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        raise ProtocolViolation(fault, f"more than {MAX_FIELDS} parameters") from None
    grouped: dict[str, list[str]] = {}
    for name, value in pairs:
        grouped.setdefault(name, []).append(value)
    return grouped
