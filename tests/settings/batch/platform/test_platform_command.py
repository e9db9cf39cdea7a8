from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from hdrl.base.errors import HdrlError
from hdrl.launcher.platform import platform
from hdrl.settings.batch.platform import pstate_rules, read_platform, read_simgrid, shipped_platforms
from hdrl.settings.batch.platform.library import type_library


def run(*arguments: str) -> str:
    result = CliRunner().invoke(platform, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_show_gives_counts_and_totals() -> None:
    text = run("show", "gaia")
    lines = [[cell.strip() for cell in line.strip("│").split("│")] for line in text.splitlines() if "│" in line]
    assert lines[0][:5] == ["gaia_cluster", "Bullx B500-0", "60", "120 x Xeon L5640", "720"]
    assert lines[0][5:] == ["9.04", "2880", "3840", "5.400", "InfiniBand QDR"]
    # 21.218 kW: 26.711 Tflop/s is 2,280 cores of 11.715 Gflop/s
    assert lines[-1] == ["all", "", "153", "342", "2280", "11.715", "17024", "12387.2", "21.218", "26.711 Tflop/s"]
    assert len(lines) == 9 + 1


def test_show_of_a_file_of_others(tmp_path: Path) -> None:
    path = tmp_path / "two.xml"
    path.write_text(
        '<platform version="4.1"><zone id="z" routing="Full"><host id="master_host" speed="1Gf"/>'
        '<host id="a" speed="2Gf" core="3"/><host id="b" speed="2Gf" core="3"/>'
        '<link id="l" bandwidth="1GBps"/>'
        '<route src="a" dst="master_host"><link_ctn id="l"/></route>'
        '<route src="b" dst="master_host"><link_ctn id="l"/></route></zone></platform>'
    )
    (row,) = [line for line in run("show", str(path)).splitlines() if "│" in line]
    assert [cell.strip() for cell in row.strip("│").split("│")] == ["a", "2", "3", "2", "unknown"]


def test_export_writes_what_can_be_read(tmp_path: Path) -> None:
    out = tmp_path / "learning.xml"
    text = run("export", "learning", "--out", str(out), "--compatibility", "hdeeprm-0.3.1", "--contention", "none")
    assert "1 nodes, 4 cores" in text
    rules = pstate_rules("none", compatibility="hdeeprm-0.3.1")
    assert read_simgrid(out) == read_platform("learning", rules=rules)
    assert "hdeeprm-0.3.1" in run("show", str(out))


def test_list_names_everything() -> None:
    text = run("list")
    for name in shipped_platforms():
        assert name in text
    for name in type_library().processors:
        assert name in text


@pytest.mark.parametrize("arguments", [("show", "gaja"), ("show", "gaia", "--contention", "stepp")])
def test_errors_are_left_to_the_main_command(arguments: tuple[str, ...]) -> None:
    with pytest.raises(HdrlError, match="did you mean"):
        CliRunner().invoke(platform, arguments, catch_exceptions=False)


def test_nothing_is_written_after_an_error(tmp_path: Path) -> None:
    out = tmp_path / "x.xml"
    with pytest.raises(HdrlError):
        CliRunner().invoke(platform, ["export", "gaja", "--out", str(out)], catch_exceptions=False)
    assert not out.exists()
    with pytest.raises(HdrlError, match=r"x: expected a name that ends in \.xml"):
        CliRunner().invoke(platform, ["export", "gaia", "--out", str(tmp_path / "x")], catch_exceptions=False)
    assert not list(tmp_path.iterdir())
