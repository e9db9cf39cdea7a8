"""``hdrl watch``: the report of something that still runs, in a browser of this machine."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import click

from hdrl.launcher.stopping import Terminated

LOOPBACK = "127.0.0.1"
RENEWED_S = 5
"""How often a browser asks again while something runs."""

RENEWAL = (
    f"<script>setTimeout(() => location.reload(), {RENEWED_S}000);</script>"
    f'<noscript><meta http-equiv="refresh" content="{RENEWED_S}"></noscript>'
)
"""How it does so: reloaded, a page keeps the tab that its reader has chosen, which it would not by a header."""


class Watcher(BaseHTTPRequestHandler):
    """Answers with the page of one folder, and with nothing else."""

    folder: Path
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:  # the name is http.server's
        """Send the page as it is now."""
        from hdrl.errors import HdrlError
        from hdrl.report.live import is_finished, live_page, page_of_problem

        # Another site must not read the page under a name of its own that leads here.
        host = (self.headers.get("Host") or "").rpartition(":")[0]
        if host not in (LOOPBACK, "localhost") or self.path != "/":
            self.send_error(404)
            return
        finished, status = is_finished(self.folder), 200
        try:
            text = live_page(self.folder)
        except HdrlError as error:  # what fills the folder may begin anew
            finished, status = False, 503
            text = page_of_problem(self.folder, str(error))
        body = (text if finished else text.replace("</head>", f"{RENEWAL}</head>", 1)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the names are http.server's
        """Say nothing of requests."""


def server_of(folder: Path, port: int) -> ThreadingHTTPServer:
    """Return a server of the page of a folder, for this machine alone.

    Parameters
    ----------
    folder
        Folder of a run, a training or a comparison.
    port
        The port; 0: any that is free.

    Raises
    ------
    HdrlError
        If the folder is none of them, or the port is taken.
    """
    from hdrl.errors import OutputError
    from hdrl.report.live import live_page

    live_page(folder)
    watcher = type("WatcherOfFolder", (Watcher,), {"folder": folder})
    try:
        return ThreadingHTTPServer((LOOPBACK, port), watcher)
    except OSError as error:
        raise OutputError(f"port {port} cannot be used ({error.strerror or error})") from None


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port on this machine; any that is free.")
def watch(folder: Path, port: int) -> None:
    """Show the page of FOLDER, a run, a training or a comparison, while it runs and afterwards; Ctrl-C ends it.

    Only browsers of this machine can see it.
    """
    with server_of(folder, port) as server:
        click.echo(f"http://{LOOPBACK}:{server.server_address[1]}/ (Ctrl-C ends)")
        try:
            server.serve_forever()
        except Terminated:
            raise
        except KeyboardInterrupt:  # what was asked for, no error
            click.echo()
