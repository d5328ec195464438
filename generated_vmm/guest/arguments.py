"""What a caller writes for a file, before anything is sent to the guest."""

from __future__ import annotations

import io

MOST_MODE = 0o7777


def octal_of(mode: int) -> str:
    """The permissions as the agent reads them; raises ValueError, also for 644 (not 0o644)."""
    if not isinstance(mode, int):
        raise TypeError(f"mode is {mode!r}: pass a number, such as 0o644")
    if not 0 <= mode <= MOST_MODE:
        raise ValueError(f"{mode!r} is no mode of a file: it must be from 0 to 0o7777")
    if 0o1000 <= mode <= 777:  # the octal digits 1000 to 1411: no file has such permissions
        raise ValueError(f"mode is {mode} in decimal: write 0o{mode}")
    return f"{mode:o}"


def require_binary(file: object, mode: str) -> None:
    """Raises TypeError for a path or a file that is open as text; `mode` is that of the file."""
    needed = {"rb": "seek", "wb": "write"}[mode]
    if isinstance(file, io.TextIOBase) or not hasattr(file, needed):
        given = type(file).__name__
        raise TypeError(f"pass an open binary file, open(path, {mode!r}), not {given}")
