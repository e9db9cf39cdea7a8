"""Switchback plans and their analysis: by hand, on a made-up site, and in a thousand months without a difference."""

import itertools
import json
import math
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from hdrl.base.errors import OptionsError
from hdrl.launcher.main import cli
from hdrl.metrics.statistics import anytime_interval, anytime_p, fewest_pairs, power_after
from hdrl.metrics.statistics.sequential import evidence
from hdrl.site.ab import AbPlan, PlanChoices, analyze_ab, plan_ab, read_plan
from hdrl.site.ab.analysis import differences_of, settled_pairs
from hdrl.site.ab.blocks import measure_blocks, read_dumps
from hdrl.site.example import write_example

DAY_S = 86400
MONDAY = date(2025, 1, 13)
BEGIN_S = datetime(2025, 1, 13, tzinfo=UTC).timestamp()


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(one) for one in words], prog_name="hdrl")


def planned(**choices: object) -> AbPlan:
    return plan_ab(PlanChoices(**{"policies": ("old", "new"), "start": MONDAY, "n_days": 4, "seed": 3} | choices))


# The statistics


def test_wealth_is_one_on_average_over_all_signs():
    # Exactly what makes it valid: whatever the sizes are, no bet on fair signs gains or loses.
    sizes = np.array([0.01, 3.0, 0.4, 0.4, 1.7, 9.0, 0.2, 0.05, 1.1])
    signs = np.array(list(itertools.product((-1, 1), repeat=len(sizes))))
    for wealth in evidence(signs * sizes):
        assert wealth.mean(axis=0) == pytest.approx(1, rel=1e-12)


def test_evidence_by_hand():
    # Large differences of one sign: each pair doubles it.
    assert evidence([1e3] * 6)[0].tolist() == [2, 4, 8, 16, 32, 64]
    assert anytime_p([-1e3] * 6) == pytest.approx([1, 0.5, 0.25, 0.125, 0.0625, 0.03125])
    assert fewest_pairs() == 6
    assert anytime_interval([-1.0] * 5) == (pytest.approx(-1), -math.inf, math.inf)
    assert all(math.isnan(one) for one in anytime_interval([]))


@pytest.mark.parametrize("n", [6, 9, 40])
def test_intervals_and_p_agree(n: int):
    rng = np.random.default_rng(n)
    for effect in (0.0, -0.2, 0.5):
        values = rng.normal(effect, 0.4, n)
        found = anytime_interval(values)
        assert found.low < found.value < found.high
        assert (not found.low <= 0 <= found.high) == (anytime_p(values)[-1] < 0.05)
        moved = anytime_interval(values + 3)
        assert np.array(moved) == pytest.approx(np.array(found) + 3, abs=1e-7)
        mirrored = anytime_interval(-values)
        assert (mirrored.low, mirrored.high) == pytest.approx((-found.high, -found.low), abs=1e-7)


# Logarithms of the mean bounded slowdown of each day: standard deviation, correlation of neighbours, and the degrees
# of freedom of Student's distribution with the kurtosis of their differences. Of two logs, and worse than both.
FITTED = {"KTH-SP2": (1.68, 0.32, 19), "CTC-SP2": (1.10, 0.50, 12), "heavier": (1.0, 0.7, 2.2)}


