"""The browser component's file, ready to be served."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from starlette.requests import HTTPConnection
from starlette.responses import Response

_COMMENT = re.compile(
    rb"^[ \t]*(?:/\*\*(?:(?!\*/).)*\*/|//[^\n]*)[ \t]*\n", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Script:
    """An ES module and its version, a hash of its content."""

    content: bytes
    version: str
    media_type: str = "text/javascript; charset=utf-8"

    @classmethod
    def read(cls, path: Path) -> Script:
        """The module at `path`, without comments on lines of their own."""
        content = _COMMENT.sub(b"", path.read_bytes())
        return cls(content, sha256(content).hexdigest()[:16])

    @property
    def etag(self) -> str:
        """A strong entity tag (RFC 9110 8.8.3)."""
        return f'"{self.version}"'

    def headers(self, requested_version: str | None) -> dict[str, str]:
        """The headers: caches keep the URL with this version for a year, and revalidate others."""
        current = requested_version == self.version
        caching = "public, max-age=31536000, immutable" if current else "no-cache"
        return {
            "Cache-Control": caching,
            "ETag": self.etag,
            "X-Content-Type-Options": "nosniff",
        }

    async def serve(self, connection: HTTPConnection) -> Response:
        """The module, or 304 for a browser that has this version (RFC 9110 13.1.2)."""
        headers = self.headers(connection.query_params.get("v"))
        known = connection.headers.get("if-none-match", "")
        if self.etag in (tag.strip().removeprefix("W/") for tag in known.split(",")):
            return Response(status_code=304, headers=headers)
        return Response(self.content, media_type=self.media_type, headers=headers)


SCRIPT: Final = Script.read(Path(__file__).with_name("oidc-context.js"))
