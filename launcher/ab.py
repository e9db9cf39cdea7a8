"""``hdrl ab``: two policies take turns on a running cluster, and its accounting data says which is better."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import click

from hdrl.base.errors import OutputError
from hdrl.base.files import check_new, write_json
from hdrl.launcher.completion import files_or
from hdrl.launcher.groups import CommandGroup
from hdrl.launcher.numbers import IntRange


@click.group(cls=CommandGroup)
def ab() -> None:
    """Plan when each of two policies schedules a running cluster, and analyse the results."""


@ab.command()
@click.option("--policies", required=True, metavar="A,B", help="The two policies; A is the current one.")
@click.option("--start", required=True, type=click.DateTime(["%Y-%m-%d"]), metavar="YYYY-MM-DD", help="The first day.")
@click.option("--days", "n_days", required=True, type=IntRange(1), help="Number of days.")
@click.option("--block", default="1d", show_default=True, metavar="Nd", help="Length of a block, in whole days.")
@click.option(
    "--wash-out",
    metavar="TIME",
    help="Time after the start of a block that is not measured: 6h, 90min; default: a quarter.",
)
@click.option(
    "--settle",
    default="1d",
    show_default=True,
    metavar="TIME",
    help="Time after the end of a block before it is analysed.",
)
@click.option(
    "--pairing",
    type=click.Choice(["next", "week"]),
    default="next",
    show_default=True,
    help="Pairs of neighbours, or of the same weekday in two weeks.",
)
@click.option(
    "--metric", default="mean_bounded_slowdown", show_default=True, metavar="NAME", help="Metric that decides."
)
@click.option("--zone", metavar="NAME", help="Time zone, such as Europe/Madrid; by default the site's, or UTC.")
@click.option(
    "--site",
    type=click.Path(path_type=Path),
    shell_complete=files_or(),
    metavar="FOLDER",
    help="Imported site whose log determines the number of days; by default a generated log.",
)
@click.option("--seed", type=IntRange(0), default=0, show_default=True, help="Seed of the random order.")
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), metavar="FILE", help="File for the plan.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
def plan(
    policies: str,
    start: datetime,
    n_days: int,
    block: str,
    wash_out: str | None,
    settle: str,
    pairing: str,
    metric: str,
    zone: str | None,
    site: Path | None,
    seed: int,
    out: Path,
    *,
    force: bool,
) -> None:
    """Write the schedule of the two policies, and print how many days can show a gain of 20 %."""
    from hdrl.site.ab import PlanChoices, history_of, outlook, plan_ab
    from hdrl.site.ab.page import plan_lines
    from hdrl.site.ab.plan import PAIRINGS, block_days_of, duration_of
    from hdrl.site.folder import zone_of

    check_new(out, force=force)
    choices = PlanChoices(
        tuple(one.strip() for one in policies.split(",") if one.strip()),
        start.date(),
        n_days,
        block_days_of(block),
        None if wash_out is None else duration_of(wash_out, "--wash-out"),
        duration_of(settle, "--settle"),
        next(one for one in PAIRINGS if one == pairing),
        metric,
        zone=zone or (None if site is None else zone_of(site)) or "UTC",
        seed=seed,
    )
    found = plan_ab(choices).model_dump(mode="json")
    expected = outlook(choices, history_of(site, seed)).as_json()
    write_json(out, found)
    for line in plan_lines(found, expected):
        click.echo(line)
    click.echo(f"plan in {out}")


@ab.command()
@click.argument("plan_file", metavar="PLAN", type=click.Path(path_type=Path), shell_complete=files_or())
@click.argument("dumps", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DUMP...")
@click.option("--format", "form", default="auto", show_default=True, metavar="NAME", help="Format of the dumps.")
@click.option("--zone", metavar="NAME", help="Time zone of dates without one; by default the plan's.")
@click.option("--cluster", metavar="NAME", help="Cluster, if the dumps cover several.")
@click.option("-o", "--out", type=click.Path(path_type=Path), metavar="FOLDER", help="Folder for page, text and JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def analyze(
    plan_file: Path,
    dumps: tuple[Path, ...],
    form: str,
    zone: str | None,
    cluster: str | None,
    out: Path | None,
    *,
    as_json: bool,
) -> None:
    """Analyse a PLAN from the accounting (sacct -P and others) of its cluster, as often as you like."""
    from hdrl.site.ab import AbChoices, analyze_ab, read_plan, write_analysis
    from hdrl.site.ab.page import PAGE, analysis_text

    if out is not None and out.exists():
        raise OutputError(f"{out}: exists already, expected the name of a new folder")
    answer = analyze_ab(read_plan(plan_file), dumps, AbChoices(form, zone, cluster))
    problems = [] if out is None else write_analysis(answer, out)
    click.echo(json.dumps(answer, indent=2) if as_json else analysis_text(answer).rstrip("\n"))
    if out is not None and not as_json:
        click.echo(f"\nresults in {out}, one page: {out / PAGE}")
    for problem in problems:
        click.echo(problem, err=True)
