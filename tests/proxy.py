"""A proxy for any TCP server that does to connections what networks and servers do on bad days."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

_CHUNK = 1 << 16


@dataclass
class Link:
    """One connection: the client's socket and the server's."""

    client: socket.socket
    server: socket.socket

    def pump(self, source: socket.socket, target: socket.socket, seen: Callable[[bytes], bytes | None]) -> None:
        """Hand on what ``seen`` makes of each chunk, until an end closes or ``seen`` gives None: then both are closed."""
        try:
            while chunk := source.recv(_CHUNK):
                given = seen(chunk)
                if given is None:
                    return self.close()
                target.sendall(given)
            target.shutdown(socket.SHUT_WR)
        except OSError:  # the other side has closed it
            self.close()

    def both_ways(self, up: Callable[[bytes], bytes | None], down: Callable[[bytes], bytes | None]) -> None:
        """Until both sides have ended. ``up``: what the client sends; ``down``: what the server answers."""
        asking = threading.Thread(target=self.pump, args=(self.client, self.server, up), daemon=True)
        asking.start()
        self.pump(self.server, self.client, down)
        asking.join()

    def answer(self) -> bytes:
        """All that the server answers, until it closes. The client hears nothing of it."""
        asking = threading.Thread(target=self.pump, args=(self.client, self.server, lambda chunk: chunk), daemon=True)
        asking.start()
        answer = bytearray()
        while chunk := self.server.recv(_CHUNK):
            answer.extend(chunk)
        return bytes(answer)

    def close(self) -> None:
        for end in (self.client, self.server):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


@dataclass
class Proxy:
    """``done`` counts what was done to connections, by its name."""

    port: int = 0
    done: dict[str, int] = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.Lock)

    def note(self, what: str) -> None:
        with self._lock:
            self.done[what] = self.done.get(what, 0) + 1


@contextmanager
def proxy(server_port: int, treat: Callable[[Link, Proxy], None], host: str = "127.0.0.1") -> Iterator[Proxy]:
    """A proxy on a free port of this machine. ``treat`` is what happens to each connection."""
    made = Proxy()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection((host, server_port)) as server:
                treat(Link(self.request, server), made)

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as listening:
        made.port = listening.server_address[1]
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield made
        listening.shutdown()