def simulated_months(rng: np.random.Generator, fitted: tuple[float, float, float], n_days: int, n: int) -> np.ndarray:
    """Return the difference of each pair of neighbouring days, in the order that a coin decides."""
    sd, lag, freedom = fitted
    steps = rng.standard_t(freedom, (n, n_days + 30))
    days = np.zeros((n, n_days + 30))
    for day in range(1, n_days + 30):
        days[:, day] = lag * days[:, day - 1] + steps[:, day]
    days = days[:, 30:]
    days *= sd / days.std()
    return (days[:, 0::2] - days[:, 1::2]) * rng.choice([-1, 1], (n, n_days // 2))


@pytest.mark.parametrize("log", FITTED)
def test_at_most_five_of_a_hundred_months_without_a_difference_raise_an_alarm(log: str):
    rng = np.random.default_rng(5)
    months = simulated_months(rng, FITTED[log], 30, 1000)
    assert power_after(months)[-1] <= 0.05
    # Looking every day at a test that is made for one look raises many: the months are no easy ones.
    n = np.arange(1, 16)
    mean = np.cumsum(months, axis=1) / n
    sd = np.sqrt(np.maximum(np.cumsum(months**2, axis=1) / n - mean**2, 1e-12) * n / np.maximum(n - 1, 1))
    naive = np.abs(mean) / (sd / np.sqrt(n)) > 1.96
    assert naive[:, 2:].any(axis=1).mean() > 0.15


def test_the_interval_holds_at_all_looks_and_effects_are_found():
    rng = np.random.default_rng(6)
    effect = math.log(0.8)
    experiments = simulated_months(rng, (0.35, 0.4, 8), 200, 300) + effect
    power = power_after(experiments)
    assert power[9] < 0.8 <= power[-1]
    # An interval holds the effect where the rest after it is no evidence (as above).
    assert power_after(experiments - effect)[-1] <= 0.05


# Plans


def test_each_pair_has_both_policies_in_an_order_that_a_coin_decides():
    plan = planned(n_days=200)
    assert plan == planned(n_days=200)
    assert plan != planned(n_days=200, seed=4)
    firsts = [plan.blocks[2 * pair].policy for pair in range(100)]
    assert 30 < firsts.count("new") < 70
    assert all({plan.blocks[2 * n].policy, plan.blocks[2 * n + 1].policy} == {"old", "new"} for n in range(100))
    weeks = planned(n_days=28, pairing="week")
    days = {pair: [n for n, one in enumerate(weeks.blocks) if one.pair == pair] for pair in range(1, 15)}
    assert all(second - first == 7 for first, second in days.values())


def test_blocks_begin_at_midnight_whatever_clocks_do():
    plan = planned(start=date(2025, 3, 29), zone="Europe/Madrid")
    assert [one.begin for one in plan.blocks] == [
        "2025-03-29T00:00:00+01:00",
        "2025-03-30T00:00:00+01:00",
        "2025-03-31T00:00:00+02:00",
        "2025-04-01T00:00:00+02:00",
    ]
    assert [end - begin for begin, end in (one.span_s for one in plan.blocks)] == [86400, 82800, 86400, 86400]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--days", "7"], "--days is 7, expected whole rounds of 2 days, for instance 8"),
        (["--days", "20", "--pairing", "week"], "expected whole rounds of 14 days, for instance 14"),
        (["--policies", "a,a"], "--policies has a, a; expected two different ones: A,B"),
        (["--policies", "a,b,c"], "expected two different ones"),
        (["--block", "36h"], "--block is '36h', expected whole days such as 1d"),
        (["--wash-out", "1d"], "--wash-out is 24 h, expected less than a block of 24 h"),
        (["--wash-out", "soon"], "--wash-out is 'soon', expected a duration such as 90min, 6h or 1d"),
        (["--metric", "mean_wait"], "did you mean 'mean_wait_s'?"),
        (["--zone", "Europe/Madird"], "did you mean 'Europe/Madrid'?"),
        (["--site", "nowhere"], "nowhere/site.json: no such file, expected the folder of a site"),
    ],
)
def test_mistakes_in_a_plan_are_one_line(words: list[str], said: str, tmp_path: Path):
    out = tmp_path / "plan.json"
    result = call("ab", "plan", "--policies", "a,b", "--start", "2025-01-13", "--days", "8", *words, "-o", out)
    assert result.exit_code == 2
    assert said in result.output
    assert result.output.count("\n") == 1
    assert not out.exists()


def test_a_damaged_plan_is_one_line(tmp_path: Path):
    path = tmp_path / "plan.json"
    data = planned().model_dump(mode="json")
    for change, said in (
        ({"blocks": data["blocks"][:3]}, "pair 2 has"),
        ({"policies": ["old", "other"]}, "expected old and other"),
        ({"metric": "speed"}, "metric is speed"),
        ({"blocks": data["blocks"][::-1]}, "begins before the one before it ends"),
    ):
        path.write_text(json.dumps(data | change))
        with pytest.raises(OptionsError, match=said):
            read_plan(path)


# Jobs and blocks

HEADER = "JobID|JobIDRaw|User|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|AllocCPUS|ReqCPUS|State\n"


def row(
    number: int, eligible_h: float, wait_h: float | None, run_h: float = 0.5, state: str = "", again: int = 0
) -> str:
    def text(hours: float) -> str:
        return datetime.fromtimestamp(BEGIN_S + 3600 * hours, UTC).strftime("%Y-%m-%dT%H:%M:%S")

    begun = "Unknown" if wait_h is None else text(eligible_h + wait_h)
    ended = "Unknown" if wait_h is None or state == "RUNNING" else text(eligible_h + wait_h + run_h)
    if state.startswith("CANCELLED"):
        begun, ended = "None", text(eligible_h + (wait_h or 0))
    kind = state or ("PENDING" if wait_h is None else "COMPLETED")
    submit = text(eligible_h + again)
    eligible = "Unknown" if state == "HELD" else text(eligible_h)
    kind = "PENDING" if state == "HELD" else kind
    return f"{number}|{number}|u|{submit}|{eligible}|{begun}|{ended}|{int(run_h * 3600)}|120|4|4|{kind}\n"


