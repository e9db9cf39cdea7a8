"""How hdrl speaks, in its manual, code and commits: a thing does not hear, a job is no person, no word is coined."""

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
DEFINES = {"glossary.md"}
"""Pages that explain names of the code, which may be such words."""

WORDS = re.compile(
    r"\b(told|lent|heard|hears?|nobody|somebody|whoever|whomever|birth|for\s+ever|so\s+many)\b"
    r"|\b(is|are|was|were|be)\s+asked\b|\bgo(es)?\s+by\b|\bof\s+no\s+known\b",
    re.IGNORECASE,
)

FOLDERS = ("hdrl", "agents", "launcher", "experiments")
KEYS = re.compile(r"[a-z_]+")
"""Strings of one word are names and keys: they are part of file formats."""

CLAUSES = re.compile(
    r'^ *r?"""('
    r"(What|Who|Whoever|How|Whether|Where|When|Which|All that|As much) "
    r"|(Return|Yield|Give|Note|Say|Tell|Write|Read) (what|who|all that|how many|how much|how long) "
    r")"
    r"|^( *)[a-z]\w*\n\5 +Whether ",
    re.MULTILINE,
)
"""Docstrings that open with a clause: data are nouns ("Number of cores"), flags "True if ...", functions verbs."""

NAMES = re.compile(
    r"(^|_)(who|whom|whose|nobody|somebody|everybody|mine|ours?|theirs?|itself|rivals?"
    r"|told|tells?|lent|heard|hears?|knows?|asks?|asked|asking|says?)(_|$)|_(it|that)(_|$)|^(it|that)_"
)
FIELD_NAMES = {"ask", "tell", "AskEnergy", "_ask_energy", "asks"}
"""Names with such words that stay: the interface of evolution strategies, and a layer in files of trained models."""

HEADINGS = re.compile(r"^#+ (How|What|Who|Whether|Where|When|Which|Why|If|Do|Does|Is|Are)\b.*|^#+ .*\?$", re.MULTILINE)
"""Headings that are clauses or questions: what a page tells is a noun or an imperative."""

N_SUBJECTS, CHECKED_SINCE = 50, "2026-11-28T01:40:00+0000"
"""Number of the latest commits that are checked, and the date of the first: older subjects follow other rules."""

MAX_SUBJECT = 72


def prose(text: str) -> str:
    """Return a page without its code."""
    return re.sub(r"`[^`]*`", "", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in DEFINES], ids=lambda page: page.name)
def test_the_manual_is_in_plain_words(page: Path):
    lines = enumerate(prose(page.read_text(encoding="utf-8")).splitlines(), start=1)
    assert not [(number, match.group()) for number, line in lines for match in WORDS.finditer(line)]


def messages(path: Path) -> list[tuple[int, str]]:
    """Return the strings of a file that are no docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in alone)
    return [(node.lineno, node.value) for node in constants if isinstance(node.value, str)]


@pytest.mark.parametrize("folder", FOLDERS)
def test_messages_are_in_plain_words(folder: str):
    found = [
        f"{path.relative_to(ROOT)}:{line}: {match.group()}: {text[:60]}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, text in messages(path)
        if not KEYS.fullmatch(text) and (match := WORDS.search(text))
    ]
    assert not found, "\n".join(found)


def blocks_of_comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield the comments of a file with the number of the first line; comments on successive lines are one."""
    first, last, block = 0, 0, ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            number = token.start[0]
            if number > last + 1 and block:
                yield first, block
            first, block = (first, block) if block and number == last + 1 else (number, "")
            block += token.string.lstrip("#")
            last = number
    if block:
        yield first, block


