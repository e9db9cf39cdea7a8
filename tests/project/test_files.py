"""Finding, reading and writing files."""

import csv
import gzip
import os
import tracemalloc
from pathlib import Path

import pytest

from hdrl.base.csvfiles import atomic_table, read_records, read_table
from hdrl.base.errors import OptionsError, OutputError, ReadError
from hdrl.base.files import atomic_write, atomic_write_bytes, find_file, read_json, read_text, write_json
from hdrl.settings.batch.workload.swf import read_swf


def test_a_file_in_the_current_folder_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    shipped = {"gaia": Path("elsewhere/gaia.json")}
    assert find_file("gaia", shipped, "platform") == shipped["gaia"]
    (tmp_path / "gaia").write_text("{}")
    assert find_file("gaia", shipped, "platform") == Path("gaia")
    assert find_file("folder/gaia.json", shipped, "platform") == Path("folder/gaia.json")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gaja", "no shipped platform of that name; did you mean 'gaia'"),
        ("x" * 5000, "cannot be read"),
        ("a\0b", "no such file"),
    ],
)
def test_names_of_nothing(name: str, text: str):
    with pytest.raises(ReadError, match=text):
        find_file(name, {"gaia": Path("gaia.json")}, "platform")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "is empty"),
        (b"{", "is not JSON"),
        (b'{"a": NaN}', "holds NaN"),
        (b'{"a": 1e999}', "holds 1e999"),
        (b'{"a": 1, "a": 2}', "key 'a' appears twice"),
        (b"\xff", "is not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b"9" * 5000, "not usable JSON"),
    ],
)
def test_json_that_is_refused(tmp_path: Path, content: bytes, text: str):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(ReadError, match=text) as error:
        read_json(path)
    assert "\n" not in str(error.value)


FORMULAS = ["=1+1", "@SUM(A1)", "+cmd|'/C calc'!A0", "-2+3", "\t=1", "\n=1", "'=1", "''+x", "-easy", "+easy"]
PLAIN = ["fcfs+easy", "a=b", "", "'tis", "-1.5", "+2", "-inf", "1e-3", "nan", "'"]


def test_no_cell_of_a_table_is_a_formula(tmp_path: Path):
    path = tmp_path / "a.csv"
    texts = [*FORMULAS, *PLAIN]
    with atomic_table(path, ["=name", "n"]) as write_row:
        for text in texts:
            write_row([text, -1.5])
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["'=name", "n"]
    assert [row[0] for row in rows] == [*(f"'{text}" for text in FORMULAS), *PLAIN]
    assert {row[1] for row in rows} == {"-1.5"}
    with atomic_table(tmp_path / "b.csv", ["name"]) as write_row:
        write_row(["a\r=1"])
    assert read_records(tmp_path / "b.csv") == [{"name": "a\n=1"}]
    assert [row["=name"] for row in read_records(path)] == texts
    assert [row[0] for row in read_table(path, ["=name", "n"])] == texts


def test_damaged_compression(tmp_path: Path):
    path = tmp_path / "a.json.gz"
    write_json(path, {"a": [1] * 1000})
    assert read_json(path) == {"a": [1] * 1000}
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ReadError, match="cannot be decompressed"):
        read_text(path)


@pytest.mark.parametrize("read", [read_text, read_json, read_swf])
def test_what_grows_beyond_its_bound_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read):
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb") as out:
        for _ in range(64):
            out.write(b" " * 2**20)
    monkeypatch.setenv("HDRL_MAX_UNPACKED_MIB", "3")
    tracemalloc.start()
    try:
        with pytest.raises(ReadError, match=r"bomb\.gz: holds more than 3 MiB when decompressed; set HDRL_MAX"):
            read(path)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 2**25
    monkeypatch.setenv("HDRL_MAX_UNPACKED_MIB", "64")
    if read is read_text:
        assert len(read_text(path)) == 2**26