def test_numbers_by_hand(tmp_path: Path):
    plan = planned(n_days=2, wash_out_s=3600.0, metric="mean_wait_s")
    rows = [row(n, 2 + n, 1.0) for n in range(5)]  # the first day: 5 jobs that wait for 1 h
    rows += [row(10 + n, 26 + n, 2.0) for n in range(5)]  # the second: 2 h
    rows += [
        row(20, -5, 1.0),  # before the plan
        row(21, 0.5, 1.0),  # within the wash-out
        row(22, 24.5, 1.0),
        row(23, 3, 2.0, state="CANCELLED by 7"),
        row(24, 3, None, state="HELD"),
        row(25, 23, 2.0),  # starts on the next day, and counts for its own
        row(26, 23, 30.0),  # still waits when its day settles, 24 h after its end
        row(27, 75, 0.0, run_h=1),  # after the plan: how far the accounting reaches
    ]
    path = tmp_path / "sacct.txt"
    path.write_text(HEADER + "".join(rows))
    answer = analyze_ab(plan, [path])
    first, second = answer["blocks"]
    assert (first["jobs"], first["carried_over"], first["still_waiting"]) == (7, 2, 1)
    assert first["mean_wait_s"] == pytest.approx(3600 * (5 * 1 + 2 + 25) / 7)
    assert (second["jobs"], second["mean_wait_s"]) == (5, pytest.approx(7200))
    ratio = (7200 if second["policy"] == "new" else first["mean_wait_s"]) / (
        7200 if second["policy"] == "old" else first["mean_wait_s"]
    )
    assert answer["metrics"]["mean_wait_s"]["ratio"] == pytest.approx(ratio)
    left = {reason: sum(counts.values()) for reason, counts in answer["jobs"]["left_out"].items()}
    assert left == {
        "not eligible: held, or waits for another job": 1,
        "eligible outside of all blocks": 2,
        "eligible during a wash-out": 2,
        "cancelled before it started": 1,
    }
    assert answer["jobs"]["ids"] == 18 == sum(left.values()) + sum(answer["jobs"]["counted"].values())
    assert "fewer than 6 cannot show a difference" in answer["verdict"]


def test_what_happens_later_does_not_change_a_settled_block(tmp_path: Path):
    plan = planned(n_days=2, wash_out_s=0.0)
    early, late = tmp_path / "early.txt", tmp_path / "late.txt"
    common = [row(n, 1 + n, 0.5) for n in range(6)] + [row(10 + n, 25 + n, 0.5) for n in range(6)]
    marker = row(90, 73, 0.0)
    early.write_text(HEADER + "".join([*common, row(50, 20, None), row(51, 30, 1, state="RUNNING", run_h=42), marker]))
    afterwards = [
        row(50, 20, 200.0),
        row(51, 30, 1, run_h=300),
        row(0, 1, 0.5, state="NODE_FAIL"),
        row(0, 1, 150.0, again=100),
        row(91, 400, 0.0),
    ]
    late.write_text(HEADER + "".join([*common[1:], marker, *afterwards]))
    one, other = (analyze_ab(plan, [path]) for path in (early, late))
    assert one["blocks"] == other["blocks"]
    assert one["metrics"] == other["metrics"]
    assert one["n_pairs"] == 1


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ab") / "cluster"
    write_example(folder, 6000, seed=1)
    return folder


def with_gain(cluster: Path, plan: AbPlan, factor: float, out: Path) -> Path:
    """Write the accounting of a cluster on which the new policy multiplies waits by a factor."""
    spans = [(*one.span_s, one.policy) for one in plan.blocks]
    header, *lines = (cluster / "sacct.txt").read_text().splitlines()
    columns = header.split("|")
    at = {name: columns.index(name) for name in ("Eligible", "Start", "End")}
    written = [header]
    for line in lines:
        words = line.split("|")
        dates = {name: words[position] for name, position in at.items()}
        if dates["Start"][:1] == "2":
            seconds = {name: datetime.fromisoformat(text + "+00:00").timestamp() for name, text in dates.items()}
            policy = next((name for low, high, name in spans if low <= seconds["Eligible"] < high), "old")
            earlier = (1 - factor) * (seconds["Start"] - seconds["Eligible"]) if policy == "new" else 0
            for name in ("Start", "End"):
                moved = datetime.fromtimestamp(round(seconds[name] - earlier), UTC)
                words[at[name]] = moved.strftime("%Y-%m-%dT%H:%M:%S")
        written.append("|".join(words))
    out.write_text("\n".join(written) + "\n")
    return out


