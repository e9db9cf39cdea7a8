"""hdrl's own parsers accept every command of every page: subcommands, options, and names of policies, metrics, tasks.

Nothing is simulated here. What commands print is tested beside what they do (`tests/project/test_readme.py`, ...).
"""

import contextlib
import itertools
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import pytest

from hdrl.base.errors import HdrlError, ReadError
from hdrl.bench.tasks import chosen_tasks
from hdrl.experiment.compare.candidates import read_candidates
from hdrl.experiment.reproduce.recipe import read_experiment
from hdrl.experiment.run.inputs import parse_options
from hdrl.launcher.batsim import main as batsim
from hdrl.launcher.changes import agent_changes, changes_of, workload_changes
from hdrl.launcher.compare import is_sweep, sweep_of
from hdrl.launcher.launch import launch, split_arguments
from hdrl.launcher.main import COMMANDS, cli
from hdrl.options.sweep import Sweep
from hdrl.report.drawing import all_figures
from hdrl.setting import find_setting

ROOT = Path(__file__).parents[2]
FILES = (
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "DESCRIPTION.md", "docker/README.md"),
    "benchmarks/README.md",
)
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (
        *(ROOT / name for name in FILES),
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "experiments").glob("*/README.md")),
        *sorted(path for path in (ROOT / "examples").iterdir() if path.suffix in (".py", ".cpp", ".yml")),
    )
}
PROGRAMS: Mapping[str, click.Command] = {"hdrl": cli, "hdrl-launch": launch, "hdrl-batsim": batsim}
FENCED = re.compile(r"^ *```([\w ]*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`]+)`")
COMMENTED = re.compile(r"^\s*(?://|#|run:)?\s*(hdrl(?:-launch)? .*)$", re.MULTILINE)
SHELL = ("sh", "console", "")
PLACEHOLDER = re.compile(r"^[A-Z]+\d?$|[A-Z]{3,}|\.\.\.|<")
"""Words of a page that stand for something else: `A`, `FILE`, `...`, `<processors>`."""
VARIABLES = {"$PWD": ".", "$seed": "1", "{task}": "1", "{each}": "fcfs"}

BATCH = {"platform_file_path": "gaia", "workload_file_path": "lublin_gaia_1000"}
"""Options of the files that a page names and does not show."""


def shell_commands(line: str) -> Iterator[list[str]]:
    """Yield the words of each command of a line of shell, without assignments and loops around it."""
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    for is_operator, command in itertools.groupby(words, lambda word: set(word) <= set("();<>|&")):
        found = list(command)
        while found and (found[0] in ("do", "then", "export", "run:", "//") or re.match(r"\w+=", found[0])):
            found = found[1:]
        if not is_operator and found:
            yield found


def typed(text: str, name: str) -> Iterator[list[str]]:
    """Yield the commands that a page shows as a whole: lines of its blocks."""
    if not name.endswith(".md"):
        blocks = [("sh", "\n".join(re.findall(COMMENTED, text.replace("\\\n", " "))))]
    else:
        blocks = FENCED.findall(text)
    for kind, block in blocks:
        lines = block.replace("\\\n", " ").splitlines()
        for line, following in itertools.pairwise([*lines, ""]):
            if kind == "console" and not line.startswith("$ "):
                continue
            if re.match(r"hdrl[\w-]*: error: ", following):  # the page shows a mistake
                continue
            for variable, value in VARIABLES.items():
                line = line.replace(variable, value)
            if kind in SHELL and "hdrl" in line:
                yield from shell_commands(line.removeprefix("$ "))


def mentioned(text: str, name: str) -> Iterator[list[str]]:
    """Yield the commands that a sentence mentions; parts of them may stand for something else."""
    if not name.endswith(".md"):
        return
    for span in INLINE.findall(FENCED.sub("", text)):
        if re.match(r"(hdrl|hdrl-launch|hdrl-batsim) ", span):
            choices = [
                word.split("|") if re.fullmatch(r"[\w-]+(\|[\w-]+)+", word) else [word] for word in shlex.split(span)
            ]
            yield from map(list, itertools.product(*choices))