def test_what_gzip_has_packed_needs_no_name_that_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "packed.json"
    path.write_bytes(gzip.compress(b'{"a": 1}' + b" " * 2**21))
    assert read_json(path) == {"a": 1}
    monkeypatch.setenv("HDRL_MAX_UNPACKED_MIB", "1")
    with pytest.raises(ReadError, match="holds more than 1 MiB when decompressed"):
        read_json(path)
    path.write_bytes(gzip.compress(b'{"a": 1}' * 100)[:-20])
    with pytest.raises(ReadError, match="cannot be decompressed"):
        read_text(path)


@pytest.mark.parametrize("text", [r'{"a": ["\ud800"]}', r'{"x\uDFFF": 1}', r'"\udc00\ud800"'])
def test_half_of_a_surrogate_pair_is_no_text(tmp_path: Path, text: str):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(ReadError, match=r"(a\[0\]|a key|it) holds .*, expected valid Unicode") as caught:
        read_json(path)
    assert str(caught.value).isascii()
    path.write_text(r'["\ud83d\ude00", "\udcff", "d800"]')
    assert read_json(path) == ["\U0001f600", "\udcff", "d800"], "a whole one, and a byte of the name of a file"


@pytest.mark.parametrize("value", ["0", "-1", "many", "9" * 5000])
def test_the_bound_is_a_number_of_mib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"{}"))
    monkeypatch.setenv("HDRL_MAX_UNPACKED_MIB", value)
    with pytest.raises(OptionsError, match=r"HDRL_MAX_UNPACKED_MIB is .*, expected a whole number of MiB") as caught:
        read_json(tmp_path / "a.gz")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("read", [read_text, read_json, read_swf])
def test_what_does_not_fit_into_the_memory_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read):
    def full(*_: object) -> None:
        raise MemoryError

    path = tmp_path / "large.gz"
    path.write_bytes(gzip.compress(b"1"))
    monkeypatch.setattr(gzip.GzipFile, "readinto", full)
    with pytest.raises(ReadError, match=r"large\.gz: does not fit into the memory"):
        read(path)


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_text("before")

    def write_half() -> None:
        with atomic_write(path) as out:
            out.write("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(OutputError, match="cannot be written"), atomic_write(tmp_path / "no" / "a.txt"):
        pass


def test_compressed_files_repeat(tmp_path: Path):
    for name in ("a.json.gz", "b.json.gz"):
        write_json(tmp_path / name, {"x": 1})
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def test_a_binary_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    with atomic_write_bytes(path) as out:
        out.write(b"\x00\xff")
    assert path.read_bytes() == b"\x00\xff"

    def write_half() -> None:
        with atomic_write_bytes(path) as out:
            out.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert path.read_bytes() == b"\x00\xff"
    assert [file.name for file in tmp_path.iterdir()] == ["a.bin"]


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ("1," + "x" * 200_000, "t.csv:2: is not CSV: field larger than field limit"),
        ("1,2\r3", "t.csv: is not a table of a, b"),
        ("1,2,3", "t.csv: is not a table of a, b"),
    ],
)
def test_a_row_that_is_none_is_told_with_the_file(tmp_path: Path, row: str, text: str):
    path = tmp_path / "t.csv"
    path.write_bytes(f"a,b\n{row}\n".encode())
    with pytest.raises(ReadError, match=text):
        read_table(path, ["a", "b"])


def test_a_short_row_lacks_a_value(tmp_path: Path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1\n\n2,3,4\n")
    assert read_records(path) == [{"a": "1", "b": None}, {"a": "2", "b": "3"}]


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no such device")
def test_a_device_without_an_end_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HDRL_MAX_UNPACKED_MIB", "1")
    with pytest.raises(ReadError, match="/dev/zero: holds more than 1 MiB; set HDRL_MAX_UNPACKED_MIB"):
        read_text("/dev/zero")


def test_the_name_of_a_file_that_is_no_text_can_be_written(tmp_path: Path):
    name = os.fsdecode(b"caf\xe9")
    with atomic_write(tmp_path / name) as file:
        file.write(f"# {name}")
    assert (tmp_path / name).read_bytes() == rb"# caf\udce9"
