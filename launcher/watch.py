"""``hdrl watch``: the report of something that still runs, in a browser of this machine."""

from __future__ import annotations

import hmac
import secrets
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import click

from hdrl.base.errors import HdrlError, OutputError
from hdrl.launcher.completion import files_or
from hdrl.launcher.numbers import IntRange
from hdrl.launcher.stopping import Terminated
from hdrl.launcher.trust import load_files, trust_option

LOOPBACK = "127.0.0.1"
RENEWED_S = 5
"""Seconds between two requests of a browser while something runs."""

MOST_CONNECTIONS = 16
"""Connections at a time; a browser opens 6. Further ones are closed at once."""

REQUEST_S = 5.0
"""Time that a connection may take to send its request, and its reader to take the page, in seconds."""

RENEWAL = (
    f"<script>setTimeout(() => location.reload(), {RENEWED_S}000);</script>"
    f'<noscript><meta http-equiv="refresh" content="{RENEWED_S}"></noscript>'
)
"""HTML that renews the page: reloaded, it keeps the tab that its reader has chosen, which it would not by a header."""


class Watcher(BaseHTTPRequestHandler):
    """Answers with the page of one folder at one secret address, and with nothing else; one request a connection."""

    server: PageServer
    timeout = REQUEST_S

    def do_GET(self) -> None:  # the name is http.server's
        """Send the page as it is now."""
        from hdrl.report.live import is_finished, live_page, page_of_problem

        # Another site must not read the page under a name of its own that leads here.
        host = (self.headers.get("Host") or "").rpartition(":")[0]
        is_own_file = hmac.compare_digest(self.path.encode(), self.server.path.encode())
        if host not in (LOOPBACK, "localhost") or not is_own_file:
            self.send_error(404)
            return
        self.server.received(self.connection)
        folder = self.server.folder
        finished, status = is_finished(folder), 200
        try:
            text = live_page(folder)
        except HdrlError as error:  # the process that fills the folder may start anew
            finished, status = False, 503
            text = page_of_problem(folder, str(error))
        body = (text if finished else text.replace("</head>", f"{RENEWAL}</head>", 1)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")  # the address is a secret
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the names are http.server's
        """Say nothing of requests."""


class PageServer(ThreadingHTTPServer):
    """A server of the page of one folder, with few connections at a time and short ones."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.path = f"/{secrets.token_urlsafe(16)}/"
        self._opened_s: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        super().__init__((LOOPBACK, port), Watcher)

    @property
    def address(self) -> str:
        """Address of the page; it cannot be guessed."""
        return f"http://{LOOPBACK}:{self.server_address[1]}{self.path}"

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Return whether there is room for one more connection; note when it came."""
        del client_address
        with self._lock:
            if len(self._opened_s) >= MOST_CONNECTIONS:
                return False
            self._opened_s[request] = time.monotonic()
            return True

    def received(self, request: socket.socket) -> None:
        """Note that a request has come whole: making its page may take long."""
        with self._lock:
            self._opened_s[request] = float("inf")

    def service_actions(self) -> None:
        """End connections whose requests have not come in time, however slowly they trickle in."""
        now_s = time.monotonic()
        with self._lock:
            late = [request for request, opened_s in self._opened_s.items() if now_s - opened_s > REQUEST_S]
        for request in late:
            self._end(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._lock:
            self._opened_s.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of readers that are gone; errors of our own keep their traceback."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    @staticmethod
    def _end(request: socket.socket) -> None:
        try:
            request.shutdown(socket.SHUT_RDWR)
        except OSError:  # it has ended by itself
            return


def server_of(folder: Path, port: int) -> PageServer:
    """Return a server of the page of a folder, for this user on this machine alone."""
    from hdrl.report.live import live_page

    live_page(folder)
    try:
        return PageServer(folder, port)
    except OSError as error:
        raise OutputError(f"port {port} cannot be used ({error.strerror or error})") from None


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--port", type=IntRange(0, 65535), default=0, help="Port on this machine; any that is free.")
@click.option(
    "--setting",
    metavar="FILE",
    help="Python file of the setting, if it is a custom one.",
    shell_complete=files_or("settings"),
)
@trust_option
def watch(folder: Path, port: int, setting: str | None, *, trust: bool) -> None:
    """Show the page of FOLDER, a run, a training or a comparison, while it runs and afterwards; Ctrl-C ends it.

    Only browsers of this machine can see it, and only with the whole address.
    """
    load_files(setting, [folder], trust=trust)
    with server_of(folder, port) as server:
        click.echo(f"{server.address} (Ctrl-C ends)")
        try:
            server.serve_forever()
        except Terminated:
            raise
        except KeyboardInterrupt as request:  # no error, and taken: it may not come again
            click.echo()
            raise click.exceptions.Exit(0) from request
