"""``hdrl what-if``: other machines and policies for an imported site."""

from __future__ import annotations

import json
from pathlib import Path

import click

from hdrl.base.errors import OptionsError, OutputError
from hdrl.launcher.completion import files_or
from hdrl.launcher.numbers import FloatRange, IntRange

_MOST = 10**7


@click.command("what-if")
@click.argument("site", type=click.Path(path_type=Path), shell_complete=files_or())
@click.option(
    "--nodes",
    default="-10%,+10%,+20%",
    show_default=True,
    metavar="CHANGE,...",
    help="Changes of the number of nodes: +10%, -4.",
)
@click.option(
    "--policies",
    default="fcfs+easy,sjf+easy",
    show_default=True,
    metavar="NAME,...",
    help="Policies: names, Python files or models.",
)
@click.option("--windows", default="1000:10", show_default=True, metavar="LENGTH:COUNT", help="Windows of the log.")
@click.option(
    "--warm-up",
    type=IntRange(0, _MOST),
    default=200,
    show_default=True,
    help="Jobs before each window that are not counted.",
)
@click.option(
    "--target-wait",
    type=FloatRange(1e-3, 1e6),
    default=1.0,
    show_default=True,
    help="Limit of the 95th percentile of waits, in hours.",
)
@click.option(
    "--node-hour-price", type=FloatRange(0, 1e9), default=1.0, show_default=True, help="Price of a node hour."
)
@click.option("--kwh-price", type=FloatRange(0, 1e9), default=0.0, show_default=True, help="Price of a kWh.")
@click.option("--ignore-rules", is_flag=True, help="Let any job start on any node, regardless of the site's rules.")
@click.option("--seed", type=IntRange(0), default=0, show_default=True, help="Seed.")
@click.option("-o", "--out", type=click.Path(path_type=Path), metavar="FOLDER", help="Folder for page, text and JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
@click.option("-j", "--jobs", "n_workers", type=IntRange(1), help="Processes; by default one per core.")
def what_if(
    site: Path,
    nodes: str,
    policies: str,
    windows: str,
    warm_up: int,
    target_wait: float,
    node_hour_price: float,
    kwh_price: float,
    seed: int,
    out: Path | None,
    n_workers: int | None,
    *,
    ignore_rules: bool,
    as_json: bool,
) -> None:
    """Simulate the imported SITE on machines of several sizes under several policies, and name the cheapest."""
    from hdrl.site.whatif import WhatIf
    from hdrl.site.whatif import what_if as ask
    from hdrl.site.whatifpage import PAGE, answer_text, write_answer

    if out is not None and out.exists():
        raise OutputError(f"{out}: exists already, expected the name of a new folder")
    length, count = _windows(windows)
    question = WhatIf(
        tuple(one for one in nodes.split(",") if one.strip()),
        tuple(dict.fromkeys(one.strip() for one in policies.split(",") if one.strip())),
        length,
        count,
        warm_up,
        target_wait * 3600,
        node_hour_price,
        kwh_price,
        seed,
        not ignore_rules,
    )
    if not question.policies:
        raise OptionsError("--policies names no policy, expected for instance slurm,es-generalist")
    answer = ask(site, question, n_workers=n_workers)
    problems = [] if out is None else write_answer(answer, out)
    click.echo(json.dumps(answer, indent=2) if as_json else answer_text(answer).rstrip("\n"))
    if out is not None and not as_json:
        click.echo(f"\nresults in {out}, one page: {out / PAGE}")
    for problem in problems:
        click.echo(problem, err=True)


def _windows(text: str) -> tuple[int, int]:
    words = text.split(":")
    if len(words) != 2 or not all(word.isascii() and word.isdigit() and 0 < len(word) < 8 for word in words):
        raise OptionsError(f"--windows is {text[:40]!r}, expected LENGTH:COUNT, for instance 1000:10")
    length, count = map(int, words)
    if not length or not count:
        raise OptionsError(f"--windows is {text!r}, expected at least one window of one job")
    return length, count
