"""What a caller writes for a file, before anything is sent to the guest."""

from __future__ import annotations

import io


def octal_of(mode: int) -> str:
    """The permissions as the agent reads them; raises ValueError for 644 instead of 0o644."""
    if 0o1000 <= mode <= 777:  # the octal digits 1000 to 1411: no file has such permissions
        raise ValueError(f"mode is {mode} in decimal: write 0o{mode}")
    return f"{mode:o}"


def require_binary(file: object) -> None:
    """Raises TypeError for a path or a file that is open as text."""
    if isinstance(file, io.TextIOBase) or not hasattr(file, "seek"):
        raise TypeError(f"pass an open binary file, open(path, 'rb'), not {type(file).__name__}")
