"""The command line of the monitor's program, parsed as strictly as the program does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

VALUES: Final = (
    "--api-sock", "--config-file", "--http-api-max-payload-size", "--id",
    "--level", "--log-path", "--metadata", "--metrics-path", "--mmds-size-limit", "--module",
    "--parent-cpu-time-us", "--seccomp-filter", "--socket", "--start-time-cpu-us",
    "--start-time-us",
)  # fmt: skip
FLAGS: Final = (
    "--any-path", "--boot-timer", "--enable-pci", "--help", "--no-api", "--no-seccomp",
    "--show-level", "--show-log-origin", "--version",
)  # fmt: skip
EXPLAINED: Final = {
    "--any-path": "Do not check host files.",
    "--boot-timer": "Without effect, as are --parent-cpu-time-us, --seccomp-filter, "
    "--start-time-cpu-us and --start-time-us.",
    "--socket": "As --api-sock; a signal removes the socket and exits with 0.",
}


class WrongArguments(Exception):
    """A command line that the program refuses, with the program's text."""


class Arguments:
    """The parsed arguments. Raises `WrongArguments`."""

    def __init__(self, given: Iterable[str]) -> None:
        words = list(given)
        alone = [word for word in words if word in ("--help", "--version")]
        self._given: dict[str, str] = {}
        self._read(alone[:1] or words)
        if self.has("--no-api") and not self.has("--config-file"):
            raise WrongArguments("Argument 'config-file' required, but not found.")
        if self.has("--no-seccomp") and self.has("--seccomp-filter"):
            raise WrongArguments(
                "Argument 'seccomp-filter' cannot be used together with argument 'no-seccomp'."
            )

    def has(self, flag: str) -> bool:
        """Whether the argument was passed."""
        return flag in self._given

    def get(self, name: str) -> str | None:
        """The value of the argument; None if it was not passed."""
        return self._given.get(name)

    def _read(self, words: list[str]) -> None:
        left = iter(words)
        for word in left:
            name = word.removeprefix("--")
            if word not in (*VALUES, *FLAGS):
                unexpected = "which wasn't expected, or isn't valid in this context."
                raise WrongArguments(f"Found argument '{name}' {unexpected}")
            if word in self._given:
                raise WrongArguments(f"The argument '{name}' was provided more than once.")
            value = "" if word in FLAGS else next(left, "--")
            if value.startswith("--"):
                raise WrongArguments(
                    f"The argument '{name}' requires a value, but none was supplied."
                )
            self._given[word] = value


def usage() -> str:
    """The arguments, one line each."""
    shown = {name: name for name in FLAGS} | {name: f"{name} <{name[2:]}>" for name in VALUES}
    lines = [f"  {shown[name]:<60}{EXPLAINED.get(name, '')}".rstrip() for name in sorted(shown)]
    return "\n".join(["optional arguments:", *lines, ""])
