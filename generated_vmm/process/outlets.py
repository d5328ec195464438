"""The outputs of a monitor, which grow while others read them: console, log and metrics.

Each counter of the metrics is the increase since the previous line, even if that line was lost: the
monitor writes to a full fifo in part or not at all, and does not retry. Measured on 1.16.1.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from generated_vmm.facade.elsewhere import ITEMS, PIECE
from generated_vmm.misuse import Raw, Told, warn_caller
from generated_vmm.process.errors import MonitorError
from generated_vmm.process.keeper.kernel import Descriptor, ready_of
from generated_vmm.process.keeper.record import INPUT, LOG, METRICS, OUTPUT

Item = TypeVar("Item")
LAST_WORDS = 20
LONGEST_LINE, READ_BYTES = 1_048_576, 65_536
LARGEST_FIFO = 1_048_576  # bytes (pipe(7))


class Broadcast:
    """Wakes all waiters when something has changed."""

    def __init__(self) -> None:
        self._listeners: set[Callable[[], object]] = set()

    def notify(self) -> None:
        """Wakes all waiters."""
        for listener in list(self._listeners):
            listener()

    @contextlib.contextmanager
    def listening(self, listener: Callable[[], object]) -> Iterator[None]:
        """Calls the listener at each change, in whatever thread, while the block runs."""
        self._listeners.add(listener)
        try:
            yield
        finally:
            self._listeners.discard(listener)


class BroadcastLog(Broadcast, ABC, Generic[Item]):
    """Items at positions that grow until the end."""

    def __init__(self) -> None:
        super().__init__()
        self.position = 0
        """The length since the start, dropped data included."""
        self.ended = False
        """Whether nothing more will come."""
        self.parent: int | None = None
        """In a forked process: the process whose monitor it is."""

    def require_own(self) -> None:
        """Raises `MonitorError` in a forked process, to which nothing comes."""
        if self.parent is not None:
            what = f"the monitor belongs to process {self.parent}, which this one was forked from"
            raise MonitorError(f"{what}: here a VmmClient of its socket_path calls it")

    def end(self) -> None:
        """Ends it: nothing more will come."""
        self.ended = True
        self.notify()

    @abstractmethod
    def feed(self, received: bytes) -> None:
        """Adds what has come."""

    @abstractmethod
    def piece(self, position: int) -> tuple[list[Item], int]:
        """The stored items from a position on, and the position after them."""


class LastItems(BroadcastLog[Item], Told):
    """What the last lines of a stream contain, as far as they fit into a number of bytes."""

    _elsewhere = ITEMS
    instead = ""
    """The option and the file to which the lines go."""

    def __init__(
        self, parse: Callable[[str], Item | None], most: int, most_bytes: float = math.inf
    ) -> None:
        """`parse` gets a line without its end, and returns None for one that is to be dropped."""
        super().__init__()
        self._parse, self._begun = parse, b""
        self._items: deque[tuple[int, int, Item]] = deque()  # each with its position and its size
        self._most, self._most_bytes, self._bytes = most, most_bytes, 0

    def __iter__(self) -> Iterator[Item]:
        self._tell_instead()
        return iter(self.piece(0)[0])

    def __len__(self) -> int:
        return len(self._items)

    @property
    def last(self) -> Item | None:
        """The last item."""
        self._tell_instead()
        return self._items[-1][2] if self._items else None

    def _tell_instead(self) -> None:
        if self.instead:
            warn_caller(f"nothing comes here: the lines go to {self.instead}")

    def feed(self, received: bytes) -> None:
        """Adds what the lines contain, and drops the oldest. The end of a very long one is lost."""
        *whole, begun = (self._begun + received).split(b"\n")
        self._begun = begun[:LONGEST_LINE]
        for line in whole:
            item = self._parse(line.decode("utf-8", "replace"))
            if item is not None:
                self._put(item, len(line))

    def _put(self, item: Item, size: int) -> None:
        self._items.append((self.position, size, item))
        self.position += 1
        self._bytes += size
        while len(self._items) > self._most or self._bytes > self._most_bytes:
            self._bytes -= self._items.popleft()[1]
        self.notify()

    def piece(self, position: int) -> tuple[list[Item], int]:
        """The stored items from a position on, and the position after them."""
        items = self._items.copy()  # atomic: another thread may put items meanwhile
        end = items[-1][0] + 1 if items else self.position
        return [item for at, _, item in items if at >= position], end


@dataclass(frozen=True)
class Piece(Told):
    """Bytes of the console, and their position, counted from the monitor's start."""

    _elsewhere = PIECE
    start: int
    data: bytes

    @property
    def end(self) -> int:
        """The position after them: `since` for the next bytes."""
        return self.start + len(self.data)


