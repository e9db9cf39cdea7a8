"""Dates, durations, resources and lists of nodes as accounting writes them."""

import math
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from hdrl.base.errors import OptionsError
from hdrl.settings.batch.site_rules.hostlist import n_of_ranges, node_names
from hdrl.settings.batch.site_rules.values import duration_s, gres_gpus, memory_of, minutes_s, resource
from hdrl.site.values import Clock, find_zone


def test_local_dates_follow_the_clock_of_the_zone():
    clock = Clock(ZoneInfo("Europe/Madrid"))
    winter, summer, absent = clock.seconds(["2025-01-01T12:00:00", "2025-07-01T12:00:00", "Unknown"])[0].tolist()
    assert winter == np.datetime64("2025-01-01T11:00:00").astype(np.int64)
    assert summer == np.datetime64("2025-07-01T10:00:00").astype(np.int64)
    assert math.isnan(absent)
    assert (clock.n_local, clock.n_ambiguous) == (2, 0)


def test_the_repeated_hour_is_counted_and_is_the_first_one():
    clock = Clock(ZoneInfo("Europe/Madrid"))
    found, _ = clock.seconds(["2025-10-26T02:30:00", "2025-10-26T04:30:00"])
    assert clock.n_ambiguous == 1
    assert found[1] - found[0] == 3 * 3600  # two hours on the wall, three that passed


@pytest.mark.parametrize(
    "text", ["2025-07-01T12:00:00+0200", "2025-07-01T10:00:00Z", "1751364000", "2025-07-01T12:00:00+02:00"]
)
def test_dates_with_a_zone_need_none(text: str):
    clock = Clock(ZoneInfo("Asia/Tokyo"))
    assert clock.second(text) == 1751364000
    assert clock.n_local == 0


@pytest.mark.parametrize("text", ["now", "today", "x", "2025-13-01T00:00:00", "9" * 400, "99999999999999", "-5"])
def test_what_is_no_date_is_counted_as_such(text: str):
    found, is_bad = Clock(None).seconds(["2025-01-01T00:00:00", text])
    assert np.isnan(found).tolist() == [False, True]
    assert is_bad.tolist() == [False, True]


def test_zones_that_are_none():
    with pytest.raises(OptionsError, match="no time zone 'Europe/Madird'; did you mean 'Europe/Madrid'"):
        find_zone("Europe/Madird")


def test_durations():
    texts = ["1-02:03:04", "02:03:04", "03:04", "7", "2-00", "1-12:30", "UNLIMITED"]
    assert [duration_s(text) for text in texts] == [93784, 7384, 184, 7, 172800, 131400, math.inf]
    assert [minutes_s(text) for text in ("90", "01:30:00")] == [5400, 5400]
    assert math.isnan(minutes_s("Partition_Limit"))
    with pytest.raises(ValueError, match="no duration"):
        duration_s("soon")


def test_resources():
    tres = "billing=8,cpu=8,gres/gpu=2,gres/gpu:a100=2,mem=4G,node=1"
    assert [resource(tres, name) for name in ("cpu", "gres/gpu", "mem", "node")] == [8, 2, 4 * 2**20, 1]
    assert resource("cpu=1,gres/gpu:a100=2,gres/gpu:v100=1", "gres/gpu") == 3
    assert math.isnan(resource("", "cpu"))
    assert [memory_of(text) for text in ("1000M", "4Gc", "2Gn")] == [(1024000, ""), (4 * 2**20, "c"), (2 * 2**20, "n")]
    assert gres_gpus("gpu:a100:4(S:0-1),lustre:1") == 4
    assert gres_gpus("gpu:2,gpu:v100:1") == 3


def test_lists_of_nodes():
    assert node_names("n[1-2,08-10],gpu3") == ["n1", "n2", "n08", "n09", "n10", "gpu3"]
    assert node_names("r[1-2]n[1-2]x") == ["r1n1x", "r1n2x", "r2n1x", "r2n2x"]
    assert n_of_ranges("1-4,7,10-20:2") == 11
    for text in ("n[1-", "n[2-1]", "n[a-b]", "n[1]]"):
        with pytest.raises(ValueError, match=r"(expected|closed)"):
            node_names(text)


@pytest.mark.parametrize("name", ["Europe/Madrid", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kathmandu"])
def test_every_quarter_of_an_hour_has_the_offset_of_its_zone(name: str):
    zone, clock = ZoneInfo(name), Clock(ZoneInfo(name))
    begin = np.datetime64("2018-01-01T00:07:00")
    texts = [str(begin + np.timedelta64(15 * i, "m")) for i in range(0, 40_000, 3)]
    found = clock.seconds(texts)[0]
    expected = [datetime.fromisoformat(text).replace(tzinfo=zone) for text in texts]
    assert found.tolist() == [one.timestamp() for one in expected]
    doubles = [one for one in expected if one.utcoffset() > one.replace(fold=1).utcoffset()]
    gaps = [one for one in expected if one.utcoffset() < one.replace(fold=1).utcoffset()]
    assert clock.n_ambiguous == len(doubles) + len(gaps)
