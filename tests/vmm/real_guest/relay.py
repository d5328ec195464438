"""Runs in the outer machine: joins its vsock ports to unix sockets there. relay.py PORT PATH ..."""

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


def serve(host: socket.socket, path: str) -> None:
    with host, socket.socket(socket.AF_UNIX) as inner:
        try:
            inner.connect(path)
        except OSError:
            return
        back = threading.Thread(target=move, args=(inner, host, socket.SHUT_RDWR), daemon=True)
        back.start()
        move(host, inner, socket.SHUT_WR)
        back.join()


def listen(port: int, path: str) -> None:
    with socket.socket(socket.AF_VSOCK) as listener:
        listener.bind((socket.VMADDR_CID_ANY, port))
        listener.listen(32)
        while True:
            threading.Thread(target=serve, args=(listener.accept()[0], path), daemon=True).start()


for number, name in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
    threading.Thread(target=listen, args=(int(number), name)).start()