def command_of(words: list[str]) -> tuple[click.Context, list[str]] | None:
    """Return the command of hdrl that words call, and what follows it; ``None`` if they call another program."""
    if words[0] not in PROGRAMS:
        return None
    program, rest = PROGRAMS[words[0]], words[1:]
    # click keeps the names of the option for help that a command had first: other tests need the program's own.
    context = click.Context(program, info_name=words[0], **program.context_settings)
    while isinstance(context.command, click.Group) and rest and not rest[0].startswith("-"):
        found = context.command.get_command(context, rest[0])
        if found is None:
            context.fail(f"no command {rest[0]!r}")
        context, rest = (
            click.Context(found, parent=context, info_name=rest[0], **found.context_settings),
            rest[1:],
        )
    return context, rest


def check_values(context: click.Context, given: Mapping[str, Any]) -> None:
    """Check the values of options and arguments that have a type of their own, where they stand for themselves."""
    for parameter in context.command.params:
        value = given.get(parameter.name or "")
        values = value if isinstance(value, list | tuple) else [value]
        if value is not None and not any(PLACEHOLDER.search(one) for one in values if isinstance(one, str)):
            parameter.type_cast_value(context, value)


def check(words: list[str], page: str, folder: Path, *, is_whole: bool) -> None:
    found = command_of(words)
    if found is None:
        return
    context, rest = found
    if is_whole and not isinstance(context.command, click.Group):
        # A wrong or missing argument is an error here, too.
        made = context.command.make_context(context.info_name, list(rest), parent=context.parent)
        given = made.params
    else:
        try:
            given, left, _ = context.command.make_parser(context).parse_args(args=list(rest))
        except click.BadOptionUsage as error:
            if not isinstance(error, click.NoSuchOption) and error.message.endswith("requires an argument."):
                return  # a sentence about the option
            raise
        assert isinstance(context.command, click.Group) or not left, f"{words}: {left}"
        given = {name: value for name, value in given.items() if value is not None and repr(value) != "Sentinel.UNSET"}
        check_values(context, given)
    check_names(context.command_path, given, page, folder, is_whole=is_whole)
    if "--" in rest:
        check(rest[rest.index("--") + 1 :], page, folder, is_whole=is_whole)


def is_real(value: object) -> bool:
    return isinstance(value, str) and PLACEHOLDER.search(value) is None


def check_names(path: str, given: Mapping[str, Any], page: str, folder: Path, *, is_whole: bool) -> None:
    """Check the names that a command takes as text."""
    if path == "hdrl compare" and is_whole:
        check_comparison(given, page, folder)
    elif path == "hdrl-launch" and is_whole and not given["resume"]:
        check_launch(given, page, folder)
    elif path == "hdrl plot" and is_real(given.get("kind")):
        figures = all_figures()
        for kind in given["kind"].split("|"):
            assert kind in figures, f"no figure {kind}"
            for option in ("by", "of"):
                value = given.get(option)
                assert value is None or value in figures[kind].choices[option]
    elif path == "hdrl reproduce" and is_real(given.get("name")) and "/" not in given["name"]:
        read_experiment(given["name"])
    elif path == "hdrl bench run" and is_real(given.get("tasks")) and not given["tasks"].startswith("@"):
        chosen_tasks(given["tasks"])
    elif path == "hdrl options check" and is_whole:
        assert (ROOT / given["file"]).is_file() or given["file"].startswith("mine/")
    for name in find_settings(given):
        find_setting(name)


def find_settings(given: Mapping[str, Any]) -> list[str]:
    value = given.get("setting")
    return [value] if isinstance(value, str) and is_real(value) and not value.endswith(".py") else []


def check_comparison(given: Mapping[str, Any], page: str, folder: Path) -> None:
    arguments = dict(given)
    if (arguments["setting"] or "").endswith(".py"):
        return
    candidates = arguments.pop("candidates")
    if arguments["resume"]:
        return
    if is_sweep(candidates[0]):
        write_shown(page, folder / candidates[0])
        candidates = [str(folder / candidates[0])]
    check_sweep(sweep_of(candidates, arguments, None, resume=False, trust=False))


def check_sweep(sweep: Sweep) -> None:
    setting = find_setting(sweep.setting_name)
    policies = setting.policies
    for text in [*sweep.candidates, *([sweep.baseline] if sweep.baseline and sweep.baseline[:4] != "best" else [])]:
        # Files of a reader are not here, and what follows their names is read with them.
        with contextlib.suppress(ReadError):
            if not re.search(r"\.(pt|py|cpp|json|zip)", text):
                read_candidates(sweep, policies, [text])
    assert sweep.opponents in policies.groups()


