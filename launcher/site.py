"""``hdrl site``: a cluster's accounting data becomes a machine and a workload."""

from __future__ import annotations

import json
from pathlib import Path

import click

from hdrl.base.errors import OptionsError
from hdrl.base.files import check_new
from hdrl.launcher.completion import files_or
from hdrl.launcher.groups import CommandGroup
from hdrl.launcher.numbers import FloatRange, IntRange


@click.group(cls=CommandGroup)
def site() -> None:
    """Import the accounting data of a cluster, and show imports."""


@site.command("import")
@click.argument("dumps", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DUMP...")
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, metavar="FOLDER", help="Folder to create.")
@click.option(
    "--conf",
    "confs",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="slurm.conf, or a descriptor of the site (.json); repeatable.",
)
@click.option("--qos", type=click.Path(path_type=Path), metavar="FILE", help="Output of 'sacctmgr show qos -P'.")
@click.option("--accounts", type=click.Path(path_type=Path), metavar="FILE", help="Output of 'sacctmgr show assoc -P'.")
@click.option(
    "--downtimes",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Downtimes of nodes: output of 'scontrol show res', or a CSV file (start, end, nodes, kind).",
)
@click.option("--format", "form", default="auto", show_default=True, metavar="NAME", help="Format of the dumps.")
@click.option(
    "--mapping", type=click.Path(path_type=Path), metavar="FILE", help="Meaning of the columns of a CSV file."
)
@click.option("--nodes-field", type=IntRange(1), metavar="N", help="Field of an SWF log with the nodes of a job.")
@click.option("--cluster", metavar="NAME", help="Cluster to import, if the dumps cover several.")
@click.option("--zone", metavar="NAME", help="Time zone of dates without one, such as Europe/Madrid; UTC by default.")
@click.option(
    "--anonymize", "key", type=click.Path(path_type=Path), metavar="KEY_FILE", help="Hash names with the key in a file."
)
@click.option(
    "--replay",
    "n_replayed",
    default="20000",
    show_default=True,
    metavar="N",
    help="Number of last jobs to replay, all, or none.",
)
@click.option(
    "--replay-dependencies",
    "by_dependencies",
    is_flag=True,
    help="Let jobs wait for other jobs and dates, instead of submitting them when they could start.",
)
@click.option(
    "--similar",
    default="",
    metavar="COLUMNS",
    help="Columns that similar jobs share: name, account, work_dir, submit_line. By default the name as it is.",
)
@click.option("--force", is_flag=True, help="Replace the folder of an earlier import.")
@click.option("-q", "--quiet", is_flag=True, help="Only print the folder.")
def import_command(
    dumps: tuple[Path, ...],
    out: Path,
    confs: tuple[Path, ...],
    qos: Path | None,
    accounts: Path | None,
    downtimes: Path | None,
    form: str,
    mapping: Path | None,
    nodes_field: int | None,
    cluster: str | None,
    zone: str | None,
    key: Path | None,
    n_replayed: str,
    *,
    by_dependencies: bool,
    similar: str,
    force: bool,
    quiet: bool,
) -> None:
    """Make a machine, a workload and a report from accounting data: sacct -P, PBS, LSF, Kubernetes, SWF or CSV."""
    from hdrl.site import ImportChoices, import_site, report_of

    choices = ImportChoices(
        confs,
        qos,
        form,
        mapping,
        nodes_field,
        cluster,
        zone,
        key,
        _n_jobs(n_replayed),
        accounts,
        downtimes,
        by_dependencies,
        tuple(filter(None, map(str.strip, similar.split(",")))),
    )

    def show(text: str) -> None:
        if not quiet:
            click.echo(text, err=True)

    found = import_site(dumps, out, choices, force=force, progress=show)
    for text in found.cautions:
        click.echo(f"warning: {text}", err=True)
    if quiet:
        click.echo(str(out))
        return
    report = report_of(found)
    rows, jobs = report["rows"], report["jobs"]
    click.echo(f"{rows['read']:,} rows, {jobs['ids']:,} job ids, {jobs['kept']:,} jobs kept")
    _counts("rows skipped", rows["skipped"])
    _counts("joined", {name: n for name, n in jobs["joined"].items() if n})
    _counts("left out", jobs["left_out"])
    click.echo(report["verdict"])
    click.echo(report["certainty"])
    click.echo(f"site in {out}; read {out / 'import.html'} before you believe any number")


