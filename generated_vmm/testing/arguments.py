"""The command line of the monitor's program, taken as strictly as the program takes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

VALUES: Final = {
    "--api-sock": "Path to the unix socket of the API.",
    "--config-file": "JSON file with a whole microVM, which is started at once.",
    "--describe-snapshot": "Print the version of a snapshot's state file.",
    "--http-api-max-payload-size": "Bytes of a request body, 51200 by default.",
    "--id": "Name of the microVM: 1 to 64 letters, digits and hyphens.",
    "--level": "Level of the log.",
    "--log-path": "File or pipe for the log, instead of the standard output.",
    "--metadata": "JSON file with data for MMDS.",
    "--metrics-path": "File or pipe for the metrics.",
    "--mmds-size-limit": "Bytes of MMDS data; the payload size by default.",
    "--module": "Only log what comes from here.",
    "--parent-cpu-time-us": "Accepted and without effect.",
    "--seccomp-filter": "A file that must exist; without effect.",
    "--socket": "As --api-sock; a signal removes the socket and exits with 0.",
    "--start-time-cpu-us": "Accepted and without effect.",
    "--start-time-us": "Accepted and without effect.",
}
FLAGS: Final = {
    "--any-path": "Do not check host files.",
    "--boot-timer": "Accepted and without effect.",
    "--enable-pci": "Let devices come and go while the guest runs.",
    "--help": "Print this.",
    "--no-api": "Serve no API; needs --config-file.",
    "--no-seccomp": "Accepted and without effect.",
    "--show-level": "Put the level into the log's lines.",
    "--show-log-origin": "Put the source into the log's lines.",
    "--snapshot-version": "Print the version of the snapshots it writes.",
    "--version": "Print the monitor's version.",
}
ALONE: Final = ("--help", "--version")


class WrongArguments(Exception):
    """A command line that the program refuses, in its words."""


class Arguments:
    """What was given. Raises `WrongArguments`."""

    def __init__(self, given: Iterable[str]) -> None:
        words = list(given)
        alone = [word for word in words if word in ALONE]
        self._given: dict[str, str] = {}
        self._read(alone[:1] or words)
        if not alone:
            self._require_fitting()

    def has(self, flag: str) -> bool:
        """Whether the argument was given."""
        return flag in self._given

    def get(self, name: str) -> str | None:
        """The value of the argument; None when it was not given."""
        return self._given.get(name)

    def _read(self, words: list[str]) -> None:
        left = iter(words)
        for word in left:
            name = word.removeprefix("--")
            if word not in VALUES and word not in FLAGS:
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

    def _require_fitting(self) -> None:
        if self.has("--no-api") and not self.has("--config-file"):
            raise WrongArguments("Argument 'config-file' required, but not found.")
        if self.has("--no-seccomp") and self.has("--seccomp-filter"):
            raise WrongArguments(
                "Argument 'seccomp-filter' cannot be used together with argument 'no-seccomp'."
            )


def usage() -> str:
    """The arguments, one line each."""
    shown = {f"{name} <{name[2:]}>": words for name, words in VALUES.items()} | FLAGS
    lines = [f"  {name:<60}{words}" for name, words in sorted(shown.items())]
    return "\n".join(["optional arguments:", *lines, ""])