class Console(BroadcastLog[Piece]):
    """The last bytes of the guest's console, and the fifo that leads to it."""

    input: Descriptor | None = None
    """The fifo that leads to the guest, while the monitor runs."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size, self._kept = size, Piece(0, b"")

    def feed(self, received: bytes) -> None:
        """Adds bytes and drops the oldest."""
        data = (self._kept.data + received)[-self._size :]
        self._kept = Piece(self.position + len(received) - len(data), data)
        self.position += len(received)  # last: whoever sees it finds the data
        self.notify()

    def read(self, since: int = 0) -> Piece:
        """The stored bytes from a position on.

        The piece starts after `since` if older bytes have been dropped.
        """
        if since < 0:
            raise ValueError(f"since is {since}; positions count from the start: read().data[-n:]")
        kept = self._kept  # another thread may feed meanwhile
        start = min(max(since, kept.start), kept.end)
        return Piece(start, Raw(kept.data[start - kept.start :]))

    def piece(self, position: int) -> tuple[list[Piece], int]:
        """The stored bytes from a position on as one piece, and the position after them."""
        piece = self.read(position)
        return [piece], piece.end

    def write_input(self, data: bytes) -> int:
        """Writes to the guest as much as there is room for; the number of bytes. Raises OSError."""
        fifo = self.input
        if fifo is None:
            raise BrokenPipeError("no monitor reads it")
        try:
            return os.write(fifo.number, data)
        except BlockingIOError:
            return 0


@dataclass(frozen=True)
class Metrics:
    """A line of the metrics: `groups` as the monitor names them, `at` in UTC.

    Counters are increases in the last `seconds`, which is None for the first line and for one
    after a lost line. Values of the kind "store", such as `latencies_us`, are no increases.
    """

    at: datetime
    groups: Mapping[str, Mapping[str, Any]] = field(repr=False)
    seconds: float | None = None


class MetricsReader:
    """Parses lines into metrics, with the time that each counted."""

    def __init__(self) -> None:
        self._before: datetime | None = None

    def read(self, line: str) -> Metrics | None:
        """The metrics in a line; None for one that the monitor wrote only in part."""
        before, self._before = self._before, None
        try:
            value = json.loads(line)
            at = datetime.fromtimestamp(value.pop("utc_timestamp_ms") / 1000, UTC)
        except Exception:  # whatever the monitor wrote in part
            return None
        self._before = at
        groups = {name: group for name, group in value.items() if isinstance(group, dict)}
        passed = (at - before).total_seconds() if before else 0.0
        return Metrics(at, groups, passed if passed > 0 else None)


class Outlets:
    """Reads the monitor's fifos into the streams that store their last bytes and lines."""

    def __init__(self, console: Console, log: LastItems[str], metrics: LastItems[Metrics]) -> None:
        self.console, self.log, self.metrics = console, log, metrics
        self._streams: dict[str, BroadcastLog[Any]] = {OUTPUT: console, LOG: log, METRICS: metrics}
        self._open: dict[int, tuple[BroadcastLog[Any], Descriptor]] = {}

    def open(self, given: Mapping[str, Descriptor]) -> None:
        """Takes the ends of the fifos that are there."""
        self.console.input = given.get(INPUT)
        for name in self._streams.keys() & given:
            self._open[given[name].number] = (self._streams[name], given[name])

    def read_until(self, descriptor: int) -> None:
        """Reads the fifos until another descriptor is ready."""
        while descriptor not in (ready := ready_of([descriptor, *self._open])):
            for each in ready:
                self._read(each)

    def _read(self, descriptor: int, most: int = READ_BYTES) -> None:
        """Reads from a fifo, and closes it once all its writers have."""
        with contextlib.suppress(BlockingIOError):  # another process reads here too
            if received := os.read(descriptor, most):
                self._open[descriptor][0].feed(received)
            else:
                del self._open[descriptor]

    def end(self) -> None:
        """Reads the rest, closes the fifos, and ends the streams."""
        for each in [*self._open]:
            self._read(each, LARGEST_FIFO)
        self.abandon()
        for stream in self._streams.values():
            stream.end()

    def start_over(self) -> None:
        """In a forked process: the streams belong to the parent."""
        for stream in self._streams.values():
            stream.parent = stream.parent or os.getppid()

    def abandon(self) -> None:
        """Only closes the fifos, in a forked process."""
        self._open, self.console.input = {}, None

    def last_words(self) -> list[str]:
        """The last lines of the log, or of the monitor's output before it had a log."""
        printed = self.console.read().data.decode("utf-8", "replace").splitlines()
        return (self.log.piece(0)[0] or printed)[-LAST_WORDS:]
