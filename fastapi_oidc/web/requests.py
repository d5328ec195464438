"""A request at one OIDCMiddleware without its session: its headers, queries and forms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final, Self
from urllib.parse import parse_qsl, quote, urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.types import Scope

from fastapi_oidc.errors import Code, ConfigurationError, ProtocolViolation, SessionError
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.protocol.authorization import Parameters
from fastapi_oidc.protocol.dpop import Scheme
from fastapi_oidc.protocol.refusal import shown
from fastapi_oidc.protocol.urls import with_query
from fastapi_oidc.session.cookies import CookieNames
from fastapi_oidc.web.pages import NO_STORE
from fastapi_oidc.web.routes import REGISTRATION, OwnRoutes, Role, origin_of, route_path
from fastapi_oidc.web.runtime import Engine, Runtime

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""Methods that change nothing (RFC 9110 9.2.1)."""

MOVED = "moved"
"""The parameter of a login request that began at another host."""

_DEFAULT_PORTS = {"https": ":443", "http": ":80"}

MAX_FORM_BYTES = 65_536
MAX_FIELDS = 100
URL_ENCODED = "application/x-www-form-urlencoded"

_BLANK: Final = b" \t"
_SCHEMES: Final[dict[bytes, Scheme]] = {b"bearer": "Bearer", b"dpop": "DPoP"}


class OwnRequest:
    """One request or websocket at one OIDCMiddleware, without its session.

    `runtime` serves the request; no registration does if it is None. `outer` belongs to the
    middleware of another instance around this one.
    """

    def __init__(
        self,
        engine: Engine,
        runtime: Runtime | None,
        routes: OwnRoutes,
        scope: Scope,
        outer: Self | None,
    ) -> None:
        self.engine, self.name, self._runtime, self._routes = engine, engine.name, runtime, routes
        self.scope, self.outer = scope, outer
        self.is_served = runtime is not None
        """Whether a registration serves the request."""
        # Inner mounts change the scope.
        self.first_app: object = scope["app"]
        """The application of the first of the instance's middlewares."""
        self.app: object = scope["app"]
        """The innermost application that has a middleware of an instance in this request."""
        self.root_path: str = scope.get("root_path", "")
        self.path = route_path(scope)
        """The requested path in the app that has the middleware."""

    # Which instances and registrations serve the request

    @property
    def runtime(self) -> Runtime:
        """What serves the request; raises HTTPException (404) if no registration does."""
        if self._runtime is None:
            raise HTTPException(404, headers=NO_STORE)
        return self._runtime

    @property
    def party(self) -> RelyingParty:
        """The first of the registrations that serve the request; raises HTTPException (404)."""
        return self.runtime.party

    @property
    def outermost(self) -> Self:
        """The context of the first middleware of an instance in this request."""
        return self if self.outer is None else self.outer.outermost

    def serves(self, engine: Engine) -> bool:
        """Whether the instance serves this request; raises ConfigurationError for its namesake."""
        if self.engine is not engine and self.name == engine.name:
            raise ConfigurationError(
                Code.CONFIGURATION_INSTANCE_AMBIGUOUS,
                f"another OIDC instance than the middleware's, and both are named {self.name!r}: "
                "use one instance for both, or give each a middleware and a `name` of its own",
            )
        return self.engine is engine or (self.outer is not None and self.outer.serves(engine))

    def find(self, name: str | None) -> Self:
        """The context of the instance `name` in this request, if it serves it; else this one."""
        context: Self | None = self
        while context is not None and context.name != name:
            context = context.outer
        return context or self

    def registration(self, connection: HTTPConnection) -> RelyingParty:
        """The registration that the path names; HTTPException (404) for another name.

        Raises ConfigurationError if there are several, and the path names none.
        """
        name = connection.path_params.get(REGISTRATION)
        if name is None and self.party.is_one_of_several:
            explanation = "with several registrations, this path has the parameter {registration}"
            raise ConfigurationError(Code.CONFIGURATION_ROUTE_MISSING, explanation)
        found = self.party if name is None else self.party.named(name)
        if found is None:
            raise HTTPException(404, headers=NO_STORE)
        return found

    # What the request says

    @cached_property
    def connection(self) -> HTTPConnection:
        """The request or websocket as a Starlette object."""
        return HTTPConnection(self.scope)

    @property
    def cookies(self) -> Mapping[str, str]:
        """The cookies of this instance in the request; none if it has an access token for an API.

        The session of a request with a token is ignored.
        """
        if self.engine.apis and self.brings_token:
            return {}
        return own_cookies(self.scope["headers"], self.runtime.party.sessions.names)

    @cached_property
    def brings_token(self) -> bool:
        """Whether the request has an access token, valid or not."""
        return token_scheme_in(self.scope["headers"]) is not None

    def is_of_trusted_origin(self, scope: Scope) -> bool:
        """Whether the request may use the browser's session (RFC 6455 10.2).

        Browsers send the cookies with forms of any page of the same site, such as another
        subdomain, and with websockets of any page at all.
        """
        if scope.get("method") in SAFE_METHODS:
            return True
        origin = self.connection.headers.get("origin")
        is_trusted = origin in self.runtime.trusted_origins
        return is_trusted or self.is_of_own_page or not self.cookies

    @property
    def is_of_own_page(self) -> bool:
        """Whether no page of another origin sent the request (Fetch Metadata 2.4, Fetch 3.2).

        A client that sends neither header is not a current browser.
        """
        headers = self.connection.headers
        if (site := headers.get("sec-fetch-site")) is not None:
            return site in ("same-origin", "none")
        return headers.get("origin") in (None, self.origin)

    # Where the application is

    @property
    def is_excluded(self) -> bool:
        """Whether `exclude` of the middleware covers the path."""
        return self._routes.excludes(self.path)

    @property
    def is_at_own_route(self) -> bool:
        """Whether the path is one of the library's."""
        return self.path in self._routes

    def path_to(self, role: Role) -> str | None:
        """The path of a route in the app that has the middleware; None if it is not mounted."""
        return self._routes.path_to(role, self.party.settings.name)

    def link_to(self, role: Role, party: RelyingParty | None = None) -> str:
        """The path of a registration's route, by default the first one's, as browsers request it.

        Raises ConfigurationError (configuration.route_missing).
        """
        path = self._routes.path_to(role, (party or self.party).settings.name)
        if path is None:
            raise ConfigurationError(
                Code.CONFIGURATION_ROUTE_MISSING,
                f"the {role} route is not mounted: app.include_router(oidc.router, prefix='/auth')",
            )
        return self.root_path + path

    @property
    def origin(self) -> str:
        """Scheme and host of this application, without a trailing slash."""
        return self.runtime.origin or origin_of(self.connection)

    def url(self, role: Role, party: RelyingParty | None = None) -> str:
        """The absolute URL of one of the library's routes; raises ConfigurationError."""
        return self.origin + self.link_to(role, party)


