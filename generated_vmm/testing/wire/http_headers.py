"""The request headers the monitor looks at: Content-Length, Expect and Accept-Encoding."""

from __future__ import annotations

from dataclasses import dataclass, replace

MAX_CONTENT_LENGTH = 2**32 - 1


class HttpRefusal(Exception):
    """A request the HTTP layer refuses; the text goes into the `error` member of its 400."""

    @classmethod
    def of_header(cls, reason: str) -> HttpRefusal:
        """A refusal because of one header line."""
        return cls(f"Invalid header. Reason: {reason}")


@dataclass(frozen=True)
class Headers:
    """What the headers read so far ask for; all others are ignored."""

    content_length: int = 0
    expects_continue: bool = False

    def with_line(self, line: bytes) -> Headers:
        """These headers and one more line. Raises `HttpRefusal`."""
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            reason = f"invalid utf-8 sequence of 1 bytes from index {error.start}"
            raise HttpRefusal.of_header(
                f"Header contains invalid characters. Key: {reason}"
            ) from None
        key, colon, value = text.partition(":")
        if not colon:
            raise HttpRefusal.of_header(f"Header is incorrectly formatted. Key: {key}")
        return self._with(key, value)

    def _with(self, key: str, value: str) -> Headers:
        name = key.strip().lower()
        if name == "content-length":
            return replace(self, content_length=_content_length(key, value))
        if name == "expect":
            expects = self.expects_continue or value.strip() == "100-continue"
            return replace(self, expects_continue=expects)
        if name == "accept-encoding":
            _require_identity(value)
        return self


def _content_length(key: str, value: str) -> int:
    digits = value.strip().removeprefix("+")
    if not (digits.isascii() and digits.isdigit()) or int(digits) > MAX_CONTENT_LENGTH:
        raise _invalid_value(key, value)
    return int(digits)


def _require_identity(value: str) -> None:
    if not value.strip():
        raise HttpRefusal("Invalid request.")
    for encoding in (part.strip() for part in value.split(",")):
        if encoding == "identity;q=0" or (encoding == "*;q=0" and "identity" not in value):
            raise _invalid_value("Accept-Encoding", encoding)


def _invalid_value(key: str, value: str) -> HttpRefusal:
    return HttpRefusal.of_header(f"Invalid value. Key:{key}; Value:{value}")
