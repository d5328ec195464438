"""Reads the pages of the built documentation site."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser fetches to show a page, by tag.
FETCHED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}


@dataclass
class Page(HTMLParser):
    """The anchors of one page, where it leads, and what it needs to be shown."""

    path: Path
    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.ids.update(value for key in ("id", "name") if (value := values.get(key)))
        if tag == "a" and (link := values.get("href")):
            self.links.append(link)
        if tag in FETCHED and (address := values.get(FETCHED[tag])):
            self.fetched.append(address)

    def target(self, link: str) -> tuple[Path, str] | None:
        """The file and anchor that a link leads to; None when it leaves the site."""
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            return None
        path = (self.path.parent / unquote(parts.path)).resolve() if parts.path else self.path
        return path, unquote(parts.fragment)

    def neighbours(self) -> set[Path]:
        """The files of the site that one click leads to."""
        return {target[0] for link in self.links if (target := self.target(link))}
