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
    ("pci is not enabled", "This machine was not started for devices that come and go (PCI)."),
    ("device id in use", "There is a device of this name."),
    ("cannot unplug root device", "The guest has booted from this device: it stays."),
    ("device not found", "There is no such device."),
    ("expected different backend", "This drive has no file of this host, or nothing was changed."),
    ("a root block device already exists", "There is another device that the guest boots from."),
    ("as a root device while", "There is another device that the guest boots from."),
    ("file size is 0", "This file is empty."),
    ("reinitialization of metrics not allowed", "The metrics go to a file already."),
    ("hinting when not enabled", "Hints were not allowed before the start."),
    ("statistics cannot be enabled", "Statistics are turned on or off before the start alone."),
    (
        "must be a multiple of block size",
        "Not more than there may be, and a multiple of the pieces.",
    ),
    ("memory hotplug config error", "These sizes do not fit together."),
    ("must be 1 or an even number", "With two processors to a core, their number is 1 or even."),
    ("unknown network device", "The snapshot has no such interface."),
    ("unknown vsock device", "The snapshot has no vsock."),
    ("mmds limit exceeded", "This is more than the monitor keeps."),
    ("no such device", "There is no such device."),
    ("cannot perform open on the", "This file cannot be opened. Is its folder there?"),
    ("initrd file cannot be opened", "There is no such file that the monitor may open."),
    ("without kernel configuration", "The machine has no kernel yet. Save the setup first."),
    ("no such file or directory", "There is no such file or folder on this host."),
    ("permission denied", "The monitor may not open this file."),
    ("is a directory", "This is a folder, not a file."),
    ("invalid elf magic", "This file is no kernel that can be booted."),
    ("mac address is already in use", "Another interface has this hardware address."),
    ("requested memory should be less", "That is more than the machine has."),
    ("pages requested is too large", "That is more than the machine has."),
    ("after configuring boot-specific", "This machine is set up already. Use a fresh one."),
    ("not supported after starting", "This is only possible before the start."),
    ("not supported before starting", "This is only possible after the start."),
    ("dirty pages", "The machine does not track changed memory. Turn it on before the start."),
    ("the mmds data store is not initialized", "Nothing was saved here yet."),
    ("resource busy", "Something else uses this device."),
    ("open tap device failed", "There is no such tap device that the monitor may open."),
    ("any existing network interface", "There is no such interface. Add it first."),
    ("shorter than sun_len", "This path is too long for a socket."),
    ("no supported number system", "A number here begins with 0x or 0b."),
    ("unknown variant", "This host's processors do not have this one."),
    ("error binding to the host-side", "The socket cannot be made there. Is something there?"),
    ("failed to restore from snapshot", "The machine could not be restored from these files."),
    ("failed to open target file", "The monitor may not write to this file."),
)


def in_plain_words(words: str) -> Told:
    """What the monitor said, with a sentence before it."""
    said = words.lower()
    known = (sentence for part, sentence in _SENTENCES if part in said)
    return Told(next(known, "The monitor refused this."), words)
