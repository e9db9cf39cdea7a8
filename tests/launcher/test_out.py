"""Every command that writes to ``--out`` takes ``-o``, too."""

from collections.abc import Iterator

import click

from hdrl.launcher.launch import launch
from hdrl.launcher.main import cli


def commands(group: click.Group, context: click.Context, path: str) -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, context, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def test_out_has_one_short_name() -> None:
    n_with = 0
    for name, command in [("hdrl-launch", launch), *commands(cli, click.Context(cli), "hdrl")]:
        of_out = [set(one.opts) for one in command.params if "--out" in one.opts]
        if name == "hdrl pybatsim":
            continue  # there -o is PyBatsim's own, options of the scheduler
        n_with += len(of_out)
        assert all("-o" in names for names in of_out), name
    assert n_with > 20
