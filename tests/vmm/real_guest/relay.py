"""Runs in the outer machine: joins its vsock ports to unix sockets there, and back.

relay.py FROM TO ...: FROM and TO are a vsock port (FROM of this machine, TO of its host) or a path.
"""

import socket
import sys
import threading


def move(source: socket.socket, target: socket.socket, end: int) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(end)
    except OSError:
        pass


def connected(end: str) -> socket.socket:
    family = socket.AF_VSOCK if end.isdigit() else socket.AF_UNIX
    stream = socket.socket(family)
    stream.connect((socket.VMADDR_CID_HOST, int(end)) if end.isdigit() else end)
    return stream


def serve(caller: socket.socket, end: str) -> None:
    with caller:
        try:
            target = connected(end)
        except OSError:
            return
        with target:
            pair = (target, caller, socket.SHUT_RDWR)
            back = threading.Thread(target=move, args=pair, daemon=True)
            back.start()
            move(caller, target, socket.SHUT_WR)
            back.join()


def listen(begin: str, end: str) -> None:
    with socket.socket(socket.AF_VSOCK if begin.isdigit() else socket.AF_UNIX) as listener:
        listener.bind((socket.VMADDR_CID_ANY, int(begin)) if begin.isdigit() else begin)
        listener.listen(32)
        while True:
            threading.Thread(target=serve, args=(listener.accept()[0], end), daemon=True).start()


for begin, end in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
    threading.Thread(target=listen, args=(begin, end)).start()
