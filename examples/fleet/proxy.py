"""nginx in front of the workers: it terminates TLS and distributes requests in turn."""

from __future__ import annotations

import grp
import os
import pwd
import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from examples.fleet.part import Actions, StartError
from examples.fleet.program import Program, path_of

CONFIGURATION: Final = """\
daemon off;
pid nginx.pid;
error_log stderr error;
worker_processes 1;
{user}
events {{ worker_connections 1024; }}

http {{
    access_log off;
    server_tokens off;
    client_max_body_size 1m;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;

    # No ip_hash and no cookie: any worker may get any request.
    upstream workers {{
{servers}
    }}

    server {{
        listen 127.0.0.1:{port} ssl reuseport;
        ssl_certificate certificate.pem;
        ssl_certificate_key key.pem;

        location / {{
            proxy_pass http://workers;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
            proxy_set_header X-Forwarded-For $remote_addr;
            proxy_set_header X-Forwarded-Proto $scheme;
            proxy_buffer_size 8k;
            proxy_connect_timeout 2s;
            proxy_read_timeout 60s;
        }}
    }}
}}
"""


class Proxy(Program):
    """nginx with a configuration of its own; `certificate.pem` and `key.pem` are in its folder.

    `place` holds the port, so that no other program gets it while nginx is restarted.
    """

    def __init__(self, folder: Path, place: socket.socket, workers: Sequence[Path]) -> None:
        self._address_of_all: tuple[str, int] = place.getsockname()
        port = self._address_of_all[1]
        text = CONFIGURATION.format(port=port, user=_user(), servers=_servers(workers))
        (folder / "nginx.conf").write_text(text)
        command = [nginx(), "-p", str(folder), "-c", "nginx.conf", "-e", "stderr"]
        super().__init__("nginx", command, folder, is_ready=self._answers)

    @property
    def actions(self) -> Actions:
        """The actions of a process, and reloading the configuration."""
        return {**super().actions, "reload": self.reload}

    def reload(self) -> None:
        """Reloads: old processes finish their requests, new ones serve later requests."""
        self.send(signal.SIGHUP)

    def _answers(self) -> bool:
        with socket.socket() as connection:
            return connection.connect_ex(self._address_of_all) == 0


def place_for(port: int) -> socket.socket:
    """Holds a port of 127.0.0.1, 0 for any free one; programs with SO_REUSEPORT may listen there.

    Raises StartError if the port is taken.
    """
    place = socket.socket()
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        place.bind(("127.0.0.1", port))
    except OSError as error:
        place.close()
        raise StartError(
            f"port {port} of 127.0.0.1 cannot be used ({error.strerror}). "
            "Choose another with FLEET_PORT."
        ) from error
    return place


def nginx() -> str:
    """The program; raises StartError if there is none."""
    found = path_of("nginx")
    if found is None:
        raise StartError("nginx is missing. Install it with: apt-get install -y nginx")
    return found


def _servers(workers: Sequence[Path]) -> str:
    """The workers; one that failed is skipped for two seconds."""
    lines = (f"        server unix:{path} max_fails=1 fail_timeout=2s;" for path in workers)
    return "\n".join(lines)


def _user() -> str:
    """If root starts nginx, its workers run as root too: other users cannot read the folder."""
    if os.geteuid() != 0:
        return ""
    return f"user {pwd.getpwuid(0).pw_name} {grp.getgrgid(0).gr_name};"
