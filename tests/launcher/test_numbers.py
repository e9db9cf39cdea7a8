"""Numbers on command lines are written in decimal digits of ASCII."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from hdrl.launcher.batsim import main as batsim
from hdrl.launcher.launch import launch
from hdrl.launcher.main import cli
from hdrl.launcher.numbers import Float, FloatRange, Int, IntRange

NUMBERS = (click.types.IntParamType, click.types.FloatParamType)


def parameters(command: click.Command, path: str) -> Iterator[tuple[str, click.Parameter]]:
    for one in command.params:
        yield f"{path} {one.name}", one
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from parameters(found, f"{path} {name}")


def test_no_option_takes_underscores_or_digits_of_other_scripts() -> None:
    commands = {"hdrl": cli, "hdrl-launch": launch, "hdrl-batsim": batsim}
    found = [one for name, command in commands.items() for one in parameters(command, name)]
    numbers = [(where, one) for where, one in found if isinstance(one.type, NUMBERS)]
    assert len(numbers) > 50
    for where, one in numbers:
        for text in ("1_0", "\uff11\uff12"):
            with pytest.raises(click.BadParameter, match=r"expected a (whole )?number"):
                pytest.fail(f"{where} takes {text}: {one.type.convert(text, one, None)}")


@pytest.mark.parametrize(
    "options",
    [
        ["compare", "fcfs", "sjf", "-p", "homogeneous:4", "-w", "lublin", "--windows", "1_0:2"],
        ["compare", "fcfs", "sjf", "-p", "homogeneous:4", "-w", "lublin", "--windows", "10:2", "--range", "0:0.1_1"],
    ],
)
def test_texts_of_several_numbers_take_no_underscores(options: list[str]) -> None:
    result = CliRunner().invoke(cli, options, prog_name="hdrl")
    assert result.exit_code == 2
    assert f"{options[-2]} {options[-1]}: expected" in result.stderr


def test_options_take_numbers() -> None:
    assert [kind().convert("12", None, None) for kind in (Int, IntRange, Float, FloatRange)] == [12] * 4
