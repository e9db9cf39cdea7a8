"""What the tab key offers."""

import pytest
from click.shell_completion import ShellComplete

from hdrl.launcher.launch import launch
from hdrl.launcher.main import cli


def offered(command: str, incomplete: str) -> list[tuple[str, str]]:
    program, *words = command.split()
    group = launch if program == "hdrl-launch" else cli
    found = ShellComplete(group, {}, program, "_COMPLETE").get_completions(words, incomplete)
    return [(item.value, item.type) for item in found]


@pytest.mark.parametrize(
    "command",
    [
        "hdrl workload stat",
        "hdrl workload convert",
        "hdrl plot gantt",
        "hdrl report",
        "hdrl metrics",
        "hdrl options check",
        "hdrl platform show",
        "hdrl jobstat",
        "hdrl compare",
        "hdrl predict evaluate",
        "hdrl run",
        "hdrl runs",
        "hdrl clean",
        "hdrl-launch classic",
        "hdrl compare fcfs -p",
        "hdrl compare fcfs -w",
        "hdrl compare --agent",
        "hdrl compare --setting",
        "hdrl bench run",
        "hdrl plot gantt run -s",
        "hdrl workload generate lublin --out",
        "hdrl workload stat x.swf -p",
        "hdrl-launch -im",
        "hdrl-launch -cw",
        "hdrl-launch -a",
    ],
)
def test_files(command: str):
    assert offered(command, "./du") == [("./du", "file")]


@pytest.mark.parametrize(
    ("command", "incomplete", "name"),
    [
        ("hdrl platform show", "ga", "gaia"),
        ("hdrl workload stat", "lub", "lublin_gaia_1000"),
        ("hdrl plot", "gan", "gantt"),
        ("hdrl compare", "fc", "fcfs+easy"),
        ("hdrl-launch", "pp", "ppo"),
        ("hdrl compare fcfs -p", "ga", "gaia"),
        ("hdrl compare fcfs -w", "lub", "lublin_gaia_1000"),
        ("hdrl bench run", "fc", "fcfs+easy"),
        ("hdrl compare --setting", "gp", "gpu"),
    ],
)
def test_names(command: str, incomplete: str, name: str):
    assert (name, "plain") in offered(command, incomplete)


def test_a_misspelled_command_offers_commands_without_a_traceback():
    assert ("report", "plain") in offered("hdrl comparee", "r")
