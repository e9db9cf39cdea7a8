"""Groups of commands: help, names of commands that do not exist, what `hdrl platform show` prints."""

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from hdrl.launcher.main import cli


def groups(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield (*words, name)
            yield from groups(command, (*words, name))


@pytest.mark.parametrize("words", list(groups(cli)), ids=" ".join)
def test_every_group_lists_whole_sentences_and_suggests_the_nearest_name(words: tuple[str, ...]):
    result = CliRunner().invoke(cli, [*words, "--help"])
    commands = result.output.partition("Commands:")[2]
    assert commands.rstrip().endswith(".")
    assert "..." not in commands.replace("kubectl get ...", "")
    name = commands.split()[0]
    wrong = CliRunner().invoke(cli, [*words, f"{name}x"])
    assert wrong.exit_code == 2
    assert wrong.stderr.startswith(f"cli: error: no command '{name}x'; ")
    assert f"'{name}'" in wrong.stderr or "known: " in wrong.stderr


def test_a_platform_of_equal_cores_has_unlimited_memory():
    shown = CliRunner().invoke(cli, ["platform", "show", "homogeneous:4"]).output
    assert shown.count("unlimited") == 4  # memory and bandwidth of the machine, and of all
    assert "unlimited" not in CliRunner().invoke(cli, ["platform", "show", "gaia"]).output