def test_a_large_gain_is_found_and_none_is_not(cluster: Path, tmp_path: Path):
    plan = planned(n_days=60, metric="mean_wait_s", start=date(2025, 1, 7))
    path = tmp_path / "plan.json"
    path.write_text(plan.model_dump_json())
    gained = with_gain(cluster, plan, 0.02, tmp_path / "gained.txt")
    result = call("ab", "analyze", path, gained, "-o", tmp_path / "answer")
    assert result.exit_code == 0, result.output
    assert "a mean wait" in result.output
    assert result.stdout.endswith(f"one page: {tmp_path / 'answer' / 'ab.html'}\n")
    answer = json.loads((tmp_path / "answer" / "ab.json").read_text())
    assert answer["is_better"] is True
    assert ": better" in answer["verdict"]
    assert answer["first_shown"] is not None
    assert answer["looks"][-1]["high"] < 1
    page = (tmp_path / "answer" / "ab.html").read_text()
    assert "Is new better than old here?" in page
    same = json.loads(call("ab", "analyze", path, cluster / "sacct.txt", "--json").output)
    assert same["is_better"] is None
    assert "no difference shown" in same["verdict"]
    assert same["jobs"]["ids"] == sum(same["jobs"]["counted"].values()) + sum(
        sum(counts.values()) for counts in same["jobs"]["left_out"].values()
    )


def test_real_accounting_that_never_switched_seldom_raises_an_alarm(cluster: Path):
    dump = read_dumps([cluster / "sacct.txt"], "UTC", "auto", None)
    alarms = 0
    for seed in range(60):
        plan = planned(n_days=56, seed=seed, start=date(2025, 1, 7))
        differences, _ = differences_of(settled_pairs(plan, measure_blocks(plan, dump)), plan.metric)
        alarms += anytime_p(differences).min() < 0.05
    assert alarms <= 6  # 3 are expected at most; 7 or more have a chance of 3 %


def test_mistakes_in_an_analysis_are_one_line(cluster: Path, tmp_path: Path):
    path = tmp_path / "plan.json"
    path.write_text(planned().model_dump_json())
    for words, said in (
        ([path, tmp_path / "none.txt"], "none.txt"),
        ([path, path], "kubectl get"),
        ([cluster / "sacct.txt", cluster / "sacct.txt"], "sacct.txt"),
        ([path, cluster / "sacct.txt", "-o", tmp_path], "exists already"),
    ):
        result = call("ab", "analyze", *words)
        assert result.exit_code == 2, result.output
        assert said in result.output
        assert result.output.count("\n") == 1


def test_a_plan_tells_how_long_it_takes(cluster: Path, tmp_path: Path):
    assert (
        call("site", "import", cluster / "sacct.txt", "--replay", "none", "-o", tmp_path / "site", "-q").exit_code == 0
    )
    words = ("--policies", "old,new", "--start", "2025-06-02", "--days", 28, "--site", tmp_path / "site")
    result = call("ab", "plan", *words, "-o", tmp_path / "plan.json")
    assert result.exit_code == 0, result.output
    assert "mean_wait_s, pairs of neighbours" in result.output
    assert "% of experiments as long as this plan show it." in result.output
    assert read_plan(tmp_path / "plan.json").n_pairs == 14
    # Midnights are those of the site, and dates of its accounting are in its zone.
    report = tmp_path / "site" / "import.json"
    report.write_text(report.read_text().replace('"zone": "UTC"', '"zone": "Europe/Madrid"'))
    assert call("ab", "plan", *words, "-o", tmp_path / "madrid.json").exit_code == 0
    assert (read_plan(tmp_path / "plan.json").zone, read_plan(tmp_path / "madrid.json").zone) == (
        "UTC",
        "Europe/Madrid",
    )
    said = call("ab", "analyze", tmp_path / "madrid.json", cluster / "sacct.txt").output
    assert "Dates without a zone count as Europe/Madrid; --zone names another one." in said
    again = call("ab", "plan", *words, "-o", tmp_path / "plan.json")
    assert again.exit_code == 2
    assert "exists already" in again.output
