"""Logs of the archive by name, from a server on this machine that behaves well or badly."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hdrl.base.errors import FetchError, MissingExtra, OptionsError, UnknownName
from hdrl.experiment.reproduce.recipe import missing_traces, read_experiment, trace_folders
from hdrl.launcher.main import cli
from hdrl.settings.batch.workload import archive, archive_logs, fetch_folder, fetch_log, read_workload
from hdrl.settings.batch.workload.download import partial_file

pytest.importorskip("requests", reason="fetching needs requests")

FILE = "KTH-SP2-1996-2.1-cln.swf.gz"
PATH = f"/l_kth_sp2/{FILE}"


def make_log(n_jobs: int = 6000) -> bytes:
    """Make a log whose compressed file is some chunks long."""
    lines = ["; Version: 2.2", "; Acknowledge: Lars Malinowsky"]
    for job in range(1, n_jobs + 1):
        noise = int(hashlib.sha256(str(job).encode()).hexdigest()[:12], 16)
        run_s = 1 + noise % 10_000
        lines.append(f"{job} {noise} 0 {run_s} 1 -1 -1 1 {run_s + noise % 997} -1 1 {noise % 89} 1 -1 1 1 -1 -1")
    return gzip.compress("\n".join(lines).encode(), mtime=0)


LOG = make_log()
SHA256 = hashlib.sha256(LOG).hexdigest()


@dataclass
class Site:
    """What the server has, how it behaves, and what it was asked."""

    content: bytes = LOG
    etag: str = '"1"'
    status: int = 200
    ends_after: int | None = None
    has_ranges: bool = True
    has_length: bool = True
    length: str | None = None
    reason: str | None = None
    encoding: str | None = None
    url: str = ""
    asked: list[tuple[str, str | None]] = field(default_factory=list)


def handler_of(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the server calls it by that name
            wanted = self.headers.get("Range")
            site.asked.append((self.path, wanted))
            if site.status != 200 or self.path != PATH:
                self.send_error(site.status if site.status != 200 else 404, site.reason)
                return
            start = 0
            if wanted and site.has_ranges and int(wanted[6:-1]) >= len(site.content):
                self.send_error(416)
                return
            if wanted and site.has_ranges and self.headers.get("If-Range") == site.etag:
                start = int(wanted.removeprefix("bytes=").removesuffix("-"))
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{len(site.content) - 1}/{len(site.content)}")
            else:
                self.send_response(200)
            if site.has_length:
                self.send_header("Content-Length", site.length or str(len(site.content) - start))
            if site.etag:
                self.send_header("ETag", site.etag)
            if site.encoding:
                self.send_header("Content-Encoding", site.encoding)
            self.end_headers()
            with contextlib.suppress(OSError):  # who asked may have gone
                self.wfile.write(site.content[start : site.ends_after])

        def log_message(self, *words: object) -> None:
            del words

    return Handler


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Site]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("HDRL_CACHE", str(tmp_path / "cache"))
    site = Site()
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(site))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    site.url = f"http://127.0.0.1:{server.server_port}"
    yield site
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "workloads"


def fetch(site: Site, **choices: object) -> archive.FetchedLog:
    return fetch_log("KTH-SP2", base_url=site.url, **choices)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def run(*words: object) -> Result:
    return CliRunner().invoke(cli, ["workload", "fetch", *map(str, words)])


def pin(monkeypatch: pytest.MonkeyPatch, sha256: str, size_bytes: int | None = None) -> None:
    """Let the registry pin the log."""
    registry = json.loads(archive._REGISTRY.read_text())
    registry["logs"]["KTH-SP2"] |= {"sha256": sha256, "size_bytes": size_bytes}
    monkeypatch.setattr(
        archive, "read_json", lambda path: registry if path == archive._REGISTRY else json.loads(path.read_text())
    )


def test_a_good_file(site, folder, learning):
    told = []
    fetched = fetch(site, progress=lambda done, size: told.append((done, size)))
    assert fetched.is_new
    assert fetched.path == folder / FILE
    assert fetched.path.read_bytes() == LOG
    assert (fetched.sha256, fetched.size_bytes, fetched.thanks) == (SHA256, len(LOG), "Lars Malinowsky")
    assert told[0] == (0, len(LOG))
    assert told[-1] == (len(LOG), len(LOG))
    assert len(told) > 3
    assert files(folder) == [FILE, f"{FILE}.json"]
    assert read_workload(fetched.path, learning, n_jobs=5).n_jobs == 5


def test_what_is_there_is_not_asked_for(site, folder):
    fetch(site)
    again = fetch(site)
    assert not again.is_new
    assert (again.sha256, again.thanks) == (SHA256, "Lars Malinowsky")
    assert site.asked == [(PATH, None)]


def test_a_file_that_was_put_there_is_recorded(site, folder):
    folder.mkdir(parents=True)
    (folder / FILE).write_bytes(LOG)
    assert not fetch(site).is_new
    assert site.asked == []
    assert json.loads((folder / f"{FILE}.json").read_text())["sha256"] == SHA256


def test_a_damaged_file_is_fetched_again(site, folder):
    path = fetch(site).path
    path.write_bytes(LOG[:-9])
    assert fetch(site).is_new
    assert path.read_bytes() == LOG


def test_a_connection_that_ends_early_is_gone_on_with(site, folder):
    site.ends_after = 50_000
    with pytest.raises(FetchError, match=f"ended after 50,000 of {len(LOG):,} bytes"):
        fetch(site)
    assert not (folder / FILE).exists()
    assert (folder / "partial" / FILE).read_bytes() == LOG[:50_000]
    site.ends_after = None
    told = []
    fetched = fetch(site, progress=lambda done, size: told.append((done, size)))
    assert site.asked[1:] == [(PATH, "bytes=50000-")]
    assert told[0] == (50_000, len(LOG))
    assert fetched.path.read_bytes() == LOG
    assert files(folder) == [FILE, f"{FILE}.json"]


def test_ctrl_c_keeps_what_came(site, folder):
    def interrupt(done: int, size: int | None) -> None:
        if done > 40_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(site, progress=interrupt)
    n_bytes = (folder / "partial" / FILE).stat().st_size
    assert 40_000 < n_bytes < len(LOG)
    assert not (folder / FILE).exists()
    assert fetch(site).path.read_bytes() == LOG
    assert site.asked[1:] == [(PATH, f"bytes={n_bytes}-")]


def test_ctrl_c_on_the_command_line(site, folder, monkeypatch):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(archive, "_check", interrupt)
    result = run("KTH-SP2", "--base-url", site.url)
    assert result.exit_code == 130
    assert "interrupted" in result.output
    monkeypatch.undo()
    monkeypatch.setenv("HDRL_CACHE", str(folder.parent))
    assert fetch(site).path.read_bytes() == LOG
    assert len(site.asked) == 1  # all of it had come


def test_another_version_is_not_glued_to_the_first(site, folder):
    site.ends_after = 50_000
    with pytest.raises(FetchError):
        fetch(site)
    site.ends_after, site.etag, site.content = None, '"2"', make_log(7000)
    assert fetch(site).path.read_bytes() == site.content


@pytest.mark.parametrize("etag", ['"1"', "", 'W/"1"'])
def test_a_server_without_ranges(site, etag):
    site.has_ranges, site.etag, site.ends_after = False, etag, 50_000
    with pytest.raises(FetchError):
        fetch(site)
    site.ends_after = None
    assert fetch(site).path.read_bytes() == LOG
    # Nothing is asked of a server that does not say which version it sends.
    assert site.asked[1:] == [(PATH, "bytes=50000-" if etag == '"1"' else None)]


def test_a_partial_file_that_is_too_long(site, folder):
    site.ends_after = 50_000
    with pytest.raises(FetchError):
        fetch(site)
    site.ends_after = None
    (folder / "partial" / FILE).write_bytes(LOG + b"x")
    assert fetch(site).path.read_bytes() == LOG
    assert site.asked[1:] == [(PATH, f"bytes={len(LOG) + 1}-"), (PATH, None)]


def test_a_server_that_calls_the_compression_an_encoding(site):
    site.encoding, site.has_length = "gzip", False
    assert fetch(site).path.read_bytes() == LOG


@pytest.mark.parametrize("has_length", [True, False])
def test_a_file_that_is_too_large(site, folder, has_length):
    site.has_length = has_length
    told = []
    limit = f"more than {len(LOG) - 1:,} bytes" if not has_length else f"{len(LOG):,} bytes, expected at most"
    with pytest.raises(FetchError, match=limit):
        fetch(site, max_bytes=len(LOG) - 1, progress=lambda done, _: told.append(done))
    assert max(told, default=0) < len(LOG)
    assert files(folder) == []
    assert fetch(site, max_bytes=len(LOG)).path.read_bytes() == LOG


def test_what_came_of_a_file_that_is_too_large_stays(site, folder):
    site.ends_after = 50_000
    with pytest.raises(FetchError):
        fetch(site)
    site.ends_after = None
    with pytest.raises(FetchError, match=f"has {len(LOG):,} bytes, expected at most 60,000"):
        fetch(site, max_bytes=60_000)
    assert (folder / "partial" / FILE).read_bytes() == LOG[:50_000]
    assert fetch(site).path.read_bytes() == LOG
    assert site.asked[2:] == [(PATH, "bytes=50000-")]


def test_a_length_of_many_digits(site, folder):
    site.length = "1" * 18
    with pytest.raises(FetchError, match="has 111,111,111,111,111,111 bytes, expected at most 1,073,741,824"):
        fetch(site)
    assert files(folder) == []
    site.length = "1" * 5000  # more than Python reads: no length at all
    assert fetch(site).path.read_bytes() == LOG


def test_what_a_server_says_stays_printable(site):
    result = bad(site, status=503, reason="\x1b[31mno " + "!" * 1000)
    assert "\x1b" not in result.output
    assert len(result.output) < 200


def test_two_at_once(site, folder):
    with partial_file(folder / "partial" / FILE), pytest.raises(FetchError, match="another process"):
        fetch(site)
    assert fetch(site).is_new


def bad(site: Site, **changes: object) -> Result:
    for name, value in changes.items():
        setattr(site, name, value)
    result = run("KTH-SP2", "--base-url", site.url)
    assert result.exit_code == 2
    assert result.output.count("\n") == 1
    assert result.output.startswith("cli: error: http://127.0.0.1:")
    return result


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"status": 404}, "the server has no such file (404)"),
        ({"status": 503}, "the server answers 503 Service Unavailable"),
        ({"content": b"<html>Moved</html>"}, "is not a whole gzip file (Not a gzipped file"),
        ({"content": gzip.compress(b"<html>Moved</html>")}, "is not a log in the Standard Workload Format (line 1)"),
        ({"content": gzip.compress(b"; MaxJobs: 3\n")}, "is not a log in the Standard Workload Format"),
        ({"content": LOG[:-20]}, "is not a whole gzip file (Compressed file ended"),
        ({"content": LOG[:5000] + b"?" + LOG[5001:]}, "is not a whole gzip file"),
    ],
)
def test_what_is_bad_is_one_line_and_not_kept(site, folder, changes, message):
    assert message in bad(site, **changes).output
    assert files(folder) == []


def test_a_log_that_grows_beyond_its_bound_is_not_kept(site, folder, monkeypatch):
    monkeypatch.setenv("HDRL_MAX_UNPACKED_MIB", "2")
    content = gzip.compress(gzip.decompress(LOG) + b"; \n" * 2**20)
    assert "holds more than 2 MiB when decompressed; set HDRL_MAX_UNPACKED_MIB" in bad(site, content=content).output
    assert files(folder) == []


def test_a_truncated_file_is_one_line(site, folder):
    assert "ended after 50,000 of" in bad(site, ends_after=50_000).output
    assert files(folder) == [f"partial/{FILE}", f"partial/{FILE}.json"]


def test_a_server_that_is_not_there(site, folder):
    result = run("KTH-SP2", "--base-url", "http://127.0.0.1:9")
    assert result.exit_code == 2
    assert result.output.endswith("the server cannot be reached\n")
    assert files(folder) == []
    assert not (folder / "partial").exists()


def test_a_wrong_hash_against_the_registry(site, folder, monkeypatch):
    pin(monkeypatch, "0" * 64)
    assert f"its SHA-256 is {SHA256}, expected {'0' * 64} (as the archive had it)" in bad(site).output
    assert files(folder) == []
    pin(monkeypatch, SHA256, len(LOG) + 1)
    assert f"has {len(LOG):,} bytes, expected {len(LOG) + 1:,}" in bad(site).output
    assert files(folder) == []
    pin(monkeypatch, SHA256, len(LOG))
    assert run("KTH-SP2", "--base-url", site.url).exit_code == 0


def test_a_wrong_hash_against_the_first_download(site, folder):
    fetch(site).path.unlink()
    other = LOG[:4] + b"\1" + LOG[5:]  # compressed at another time
    site.content = other
    message = bad(site).output
    assert f"its SHA-256 is {hashlib.sha256(other).hexdigest()}, expected {SHA256}" in message
    assert f"as at the first download; if the log was replaced, remove {folder / FILE}.json" in message
    assert files(folder) == [f"{FILE}.json"]
    (folder / f"{FILE}.json").unlink()
    assert fetch(site).is_new


def test_a_broken_record_is_told(site, folder):
    fetch(site)
    (folder / f"{FILE}.json").write_text("[]")
    result = run("KTH-SP2", "--base-url", site.url)
    assert result.exit_code == 2
    assert "is not a record of a download" in result.output


def test_names():
    with pytest.raises(UnknownName, match=r"no log 'kth-sp' .*; did you mean 'KTH-SP2'"):
        fetch_log("kth-sp")
    with pytest.raises(UnknownName, match="known: ANL-Intrepid, "):
        fetch_log("?")
    assert archive.find_archive_log("unilu-GAIA").name == "UniLu-Gaia"
    result = run("SDSC-BLU")
    assert result.exit_code == 2
    assert result.output.endswith("did you mean 'SDSC-BLUE'?\n")
    assert run().exit_code == 2
    with pytest.raises(OptionsError, match="base URL 'ftp:"):
        fetch_log("KTH-SP2", base_url="ftp://here")


def test_without_requests(site, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "requests", None)
    with pytest.raises(MissingExtra, match=r"this needs requests: pip install 'hdrl\[fetch\]'"):
        fetch(site)
    assert site.asked == []
    assert not folder.exists()
    assert fetch_folder() == folder
    assert "KTH-SP2" in run("--list").output


def test_the_command(site, folder, tmp_path):
    out = tmp_path / "kth.swf"
    result = run("kth-sp2", "--base-url", f"{site.url}/", "--out", out)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == f"{folder / FILE}: fetched, {len(LOG):,} bytes, SHA-256 {SHA256}"
    assert "was graciously provided by Lars Malinowsky" in result.stdout
    assert "  Its header: Lars Malinowsky" in lines
    assert out.read_bytes() == gzip.decompress(LOG)
    again = run("KTH-SP2", "-o", tmp_path / "kth.swf.gz")
    assert "there already" in again.stdout
    assert (tmp_path / "kth.swf.gz").read_bytes() == LOG
    assert run("KTH-SP2", "--base-url", site.url, "--folder", tmp_path / "mine").exit_code == 0
    assert files(tmp_path / "mine") == [FILE, f"{FILE}.json"]
    n_asked = len(site.asked)
    wrong = run("KTH-SP2", "--base-url", site.url, "-o", tmp_path / "kth.json", "--folder", tmp_path / "other")
    assert wrong.exit_code == 2
    assert "expected a name that ends in .swf" in wrong.output
    assert len(site.asked) == n_asked


def test_the_limit_of_the_command(site, folder):
    site.content = make_log(60_000)
    assert len(site.content) > 1 << 20
    result = run("KTH-SP2", "--base-url", site.url, "--max-mib", 1)
    assert result.exit_code == 2
    assert result.output.endswith("expected at most 1,048,576; --max-mib, in Python max_bytes, allows more\n")
    assert files(folder) == []
    assert run("KTH-SP2", "--base-url", site.url, "--max-mib", 2).exit_code == 0


def test_the_list(site, folder):
    fetch(site)
    rows = [line.split("│") for line in run("--list").output.splitlines() if "│" in line]
    assert [row[1].strip() for row in rows] == list(archive_logs())
    assert [row[1].strip() for row in rows if row[4].strip() == "yes"] == ["KTH-SP2"]


def test_experiments_find_what_was_fetched(site, monkeypatch):
    monkeypatch.delenv("HDRL_TRACES", raising=False)
    experiment = read_experiment("kth-easy")
    assert missing_traces(experiment, trace_folders()) == [FILE]
    fetch(site)
    assert missing_traces(experiment, trace_folders()) == []


def test_the_folder_of_the_user(tmp_path, monkeypatch):
    monkeypatch.delenv("HDRL_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert fetch_folder() == tmp_path / "hdrl" / "workloads"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert fetch_folder() == tmp_path / ".cache" / "hdrl" / "workloads"


@pytest.mark.parametrize("log", archive_logs().values(), ids=lambda log: log.name)
def test_the_registry(log):
    folder, _, file = log.path.partition("/")
    assert folder.startswith("l_")
    assert file == log.file
    assert file.endswith(f"-{log.version}.swf.gz")
    assert log.page == f"https://www.cs.huji.ac.il/labs/parallel/workload/{folder}/index.html"
    assert log.sha256 is None or (len(log.sha256) == 64 and log.size_bytes)


LOGS = Path(__file__).parents[4].parent / "shared" / "traces" / "swf"


@pytest.mark.parametrize("name", ["CTC-SP2", "SDSC-BLUE"])
def test_what_is_pinned_is_the_log(name):
    log = archive_logs()[name]
    if not (LOGS / log.file).exists():
        pytest.skip(f"needs {log.file} in ../shared/traces/swf")
    content = (LOGS / log.file).read_bytes()
    assert (log.size_bytes, log.sha256) == (len(content), hashlib.sha256(content).hexdigest())
