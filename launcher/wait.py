"""``hdrl wait``: when each job that waits on an imported site will start."""

from __future__ import annotations

import json
from pathlib import Path

import click

from hdrl.launcher.completion import files_or


@click.command()
@click.argument("site", type=click.Path(path_type=Path), shell_complete=files_or())
@click.option("--now", type=click.Path(path_type=Path), required=True, metavar="DUMP", help="Running and waiting jobs.")
@click.option("--policy", default="fcfs+easy", show_default=True, metavar="NAME", help="Model of the site's policy.")
@click.option("--predictor", default="geo", show_default=True, metavar="NAME", help="Predictor of run times.")
@click.option("--format", "form", default="auto", show_default=True, metavar="NAME", help="Format of the dump.")
@click.option("--zone", metavar="NAME", help="Time zone of dates without one; by default the import's.")
@click.option("--ignore-rules", is_flag=True, help="Let any job start on any node, regardless of the site's rules.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def wait(
    site: Path,
    now: Path,
    policy: str,
    predictor: str,
    form: str,
    zone: str | None,
    *,
    ignore_rules: bool,
    as_json: bool,
) -> None:
    """Predict when each waiting job of a dump will start on the imported SITE, with intervals of 90 %."""
    from hdrl.site.waits import WaitChoices, predict_waits, waits_text

    choices = WaitChoices(policy, predictor, form, zone, not ignore_rules)
    answer = predict_waits(site, now, choices, progress=lambda text: click.echo(text, err=True))
    click.echo(json.dumps(answer, indent=2) if as_json else waits_text(answer).rstrip("\n"))