def remarks(text: str) -> list[tuple[int, str]]:
    """Return the docstrings and comments of a file without the code in them; none if it has no such words at all."""
    if not WORDS.search(re.sub(r"\n *#", "\n", text)):  # to parse every file takes ten times as long
        return []
    alone = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Expr))
    constants = (node.value for node in alone if isinstance(node.value, ast.Constant))
    docstrings = ((node.lineno, node.value) for node in constants if isinstance(node.value, str))
    return [(line, re.sub(r"`+[^`]*`+", "", one)) for line, one in (*docstrings, *blocks_of_comments(text))]


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_and_comments_are_in_plain_words(folder: str):
    found = [
        f"{path.relative_to(ROOT)}:{line}: {match.group()}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, text in remarks(path.read_text(encoding="utf-8"))
        for match in WORDS.finditer(text)
    ]
    assert not found, "\n".join(found)


def test_remarks_are_docstrings_and_whole_comments():
    text = '"""Waits for\never."""\nx = "nobody"  # jobs of so\n# many users\n\n# `told` stays\n'
    assert [(line, match.group()) for line, one in remarks(text) for match in WORDS.finditer(one)] == [
        (1, "for\never"),
        (3, "so many"),
    ]


KERNELS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "hdrl").rglob("kernel") if path.is_dir())

LEAST_COMMENTED = 0.03
"""Share of the lines of a kernel: compiled code shows what it does, and why only in comments."""


def n_commented(text: str) -> int:
    """Return the number of comments that speak to a reader, a line each."""
    return sum(
        token.type == tokenize.COMMENT and not re.match(r"#[ !-]*(noqa|type:|pragma|-{3,}|$)", token.string)
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
    )


@pytest.mark.parametrize("folder", KERNELS)
def test_kernels_say_why(folder: str):
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / folder).rglob("*.py")]
    n_lines = sum(bool(line.strip()) for text in texts for line in text.splitlines())
    n_comments = sum(map(n_commented, texts))
    assert n_comments >= LEAST_COMMENTED * n_lines, f"{n_comments} comments in {n_lines} lines"


def test_comments_are_counted():
    assert len(KERNELS) >= 4
    assert n_commented("x = 1  # noqa: E501\n# ---- part\n#\n# The first row\n# is empty.\ny = '# none'  # s\n") == 3


def clauses_in(folder: str) -> dict[str, int]:
    """Return the number of docstrings that open with a clause, by file of a folder; files without are left out."""
    files = sorted((ROOT / folder).rglob("*.py"))
    counts = {str(path.relative_to(ROOT)): len(CLAUSES.findall(path.read_text(encoding="utf-8"))) for path in files}
    return {name: n for name, n in counts.items() if n}


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_do_not_open_with_a_clause(folder: str):
    assert not clauses_in(folder)


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ('"""What jobs are."""', 1),
        ('class A:\n    """Who decides."""\n    n: int\n    """How many."""', 2),
        ('    r"""Return what is told."""', 1),
        ('"""A switch.\n\n    is_on\n        Whether it is on.\n    is_off\n        True if it is not."""', 1),
        ('"""Number of jobs."""\n"""Whatever fits."""\nx = """How long"""\n"""Return how it ended."""', 0),
    ],
)
def test_clauses_are_found(text: str, n: int):
    assert len(CLAUSES.findall(text)) == n


DEFINED = re.compile(r"\b(?:def|class) (\w+)|\bself\.(\w+)(?:: [^=\n]+)? = |(?:^ +|[(,] ?\*{0,2})(\w+): ", re.MULTILINE)
"""Names of functions, classes, attributes and arguments where a module defines them."""


def wrong_names(text: str) -> list[str]:
    """Return the names that hold a pronoun, or that let a thing speak, hear or know."""
    names = {next(filter(None, groups)) for groups in DEFINED.findall(text)}
    split = {name: re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower() for name in names}
    return sorted(name for name, words in split.items() if NAMES.search(words) and name not in FIELD_NAMES)


@pytest.mark.parametrize("folder", FOLDERS)
def test_names_hold_no_pronouns(folder: str):
    files = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in (ROOT / folder).rglob("*.py")}
    found = {name: wrong_names(text) for name, text in files.items()}
    assert not {name: names for name, names in found.items() if names}


def test_wrong_names_are_found():
    text = (
        "class Asked:\n    whose: int\n    def knows_it(self, mine: int): self.told = mine\n    def task(self): pass\n"
    )
    assert wrong_names(text) == ["Asked", "knows_it", "mine", "told", "whose"]