def _counts(what: str, counts: dict[str, int]) -> None:
    if counts:
        click.echo(f"{what}: {', '.join(f'{n:,} {name}' for name, n in counts.items())}")


def _n_jobs(text: str) -> int | None:
    if text == "all":
        return None
    if text == "none":
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > 12 or int(text) == 0:
        raise OptionsError(f"--replay is {text[:40]!r}, expected a number of jobs, 'all' or 'none'")
    return int(text)


@site.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--jobs", "-n", "n_jobs", type=IntRange(2), default=100_000, show_default=True, help="Number of jobs.")
@click.option("--seed", type=IntRange(0), default=0, show_default=True, help="Seed of the draws.")
def example(folder: Path, n_jobs: int, seed: int) -> None:
    """Generate an example site to import: FOLDER gets sacct.txt, slurm.conf and queue.txt."""
    from hdrl.site.example import write_example

    write_example(folder, n_jobs, seed)
    click.echo(f"{folder}: sacct.txt, slurm.conf and queue.txt of {n_jobs:,} jobs")


@site.command()
@click.argument("folder", type=click.Path(path_type=Path), shell_complete=files_or())
@click.option(
    "--mtbf", type=FloatRange(0.01, 1e9), required=True, metavar="HOURS", help="Mean time between failures of a node."
)
@click.option(
    "--repair", type=FloatRange(0.01, 1e6), default=12.0, show_default=True, metavar="HOURS", help="Time of a repair."
)
@click.option("--seed", type=IntRange(0), default=0, show_default=True, help="Seed of the draws.")
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), metavar="FILE", help="Table to write.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
def failures(folder: Path, mtbf: float, repair: float, seed: int, out: Path, *, force: bool) -> None:
    """Draw failures of the nodes of the site in FOLDER, as a table for 'hdrl site import --downtimes'."""
    from hdrl.site.failures import FailureChoices, write_failures

    check_new(out, force=force)
    n_failures, n_nodes = write_failures(folder, FailureChoices(mtbf, repair, seed), out)
    click.echo(f"{n_failures:,} failures of {n_nodes:,} nodes in {out}; import again with --downtimes {out}")


@site.command()
@click.argument("folder", type=click.Path(path_type=Path), shell_complete=files_or())
@click.option("--jobs", "-n", "n_jobs", type=IntRange(2), default=100, show_default=True, help="Number of jobs.")
@click.option("--first", type=IntRange(0), metavar="N", help="Jobs of the log before them; default: the last.")
@click.option("--speed", type=FloatRange(1, 1000), default=40.0, show_default=True, help="Speed of its clock.")
@click.option("--max-minutes", type=FloatRange(0.1), default=240.0, show_default=True, help="Time limit.")
def replay(folder: Path, n_jobs: int, first: int | None, speed: float, max_minutes: float) -> None:
    """Run jobs of the site in FOLDER in a real Slurm with its rules, and compare with the recorded history."""
    from hdrl.settings.batch.simulators import SlurmSettings, floor_of
    from hdrl.site.in_slurm import replay_in_slurm, replay_text

    settings = SlurmSettings(speed=speed, max_minutes=max_minutes)
    found = replay_in_slurm(
        folder, first=first, n_jobs=n_jobs, settings=settings, message=lambda text: click.echo(text, err=True)
    )
    click.echo(replay_text(found))
    click.echo(floor_of("slurm"))


@site.command()
@click.argument("folder", type=click.Path(path_type=Path), shell_complete=files_or())
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def show(folder: Path, *, as_json: bool) -> None:
    """Print the report of the import in FOLDER again."""
    from hdrl.site import read_report, text_of
    from hdrl.site.folder import REPORT, conf_of

    conf_of(folder)  # refuses other folders
    report = read_report(folder / REPORT)
    click.echo(json.dumps(report, indent=2) if as_json else text_of(report).rstrip("\n"))
