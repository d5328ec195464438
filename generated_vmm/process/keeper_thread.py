"""The thread that follows a keeper, and the words for it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from generated_vmm.process.errors import MonitorStartError
from generated_vmm.process.keeper import messages
from generated_vmm.process.keeper.kernel import PROCESS_LIMIT
from generated_vmm.transport.connection import popped


class KeeperThread:
    """Follows one keeper for its owner; whoever has a word for the keeper sends it.

    The thread waits for a descriptor by `wait`, and calls `note` with each event, `fail` with the
    reason if it cannot go on, and `finish` at last, or if there never will be a keeper.
    """

    def __init__(
        self,
        wait: Callable[[int], object],
        note: Callable[..., object],
        fail: Callable[[BaseException], object],
        finish: Callable[[], object],
    ) -> None:
        self._wait, self._note, self._fail, self._finish = wait, note, fail, finish
        self._unbegun = [True]  # the thread that takes it begins with a keeper, or decides for none
        self._connection: socket.socket | None = None
        self._given: socket.socket | None = None  # the keeper's end, until the keeper has it
        self._words: deque[dict[str, Any]] = deque()

    @property
    def has_begun(self) -> bool:
        """Whether there is, or was, or never will be a keeper."""
        return not self._unbegun

    def begin(self, order: Callable[[socket.socket], object]) -> None:
        """Gives a keeper an end of a connection, unless that was done, and follows it."""
        if self._unbegun:
            thread = threading.Thread(target=self._live, args=[order], name="monitor", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                raise MonitorStartError(f"no thread can be started: {PROCESS_LIMIT}") from None

    def say(self, word: str, **what: Any) -> None:
        """Sends a word, as soon as there is a keeper; "detach" ends the connection."""
        self._words.append({"word": word, **what})
        if word in ("stop", "kill", "detach") and popped(self._unbegun):
            self._finish()  # there is nothing to end
        self._send_words()

    def close(self) -> None:
        """Closes this process's ends of the connection."""
        ends, self._connection, self._given = (self._connection, self._given), None, None
        for end in filter(None, ends):
            end.close()

    def _send_words(self) -> None:
        connection = self._connection
        with contextlib.suppress(IndexError, OSError):  # another one has sent them
            while connection is not None:
                word = self._words.popleft()
                if word["word"] == "detach":
                    connection.shutdown(socket.SHUT_RDWR)
                messages.send(connection, word)

    def _live(self, order: Callable[[socket.socket], object]) -> None:
        """Follows a keeper to its end, unless another thread does, or none is wanted any more."""
        if not popped(self._unbegun):
            return
        try:
            ours, theirs = self._connection, self._given = messages.pair()
            with theirs:
                order(theirs)
            while self._hear(ours):
                pass
        except BaseException as error:
            self._fail(error)
        self.close()
        self._finish()

    def _hear(self, connection: socket.socket) -> bool:
        """Waits until the keeper tells something; false once it tells no more.

        Its end of the connection may remain open, in a process that was forked meanwhile.
        """
        self._send_words()
        self._wait(connection.fileno())
        received = messages.receive(connection)
        if received is None:
            return False
        told, given = received
        event: str = told.pop("event")
        self._note(event, given, **told)
        return event != "removed"