def token_scheme_in(headers: Iterable[tuple[bytes, bytes]]) -> Scheme | None:
    """The scheme of the first Authorization header that has a token, well-formed or not.

    RFC 6750 2.1, RFC 9449 7.1.
    """
    for name, line in headers:
        if name == b"authorization":
            scheme = _SCHEMES.get(line.partition(b" ")[0].lower())
            if scheme is not None:
                return scheme
    return None


def has_cookie(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bool:
    """Whether there is, or seems to be, a cookie of this name."""
    for header, line in headers:  # noqa: SIM110 - at every request
        if header == b"cookie" and name in line:
            return True
    return False


def own_cookies(headers: Iterable[tuple[bytes, bytes]], names: CookieNames) -> dict[str, str]:
    """The cookies of this instance, parsed in linear time. Other cookies are not parsed.

    The header may be repeated (RFC 9113 8.2.3). The last of several cookies with the same name
    counts: browsers send cookies with longer paths first, and ours have the shortest path (RFC 6265
    5.4). Quotes around a value are removed; nothing inside is unescaped.
    """
    found: dict[str, str] = {}
    for header, line in headers:
        if header == b"cookie":
            for pair in line.split(b";"):
                octets, _, value = pair.partition(b"=")
                name = octets.strip(_BLANK).decode("latin-1")
                if name == names.session or names.is_ours(name):
                    text = value.strip(_BLANK).decode("latin-1")
                    is_quoted = len(text) > 1 and text[0] == text[-1] == '"'
                    found[name] = text[1:-1] if is_quoted else text
    return found


def query_parameters(connection: HTTPConnection, fault: Code) -> Parameters:
    """All values of each query parameter; ProtocolViolation (`fault`) for too many."""
    query = connection.scope["query_string"].decode("latin-1")
    return _grouped(query, fault)


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
        path = shown(request.scope["path"])  # `request.url` fails for a query that is not UTF-8
        raise ProtocolViolation(
            fault,
            f"the body of {request.method} {path} is not a URL-encoded form: "
            "send one, from a script new URLSearchParams({local: 1}) for example",
        )
    try:
        return _grouped(body.decode("utf-8"), fault)
    except UnicodeDecodeError:
        raise ProtocolViolation(fault, "the form is not UTF-8") from None


def require_same_origin(context: OwnRequest) -> None:
    """Refuse a request from a page of another origin (RFC 6749 10.12, Fetch Metadata).

    Raises SessionError (session.cross_site).
    """
    if not context.is_of_own_page:
        raise SessionError(Code.SESSION_CROSS_SITE, "a page of another origin sent it")


def url_at_base(context: OwnRequest) -> str | None:
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
