"""Requests of a job in the line that submitted it (sacct's SubmitLine): the options of sbatch, srun and salloc."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from hdrl.base.textnumbers import int_of

_SHORT = {
    "-N": "nodes",
    "-C": "features",
    "-p": "partitions",
    "-d": "dependencies",
    "-b": "begin",
    "-a": "array",
    "-H": "hold",
}
_LONG = {
    "nodes": ("nodes", 5),
    "constraint": ("features", 5),
    "partition": ("partitions", 4),
    "nice": ("nice", 2),
    "dependency": ("dependencies", 3),
    "begin": ("begin", 2),
    "array": ("array", 2),
    "hold": ("hold", 2),
    "exclusive": ("exclusive", 6),
}
"""Long options, and the number of letters that are enough for them: ``--depend`` is ``--dependency``."""

OPTIONS = _SHORT | {
    f"--{word[:n_letters]}": name for word, (name, least) in _LONG.items() for n_letters in range(least, len(word) + 1)
}
"""Options that say something that accounting has no column for."""

_WITHOUT_VALUE = ("exclusive", "hold")
_NICE = 100  # what --nice without a number adds
_JOB = r":\d{1,15}(?:_\d{1,15})?(?:\+\d{1,6})?"
_DEPENDENCY = re.compile(rf"(?:after|afterok|afterany|afternotok|aftercorr)(?:{_JOB})+")
_FLAGS = frozenset(
    (
        *("--parsable", "--requeue", "--no-requeue", "--wait", "-W", "--test-only", "--quiet", "-Q", "--verbose", "-v"),
        *("--overcommit", "-O", "--oversubscribe", "-s", "--contiguous", "--spread-job", "--reboot", "--pty", "-k"),
        *("--use-min-nodes", "--get-user-env", "--ignore-pbs", "--kill-on-invalid-dep", "--no-kill", "-h", "-I"),
    )
)
"""Options of sbatch that take no value."""

_ALONE = "|".join(sorted((*_FLAGS, *(key for key, name in OPTIONS.items() if name in (*_WITHOUT_VALUE, "nice")))))
_BEGIN = re.compile(
    rf"\s*\S+(?:\s+(?!--wrap|-(?!\S))(?:--[^\s=]*=\S*|-[^-\s]\S+|(?:{_ALONE})(?!\S)|-\S*(?:\s+[^-\s]\S*)?))*"
)
"""The command and its options with their values, up to the script."""


def _beginnings(word: str, least: int) -> str:
    """Return a regular expression for the first letters of a word, at least some of them."""
    return word[:least] + "".join(f"(?:{letter}" for letter in word[least:]) + ")?" * (len(word) - least)


_WORDS = "|".join(_beginnings(word, least) for word, (_, least) in _LONG.items())
_ASKS = re.compile(rf"-(?<=\s-)(?:[NCpdbaH]\S*|-(?:{_WORDS})(?:=\S*)?(?!\S))(?:\s+[^-\s]\S*)?")


def options_of(line: str) -> str:
    """Return a line without what says nothing more than the accounting, such as the script; many lines become equal.

    Parameters
    ----------
    line
        The command with its options, the script and its arguments.
    """
    script = line.find(" /")
    if script > 0 and _ASKS.search(line, script) is None:  # nothing that counts stands behind the first path
        return _options_before(line[:script])
    return _options_before.__wrapped__(line)


@functools.lru_cache(maxsize=2**18)
def _options_before(line: str) -> str:
    asked = _ASKS.findall(line)
    found = _BEGIN.match(line) if asked else None
    if found is None:
        return ""
    if found.end() < len(line):  # some of it may stand behind the script
        asked = _ASKS.findall(found[0])
    return " ".join(["sbatch", *asked])


def program_of(line: str) -> str:
    """Return the script of a line and its arguments, without the command and its options; empty if there is none."""
    found = _BEGIN.match(line)
    return "" if found is None else line[found.end() :].strip()


_NUMBER = re.compile(r"\d+")


def without_numbers(text: str) -> str:
    """Return a text with ``#`` for each number in it, so that ``run_17`` and ``run_18`` are equal; ``17`` stays."""
    return text if text.isdecimal() else _NUMBER.sub("#", text)


def component_line(line: str, component: int) -> str:
    """Return the part of a line for a component of a het job, as its own line: ``sbatch -n 2 : -p gpu job.sh``."""
    parts = line.split(" : ")
    return f"sbatch {parts[component]}" if 0 < component < len(parts) else line if component <= 0 else ""


def read_submit_line(line: str) -> tuple[dict[str, str], list[str]]:
    """Return the requests in a line, by name, and its unsupported options.

    Parameters
    ----------
    line
        The command with its options; those in the script itself are not in it.

    Returns
    -------
    tuple[dict[str, str], list[str]]
        ``nodes`` the least number, ``features`` and ``partitions`` separated by commas, ``nice``, ``exclusive`` and
        ``hold`` ``"1"``, ``begin`` as written, ``throttle`` of an array, ``dependencies`` as sbatch takes them; and a
        reason for each option that asks for something else.
    """
    found: dict[str, str] = {}
    problems: list[str] = []
    for name, text in _options(line.split()):
        value = _understood(name, text)
        if value is None:
            problems.append(f"{name} that is not understood")
        elif value:
            found["throttle" if name == "array" else name] = value
    return found, problems


def requests_text(requests: dict[str, str]) -> str:
    """Return the requests of a line as one text, empty if it has none."""
    return "\t".join(f"{name}={value}" for name, value in requests.items())


def parse_requests(text: str) -> dict[str, str]:
    """Return the requests in a text of `requests_text`, by name."""
    return dict(part.partition("=")[::2] for part in text.split("\t") if part)


def _options(words: list[str]) -> Iterator[tuple[str, str]]:
    """Return the options before the script, with their values."""
    position = 1  # the command
    while position < len(words):
        word = words[position]
        position += 1
        if not word.startswith("-") or word == "-" or word.startswith("--wrap"):
            return  # the script: what follows are its own arguments
        key, has_value, value = word.partition("=")
        if not word.startswith("--"):
            key, value = word[:2], word[2:]
            has_value = value
        name = OPTIONS.get(key)
        if not has_value and name not in _WITHOUT_VALUE and key not in _FLAGS:
            is_value = position < len(words) and name != "nice" and not words[position].startswith("-")
            value = words[position] if is_value else ""
            position += is_value
        if name is not None:
            yield name, value.strip("\"'")


def _understood(name: str, text: str) -> str | None:
    """Return the value of an option as it is kept, empty if it asks for nothing, ``None`` if it is not understood."""
    if name in _WITHOUT_VALUE:
        return "1" if text in ("", "exclusive", "user") else None
    if name == "nodes":
        found = re.fullmatch(r"(\d{1,6})(?:-\d{1,6})?(?::\d{1,6})?", text)
        return found[1] if found else None
    if name == "features":
        return text.replace("&", ",") if re.fullmatch(r"[\w.+-]+(?:[&,][\w.+-]+)*", text) else None
    if name == "partitions":
        return text if "," in text else ""
    if name == "nice":
        try:
            return str(int_of(text)) if text else str(_NICE)
        except ValueError:
            return None
    if name == "array":
        _, _, limit = text.partition("%")
        return limit if not limit or limit.isdigit() else None
    if name == "dependencies":
        parts = text.split(",")
        is_known = all(part == "singleton" or _DEPENDENCY.fullmatch(part) for part in parts)
        return text if is_known and "?" not in text else None
    return text  # --begin: the accounting has its date
