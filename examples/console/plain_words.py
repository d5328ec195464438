"""What a refusal means, in a sentence for people; the monitor's own words stay beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Told:
    """Why something was not done: a plain sentence, and the monitor's words if it has said any."""

    sentence: str
    words: str = ""


_SENTENCES: Final = (
    ("cannot perform open on the", "This file cannot be opened. Is its folder there?"),
    ("failed to restore from snapshot", "The machine could not be restored from these files."),
    ("initrd file cannot be opened", "There is no such file that the monitor may open."),
    ("without kernel configuration", "The machine has no kernel yet. Save the setup first."),
    ("no such file or directory", "There is no such file or folder on this host."),
    ("permission denied", "The monitor may not open this file."),
    ("is a directory", "This is a folder, not a file."),
    ("invalid elf magic", "This file is no kernel that can be booted."),
    ("mac address is already in use", "Another interface has this hardware address."),
    ("pages requested is too large", "That is more than the machine has."),
    ("after configuring boot-specific", "This machine is set up already. Use a fresh one."),
    ("not supported after starting", "This is only possible before the start."),
    ("not supported before starting", "This is only possible after the start."),
    ("dirty pages", "The machine does not track changed memory. Turn it on before the start."),
    ("the mmds data store is not initialized", "Nothing was saved here yet."),
    ("resource busy", "Something else uses this device."),
)


def in_plain_words(words: str) -> Told:
    """What the monitor said, with a sentence before it."""
    said = words.lower()
    known = (sentence for part, sentence in _SENTENCES if part in said)
    return Told(next(known, "The monitor refused this."), words)
