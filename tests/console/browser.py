"""A browser without script: follows links and redirects, fills in and submits the forms it sees."""

import socket
import time
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

import httpx

PATIENCE = 30.0
"""Seconds: a busy computer is no fault of the console."""

Attributes = dict[str, str | None]
Upload = tuple[str, bytes]
"""The name and the content of a file."""


class Form:
    """One form of a page: where it goes, its fields, its buttons by label."""

    def __init__(self, action: str, name: str = "", fields: dict[str, str] | None = None) -> None:
        self.action, self.id = action, name
        self.fields: dict[str, str] = {} if fields is None else fields
        self.buttons: dict[str, dict[str, str]] = {}


class Page(HTMLParser):
    """The forms, links and visible words of an HTML document."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self.links: dict[str, str] = {}
        self.headings: list[str] = []
        self._words: list[str] = []
        self._open: dict[str, Attributes] = {}
        self._label: list[str] = []
        self._select = ""
        self.feed(html)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self._words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag in ("h1", "h2", "h3"):
            self._label = []
        if tag in ("button", "a", "textarea"):
            self._open[tag], self._label = attributes, []
        elif tag == "form":
            self.forms.append(Form(attributes.get("action") or "", attributes.get("id") or ""))
        elif tag == "input" and self.forms and attributes.get("name"):
            self._add_field(attributes)
        elif tag == "select":
            self._select = attributes.get("name") or ""
        elif tag == "option":
            self._add_option(attributes)

    def _add_option(self, attributes: Attributes) -> None:
        fields = self.forms[-1].fields
        if self._select not in fields or "selected" in attributes:
            fields[self._select] = attributes.get("value") or ""

    def _add_field(self, attributes: Attributes) -> None:
        if attributes.get("type") == "checkbox" and "checked" not in attributes:
            return
        self.forms[-1].fields[attributes["name"] or ""] = attributes.get("value") or ""

    def handle_data(self, data: str) -> None:
        self._words.append(data)
        self._label.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("h1", "h2", "h3"):
            self.headings.append(" ".join("".join(self._label).split()))
        if tag not in self._open:
            return
        attributes, written = self._open.pop(tag), "".join(self._label)
        label = " ".join(written.split())
        if tag == "textarea":
            self.forms[-1].fields[attributes["name"] or ""] = written.removeprefix("\n")
        elif tag == "a":
            self.links[label] = attributes.get("href") or ""
        elif attributes.get("formaction"):
            self._add_form(attributes, label)
        elif name := attributes.get("name"):
            self.forms[-1].buttons[label] = {name: attributes.get("value") or ""}
        else:
            self.forms[-1].buttons[label] = {}

    def _add_form(self, button: Attributes, label: str) -> None:
        """A button that sends its form, or that of another place, to an address of its own."""
        here = reversed(self.forms)
        of = next(form for form in here if form.id == button.get("form", form.id))
        form = Form(button.get("formaction") or "", "", {**of.fields})
        form.buttons[label] = {button.get("name") or "": button.get("value") or ""}
        self.forms.append(form)


class Browser(ExitStack):
    """One person's browser."""

    def __init__(self, home: str, cookies: httpx.Cookies | None = None) -> None:
        super().__init__()
        self._home = home
        client = httpx.Client(
            cookies=cookies,
            follow_redirects=True,
            headers={"Accept": "text/html,*/*;q=0.8"},
            # A server may close an idle connection in the moment in which a post is sent on it.
            limits=httpx.Limits(max_keepalive_connections=0),
            timeout=2 * PATIENCE,
        )
        self._client = self.enter_context(client)
        self.headers_sent = self._client.headers
        self.status = 0
        self.url = ""
        self.headers = httpx.Headers()
        self.page, self.body = Page(""), ""

    @property
    def text(self) -> str:
        return self.page.text

    @property
    def path(self) -> str:
        return urlsplit(self.url).path

    def open(self, path: str = "/", *, sees: str = "") -> None:
        """Open a page, which has the text that a person `sees`."""
        self._show(self._client.get(urljoin(self.url or self._home, path)))
        self._see(sees)

    def open_until(self, text: str, path: str = "") -> None:
        """Open the page, the present one if none is given, again until it has `text`."""
        deadline = time.monotonic() + PATIENCE
        self.open(path)
        while text not in self.text:
            if time.monotonic() > deadline:
                raise AssertionError(f"no {text!r} on {self.url}: {self.text[:1000]}")
            time.sleep(0.02)
            self.open(path)

    def ask(self, path: str, /, **params: str | int) -> httpx.Response:
        """What a page's script asks for; the page stays."""
        url = urljoin(self._home, path)
        return self._client.get(url, params=params, headers={"Accept": "application/json"})

    def home(self) -> None:
        self._show(self._client.get(self._home))

    def click(
        self, label: str, typed: dict[str, str] | None = None, *, sure: bool = True, sees: str = ""
    ) -> None:
        """Press the button whose label begins with `label`, with `typed` in its form's fields.

        A person who is `sure` confirms it if the console asks. The page has what they `see` then.
        """
        form, button = self._button(label)
        self.post(form.action, {**form.fields, **button, **(typed or {})})
        if sure and self.has_button("Yes: "):
            self.click("Yes: ")
        self._see(sees)

    def post(self, path: str, content: Mapping[str, str | list[str]], **files: Upload) -> None:
        """Send a form to `path`, whether the page has one or not, with files as a form has them."""
        parts = urlsplit(self.url)
        origin = {"Origin": f"{parts.scheme}://{parts.netloc}"}
        url = urljoin(self.url, path)
        send = partial(self._client.post, url, data=content, headers=origin)
        if not files:
            return self._show(send())
        answer = send(files=files, follow_redirects=False)
        onward = answer.next_request  # httpx would tell of files there, too
        return self._show(self._client.get(onward.url) if onward else answer)

    def has_button(self, label: str) -> bool:
        labels = (text for form in self.page.forms for text in form.buttons)
        return any(text.startswith(label) for text in labels)

    def form_of(self, path: str) -> dict[str, str]:
        """The fields of the first form that goes to a path ending so; nothing without one."""
        forms = (form.fields for form in self.page.forms if form.action.endswith(path))
        return next(forms, {})

    def field(self, name: str) -> str:
        return next(form.fields[name] for form in self.page.forms if name in form.fields)

    @property
    def cookies(self) -> httpx.Cookies:
        return httpx.Cookies(self._client.cookies)

    def forget_cookies(self) -> None:
        self._client.cookies.clear()

    def _button(self, label: str) -> tuple[Form, dict[str, str]]:
        for form in self.page.forms:
            for text, button in form.buttons.items():
                if text.startswith(label):
                    return form, button
        raise LookupError(f"no button {label!r} on {self.url}: {self.text[:500]}")

    def require(self, status: int, text: str) -> None:
        """Fails unless the page has this status and this text."""
        assert self.status == status, f"{self.status} on {self.url}: {self.text[:1000]}"
        self._see(text)

    def _see(self, text: str) -> None:
        assert text in self.text, f"no {text!r} on {self.url} ({self.status}): {self.text[:1000]}"

    def _show(self, response: httpx.Response) -> None:
        self.status, self.url = response.status_code, str(response.url)
        self.headers = response.headers
        self.page, self.body = Page(response.text), response.text


