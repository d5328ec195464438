"""Requests as nobody's browser sends them, and what an application answers to them."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from starlette.types import ASGIApp, Message

ROUTES = [
    ("GET", "/"),
    ("GET", "/me"),
    ("GET", "/auth/login"),
    ("GET", "/auth/callback"),
    ("POST", "/auth/callback"),
    ("POST", "/auth/logout"),
    ("GET", "/auth/logged-out"),
    ("POST", "/auth/backchannel-logout"),
    ("GET", "/auth/session"),
    ("GET", "/auth/session-management"),
    ("GET", "/auth/oidc-context.js"),
]
METHODS = ["GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "QUERY"]
PARAMETERS = [
    *("code", "state", "iss", "error", "error_description", "session_state", "return_to"),
    *("prompt", "login_hint", "silent", "local", "logout_token", "v", "target_link_uri"),
]
ELSEWHERE = [
    *("//evil.test", "/\\evil.test", "\\\\evil.test", "/%09/evil.test", "/\t/evil.test"),
    *("/./\\evil.test", "/.//evil.test", "https:evil.test", "https://evil.test"),
    *("javascript:alert(1)", " //evil.test", "https://app.test@evil.test", "/..//evil.test"),
    *("/%0d%0aSet-Cookie:a=b", "/\r\nSet-Cookie: a=b"),
    *("/é", "/%2f%2fevil.test", "/" + "a" * 3000),
]
HEADERS = [
    *(b"accept", b"authorization", b"content-type", b"origin", b"referer", b"sec-fetch-mode"),
    *(b"sec-fetch-site", b"sec-fetch-dest", b"x-csrf-token", b"x-forwarded-host", b"if-none-match"),
]
HEADER_VALUES = [
    *(b"text/html", b"navigate", b"iframe", b"same-origin", b"null", b"https://evil.test"),
    *(b"application/x-www-form-urlencoded", b"application/json", b"*", b"\xff\xfe", b""),
]

anything = st.binary(max_size=60)
texts = st.text(max_size=30) | st.sampled_from([*ELSEWHERE, "none", "1", "null", "[]", "%", "%zz"])


@dataclass(frozen=True, slots=True)
class Sent:
    """One request, as an ASGI server hands it on."""

    target: tuple[str, str]
    query: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes


@dataclass(frozen=True, slots=True)
class Answered:
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    @property
    def location(self) -> str | None:
        return next((v.decode("latin-1") for n, v in self.headers if n == b"location"), None)


def encoded(pairs: list[tuple[str, str]]) -> bytes:
    """A query as careless clients write it: nothing is escaped but what would not be a byte."""
    return "&".join(f"{name}={value}" for name, value in pairs).encode("utf-8", "replace")


def queries(known: dict[str, str]) -> st.SearchStrategy[bytes]:
    """Bytes, or parameters of ours with odd values, or with the `known` good ones."""
    names = st.sampled_from(PARAMETERS) | st.text(max_size=5)
    pairs = st.tuples(names, texts)
    right = st.just([*known.items()]).map(encoded)
    return (
        anything
        | right
        | st.lists(pairs | st.sampled_from([*known.items()]), max_size=8).map(encoded)
    )


def cookie_headers(known: dict[str, str]) -> st.SearchStrategy[bytes]:
    """Bytes, or cookies of ours with odd values, cut values, or the `known` good ones."""
    names = st.sampled_from(sorted(known))
    cut = st.tuples(names, st.integers(0, 200)).map(lambda it: known[it[0]][: it[1]])
    values = cut | st.sampled_from(sorted(known.values())) | st.text(max_size=30)
    pairs = st.lists(st.tuples(names, values) | st.sampled_from(sorted(known.items())), max_size=5)
    header = pairs.map(lambda it: "; ".join(f"{name}={value}" for name, value in it))
    whole = "; ".join(f"{name}={value}" for name, value in known.items())
    return anything | st.just(whole.encode()) | header.map(lambda it: it.encode("utf-8", "replace"))


def targets() -> st.SearchStrategy[tuple[str, str]]:
    """Method and path: mostly of a route."""
    paths = st.sampled_from([path for _, path in ROUTES]) | st.text(max_size=20).map("/".__add__)
    odd = st.tuples(st.sampled_from(METHODS), paths)
    return st.sampled_from([True, True, True, False]).flatmap(
        lambda usual: st.sampled_from(ROUTES) if usual else odd
    )


def requests(parameters: dict[str, str], cookies: dict[str, str]) -> st.SearchStrategy[Sent]:
    """Any request; some have a session, some an answer to a login that was begun."""
    others = st.lists(
        st.tuples(st.sampled_from(HEADERS), st.sampled_from(HEADER_VALUES) | anything), max_size=4
    )
    form = st.sampled_from([[], [(b"content-type", b"application/x-www-form-urlencoded")]])
    headers = st.builds(
        lambda cookie, others, form: [(b"host", b"app.test"), (b"cookie", cookie), *form, *others],
        cookie_headers(cookies),
        others,
        form,
    )
    query = queries(parameters)
    return st.builds(Sent, targets(), query=query, headers=headers, body=query)


async def answer(app: ASGIApp, sent: Sent) -> Answered:
    """What `app` answers."""
    method, path = sent.target
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "https",
        "path": path,
        "raw_path": path.encode("utf-8", "replace"),
        "query_string": sent.query,
        "headers": sent.headers,
        "server": ("app.test", 443),
        "client": ("127.0.0.1", 1),
    }
    messages: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": sent.body, "more_body": False}

    async def send(message: Message) -> None:
        messages.append(message)

    await app(scope, receive, send)
    start, *parts = messages
    body = b"".join(part.get("body", b"") for part in parts)
    return Answered(start["status"], list(start["headers"]), body)