@pytest.mark.parametrize("page", [*PAGES, ROOT / "SECURITY.md"], ids=lambda page: page.name)
def test_headings_are_no_clauses(page: Path):
    without_code = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert [match.group() for match in HEADINGS.finditer(without_code)] == []


def test_headings_that_are_clauses_are_found():
    page = "# How to add\n## What differs\n## Whole nodes\n### Do they win?\nWhat is it?\n## Tests\n"
    assert [match.group() for match in HEADINGS.finditer(page)] == [
        "# How to add",
        "## What differs",
        "### Do they win?",
    ]


FILE_LINKS = re.compile(r"\[[\w/-]+\.md\]\(")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_name_what_they_lead_to(page: Path):
    text = page.read_text(encoding="utf-8")
    assert FILE_LINKS.findall(text) == []


def test_links_that_name_files_are_found():
    assert FILE_LINKS.findall("[metrics.md](metrics.md), [docs/slurm.md](slurm.md), [metrics](metrics.md)") == [
        "[metrics.md](",
        "[docs/slurm.md](",
    ]


def wrong_subjects(subjects: list[str]) -> list[str]:
    """Return the subjects that are too long, begin in lower case, end with a period, or are not in plain words."""
    rule = re.compile(rf"[A-Z](?!.*\.$).{{0,{MAX_SUBJECT - 1}}}")
    return [one for one in subjects if not rule.fullmatch(one) or WORDS.search(one)]


def test_subjects_of_commits_are_in_plain_words():
    command = ["git", "log", "--no-merges", f"-{N_SUBJECTS}", "--format=%s", f"--since={CHECKED_SINCE}", "HEAD"]
    try:
        found = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    except FileNotFoundError:
        pytest.skip("needs git, which holds the subjects of commits")
    subjects = found.stdout.splitlines()
    if found.returncode or len(subjects) < 2 or not (ROOT / ".git").exists():
        pytest.skip("needs a git checkout with its history; a shallow one has at most one commit")
    assert not wrong_subjects(subjects)


@pytest.mark.parametrize(
    "subject",
    ["Skip what nobody reads", "skip jobs", "Skip jobs.", "S" * (MAX_SUBJECT + 1), "Skip what is asked", ""],
)
def test_wrong_subjects_are_found(subject: str):
    assert wrong_subjects(["Skip jobs whose cell has not changed", "S" * MAX_SUBJECT, subject]) == [subject]


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs and the items of lists of a page, without tables, headings, pictures and HTML."""
    kept = "\n".join(line for line in prose(text).splitlines() if not line.lstrip().startswith(("|", "#", "!", "<")))
    linked = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", kept)
    return re.split(r"\n\s*\n|\n\s*[-*] |\n\s*\d+\. ", linked)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sentences_are_short(page: Path):
    text = page.read_text(encoding="utf-8")
    sentences = [one for part in paragraphs(text) for one in re.split(r"(?<=[.!?])\s+", part) if len(one.split()) > 2]
    words = sum(len(one.split()) for one in sentences)
    assert words <= 20 * len(sentences), f"{words / len(sentences):.1f} words a sentence"


FOLDERS_OF_TEXTS = (".github", "benchmarks", "docker", "docs", "experiments", "tests")
TEXTS = [*ROOT.glob("*.md"), *(path for folder in FOLDERS_OF_TEXTS for path in (ROOT / folder).rglob("*.md"))]


@pytest.mark.parametrize("page", sorted(TEXTS), ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_are_short(page: Path):
    text = page.read_text(encoding="utf-8")
    fence = re.sub(r"^ *```.*?^ *```$", lambda match: "\n" * match.group().count("\n"), text, flags=re.M | re.S)
    lines = enumerate(fence.splitlines(), start=1)
    breakable = [number for number, line in lines if len(line) > 120 and not re.match(r" *[|#!<>]|\S*$", line)]
    assert not breakable, f"lines of more than 120 characters: {breakable}"
