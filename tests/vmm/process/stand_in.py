"""A program in place of the monitor that starts in milliseconds and knows one answer."""

import json
import signal
import socket
import sys

signal.signal(signal.SIGINT, signal.SIG_IGN)
INFO = {"app_name": "Firecracker", "id": "a", "state": "Not started", "vmm_version": "1.16.1"}
BODY = json.dumps(INFO).encode()
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[sys.argv.index("--api-sock") + 1])
listener.listen()
while True:
    connection, _ = listener.accept()
    with connection:
        while connection.recv(65_536):
            head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY)
            connection.sendall(head + BODY)
