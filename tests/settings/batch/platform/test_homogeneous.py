"""Machines of identical cores, by their size."""

import pytest

import hdrl
from hdrl.base.errors import PlatformError


def test_run_times_are_those_of_the_log(small_world):
    platform = hdrl.read_platform("homogeneous:4")
    workload = hdrl.read_workload(small_world.parent / "jobs.swf", platform)
    records = hdrl.simulate(platform, workload, "fcfs").records
    assert platform.n_cores == 4
    assert records["run_s"].round(6).tolist() == [10, 20, 30]
    assert records["start_s"].round(3).tolist() == [0, 5, 25]


def test_only_cores_are_scarce():
    platform = hdrl.read_platform("homogeneous:8")
    assert platform.memory_mib.min() > 1e9
    assert platform.bandwidth_gbps.min() > 1e6
    assert len(set(platform.speed_flops[:, 0].tolist())) == 1


@pytest.mark.parametrize("name", ["homogeneous:", "homogeneous:0", "homogeneous:1e3", "homogeneous:²"])
def test_a_wrong_number_is_told(name):
    with pytest.raises(PlatformError, match="number of cores"):
        hdrl.read_platform(name)


def test_options_may_name_one(small_world, tmp_path):
    from click.testing import CliRunner

    from hdrl.launcher.launch import launch

    result = CliRunner().invoke(
        launch,
        [str(small_world), "--set", "platform_file_path=homogeneous:4", "--out", str(tmp_path / "run"), "--quiet"],
    )
    assert result.exit_code == 0, result.output
    assert (tmp_path / "run" / "metrics.json").is_file()
