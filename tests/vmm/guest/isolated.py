"""The real agent on a unix socket, as in a machine of its own: `isolated.py SOCKET FOLDER [held]`.

What it renews are files of the folder instead of those of the host. Each renewal is a line of
`renewed`. The program of a user writes to `seen`, again and again, which machine it is in, once
there is a file `go`. With `held`, the agent begins as in a copy of a machine that was held: the
program is there and stands still, before it has read anything. The file `broken` makes the
reseeding fail.
"""

import errno
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from generated_vmm.guest import agent

USER = """
until [ -e "$0/go" ]; do :; done
while :; do cat "$0/machine_id"; done >>"$0/seen"
"""


class AsVsock(socket.socket):
    """A listener whose peers are the host of a machine."""

    family = socket.AF_VSOCK
    begin: Callable[[], None] | None = None

    def accept(self) -> tuple[socket.socket, Any]:
        begin, AsVsock.begin = AsVsock.begin, None
        if begin is not None:
            begin()
        descriptor, _ = self._accept()  # type: ignore[attr-defined]
        return socket.socket(socket.AF_UNIX, fileno=descriptor), (agent.HOST_CID, 0)


def listener_for(where: str) -> socket.socket:
    listener = AsVsock(socket.AF_UNIX)
    listener.bind(where)
    listener.listen()
    return listener


def renewing(folder: Path, name: str) -> Callable[[Any], object]:
    """Stores a value, and how much the user's program has written until then."""

    def renew(value: object) -> None:
        if name == "seed" and (folder / "broken").exists():
            raise OSError(errno.EIO, "Input/output error")
        (folder / name).write_text(f"{value}\n")
        with (folder / "renewed").open("a") as file:
            file.write(f"{name} {(folder / 'seen').stat().st_size}\n")

    return renew


def main(where: str, folder: Path, *, held: bool) -> None:
    agent.listener_for = listener_for
    agent.groups_beside = lambda own: [one.group for one in agent.Request.known.values()]
    agent.NAMES = agent.GROUP_NAME  # other agents of this host are no earlier ones
    agent.RENEWALS.update({name: renewing(folder, name) for name in agent.RENEWALS})
    (folder / "machine_id").exists() or (folder / "machine_id").write_text("of the snapshot\n")
    (folder / "go").unlink(missing_ok=True)  # the origin's
    (folder / "seen").write_text("")  # what was before belongs to the origin
    spec = {"args": ["sh", "-c", USER, str(folder)]}

    def begin() -> None:
        host, guest = socket.socketpair()
        with host, guest:
            requests = agent.Request(guest)
            requests.put_programs("user", spec)
            if held:
                requests.put_hold()
                assert requests.known["user"].returncode is None
        (folder / "go").touch()

    AsVsock.begin = staticmethod(begin)
    agent.main(where)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), held="held" in sys.argv[3:])
