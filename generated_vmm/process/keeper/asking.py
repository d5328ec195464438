"""Asking the keeper of a folder."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from generated_vmm.process.keeper.kernel import (
    LONGEST_END,
    PAUSE,
    Refused,
    holders,
    in_words,
    lock,
)
from generated_vmm.process.keeper.messages import peer_of, receive, send
from generated_vmm.process.keeper.record import KEEPER

ATTEMPT_SECONDS = 1.0


class Answer(NamedTuple):
    """What a keeper has told, with descriptors, and the connection to it."""

    connection: socket.socket
    told: dict[str, Any]
    given: list[int]


def ask(
    folder: int,
    path: str,
    word: str = "ask",
    given: Sequence[int] = (),
    *,
    seconds: float = LONGEST_END,
    pause: Callable[[float], object] = time.sleep,
) -> Answer | None:
    """The answer of a folder's keeper; None if it has none, and is locked by this process now.

    Waits for a keeper that has just begun, or is about to end. Raises `Refused` if the folder is
    locked all the time, and nobody answers.
    """
    deadline = time.monotonic() + seconds
    while not lock(folder):
        left = deadline - time.monotonic()
        if word == "ask":  # who comes as the owner comes once
            left = min(left, ATTEMPT_SECONDS)
        with contextlib.suppress(OSError):
            if (answer := _answer(folder, word, given, left)) is not None:
                return answer
        if time.monotonic() > deadline:
            who = in_words(holders(folder))
            raise Refused(f"{path} is in use by {who}, which does not answer")
        pause(PAUSE)
    return None


def _answer(folder: int, word: str, given: Sequence[int], seconds: float) -> Answer | None:
    """None if the keeper is about to end. Raises OSError."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.settimeout(max(PAUSE, seconds))
        connection.connect(f"/proc/self/fd/{folder}/{KEEPER}")
        if peer_of(connection)[1] == os.geteuid():
            send(connection, {"word": word}, given)
            if (received := receive(connection)) is not None:
                return Answer(connection, *received)
    except BaseException:
        connection.close()
        raise
    connection.close()
    return None