# Machines of a console that starts them, made and deleted as a person does


def create(browser: Browser, name: str, **typed: str) -> None:
    """A machine that runs, unless the form says otherwise; `section__field` names a field."""
    browser.open("/new")
    fields = {field.replace("__", "."): text for field, text in typed.items()}
    browser.click("Create machine", {"new.name": name, **fields})


def delete(browser: Browser, name: str) -> None:
    """Stop the machine if it runs, and delete it."""
    browser.open(f"/machines/{name}")
    if browser.has_button("Stop"):
        browser.click("Stop")
    browser.click("Delete")


def do(browser: Browser, name: str, tab: str, button: str, typed: dict[str, str]) -> None:
    """Press a button on a tab of the machine."""
    browser.open(f"/machines/{name}/{tab}")
    browser.click(button, typed)


def start(browser: Browser, tab: str) -> None:
    """Set the machine `demo` up, start it, and go on to a tab."""
    browser.open("/machines/demo/overview")
    browser.click("Save setup")
    browser.click("Start")
    browser.open(f"/machines/demo/{tab}")


def answer_to_the_first_part(person: Browser, url: str, fields: Mapping[str, str]) -> str:
    """The status line of the answer to a form with a large file, of which the rest never comes."""
    form = httpx.Request("POST", url, data=fields, files={"file": bytes(1 << 20)})
    head = [
        f"POST {form.url.raw_path.decode()} HTTP/1.1",
        f"Host: {form.url.netloc.decode()}",
        f"Content-Type: {form.headers['content-type']}",
        f"Content-Length: {1 << 29}",
        "Cookie: " + "; ".join(f"{name}={value}" for name, value in person.cookies.items()),
    ]
    with socket.create_connection((form.url.host, form.url.port or 80), PATIENCE) as connection:
        connection.sendall("\r\n".join([*head, "", ""]).encode() + form.read()[: 1 << 18])
        return connection.recv(12).decode()