def write_shown(page: str, path: Path) -> None:
    """Write the file that a page shows: below its name, or the first block that may be it."""
    named = re.findall(rf"`{re.escape(path.name)}`[^`]*\n\n```json\n(.*?)^```$", PAGES[page], re.MULTILINE | re.DOTALL)
    blocks = [json.loads(block) for kind, block in FENCED.findall(PAGES[page]) if kind == "json"]
    fits = [one for one in blocks if isinstance(one, dict) and {"platform", "platform_file_path"} & set(one)]
    found = [*map(json.loads, named), *fits, BATCH]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found[0]), encoding="utf-8")


def check_launch(given: Mapping[str, Any], page: str, folder: Path) -> None:
    agent, name = split_arguments(given["arguments"], given["agent"])
    if not is_real(name) or (given["setting"] or "").endswith(".py"):
        return
    path = ROOT / name
    if not path.is_file():
        path = folder / name
        write_shown(page, path)
    changes = changes_of(given["overrides"], {"seed": given["seed"], "simulator": given["simulator"]})
    changes += workload_changes(given["custom"])
    agent = agent if agent is not None and is_real(agent) else None
    changes += agent_changes(agent, path, given["setting"], overrides=changes)
    data = json.loads(path.read_text(encoding="utf-8"))
    parse_options(data, where=name, folder=path.parent, overrides=changes, setting=given["setting"])


@pytest.mark.parametrize("page", PAGES)
def test_parsers_accept_the_commands_of_the_page(page: str, tmp_path: Path):
    text = PAGES[page]
    problems = []
    for is_whole, commands in ((True, typed(text, page)), (False, mentioned(text, page))):
        for words in commands:
            try:
                check(words, page, tmp_path, is_whole=is_whole)
            except (click.ClickException, HdrlError, AssertionError, KeyError) as error:
                said = error.format_message() if isinstance(error, click.ClickException) else repr(error)
                problems.append(f"{shlex.join(words)}: {said}")
    assert problems == []


def test_pages_show_and_mention_commands():
    shown = sum(words[0] in PROGRAMS for page, text in PAGES.items() for words in typed(text, page))
    named = {tuple(words[:3]) for page, text in PAGES.items() for words in mentioned(text, page)}
    assert shown > 150
    assert {words[1] for words in named if words[0] == "hdrl"} >= set(COMMANDS)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("hdrl sits show mine", "no command 'sits'"),
        ("hdrl site shaw mine", "no command 'shaw'"),
        ("hdrl site import sacct.txt --confi slurm.conf -o mine", "--confi"),
        ("hdrl compare sjf+esay -p homogeneous:64 --loads 0.7 --windows 100:5", "sjf+easy"),
        ("hdrl compare sjf+easy -p homogeneous:64 --loads 0.7 --windows 100:5 --metrics mean_wait", "mean_wait_s"),
        ("hdrl compare sjf+easy -p homogeneous:64 --loads 0.7 --set windows.lenth=100", "windows.length"),
        ("hdrl compare heuristic -p homogeneous:64 --loads 0.7 --windows 100:5", "heuristics"),
        ("hdrl compare sjf --setting gpus -p sia --loads 0.7 --windows 100:5", "'gpu'"),
        ("hdrl-launch sjff examples/demo.json", "'sjf'"),
        ("hdrl-launch classic examples/demo.json --set workload.memori=none", "'memory'"),
        ("hdrl-launch classic examples/demo.json --seeds 3", "--seed"),
        ("hdrl plot gant run", "gant"),
        ("hdrl reproduce es-zero-shoot", "es-zero-shot"),
        ("hdrl bench run sjf+easy --tasks batch-gaja -o out", "batch-gaia"),
        ("hdrl slurm --cpus 8 -o ppo.sh -- hdrl-launch pppo examples/demo.json", "'ppo'"),
        ("for i in 1 2; do hdrl list polices; done", "polices"),
    ],
)
def test_a_mistake_is_found(command: str, said: str, tmp_path: Path):
    (words,) = [words for words in shell_commands(command) if words[0] in PROGRAMS]
    with pytest.raises((click.ClickException, HdrlError, AssertionError)) as caught:
        check(words, "README.md", tmp_path, is_whole=True)
    error = caught.value
    assert said in (error.format_message() if isinstance(error, click.ClickException) else str(error))
