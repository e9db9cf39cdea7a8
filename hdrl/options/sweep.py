"""The sweep file of a comparison, with every default, and its checks."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import (
    Field,
    PlainSerializer,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    model_serializer,
    model_validator,
)

from hdrl.base.errors import ReadError
from hdrl.base.files import expanded
from hdrl.metrics.statistics import CONFIDENCE, N_RESAMPLES
from hdrl.options.block import Block, LocatedBlock
from hdrl.options.file import PathText, Seed
from hdrl.options.numbers import Count, Few, Number, Positive, Share
from hdrl.trace.model import Machine


def _allow_all(value: Any, handler: Callable[[Any], Any]) -> Any:
    return ALL if value == ALL else handler(value)


def _count_or_all(smallest: int) -> Any:
    """Return a type of whole numbers from the smallest on, and the word ``all``, with the mistakes of numbers."""
    bounds = {"minimum": smallest, "maximum": 10**9}
    return Annotated[
        int,
        Field(ge=smallest, le=10**9),
        WrapValidator(_allow_all),
        PlainSerializer(lambda value: value),
        WithJsonSchema({"anyOf": [{"type": "integer", **bounds}, {"const": ALL}]}),
    ]


ALL = "all"

if TYPE_CHECKING:
    Length: TypeAlias = int | Literal["all"]
    WarmUp: TypeAlias = int | Literal["all"]
else:
    Length, WarmUp = _count_or_all(1), _count_or_all(0)


class Windows(Block):
    """Pieces of a workload, each of which is simulated by itself."""

    newer_keys: ClassVar[tuple[str, ...]] = ("follow_up", "up_to")

    length: Length = Field(description="Jobs of a window that count; all: the jobs of the range, as one window.")
    count: Few | None = Field(
        default=None, description="Number of windows per workload or load; by default all that fit side by side."
    )
    starts: list[Annotated[int, Field(ge=0, le=10**12)]] | None = Field(
        default=None, description="First job of each window, instead of windows side by side; they may overlap."
    )
    warm_up: WarmUp = Field(
        default=0,
        description="Jobs before a window that are simulated and do not count; 0: an empty machine; all: all.",
    )
    follow_up: Number = Field(default=0, description="Jobs after a window that are simulated, too, and do not count.")

    up_to: Few | None = Field(
        default=None,
        description="Add windows until a difference is shown, up to this number; count: the windows of the first look.",
    )

    @model_validator(mode="after")
    def _check_growth(self) -> Self:
        if self.up_to is not None and (self.count is None or self.up_to <= self.count):
            raise ValueError(f"windows.up_to is {self.up_to}, expected more than windows.count, which it needs")
        return self

    @model_validator(mode="after")
    def _check_one_window(self) -> Self:
        if self.length == "all" and (self.starts is not None or self.count is not None):
            raise ValueError("windows.length 'all' is one window: leave out count and starts")
        return self

    @model_validator(mode="after")
    def _check_counts(self) -> Self:
        if self.starts is not None and (self.count is not None or not self.starts):
            raise ValueError("windows.starts must hold at least one index, and replaces windows.count: leave out count")
        return self


class Sweep(LocatedBlock):
    """A comparison: candidates x windows x seeds. The same value gives the same results, byte by byte.

    Attributes are the keys of the file. Paths are as they were written; `path_of` resolves them. A setting derives its
    sweeps from this class and adds keys of its own.
    """

    newer_keys: ClassVar[tuple[str, ...]] = ("tails", "tail_margin", "equal_within", "bound")

    last_keys: ClassVar[tuple[str, ...]] = ("seeds", "seed", "metrics", "confidence", "resamples")
    """Keys that stand at the end of a sweep file, behind those of a setting."""

    platform: Annotated[PathText, Field(min_length=1)] = Field(
        description="Platform file, or the name of a shipped platform, or homogeneous:<cores>."
    )
    candidates: list[Annotated[PathText, Field(min_length=1)]] = Field(
        min_length=1, description="Policies, groups and patterns of them, Python files, models; NAME=... names one."
    )
    baseline: Annotated[PathText, Field(min_length=1)] | None = Field(
        default=None,
        description="The candidate that ratios refer to; best[:FROM:TO] for the best heuristic of a training range.",
    )
    opponents: Annotated[PathText, Field(min_length=1)] = Field(
        default="heuristics", description="Among which policies baseline 'best' chooses."
    )
    workloads: list[Annotated[PathText, Field(min_length=1)]] = Field(
        default_factory=list, description="Workload files, or names of shipped workloads."
    )
    loads: list[Positive] = Field(default_factory=list, description="Offered loads of workloads that are generated.")
    windows: Windows | None = Field(default=None, description="Pieces of the workloads; all of each by default.")
    range: list[Share] = Field(
        default_factory=lambda: [0.0, 1.0],
        min_length=2,
        max_length=2,
        description="Part of each workload that is used, as shares of its jobs: [0.7, 1.0] is the last 30 %.",
    )
    nb_jobs: Count | None = Field(default=None, description="Number of jobs of each workload; all by default.")
    seeds: Few = Field(default=1, description="Number of seeds for candidates that draw random numbers.")
    seed: Seed = Field(default=0, description="The first seed.")
    metrics: Annotated[list[str], Field(min_length=1)] | None = Field(
        default=None,
        description="Metrics to summarise, the first decides; by default the setting's own.",
    )
    confidence: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=CONFIDENCE, description="Share of intervals that would hold the true value."
    )
    resamples: Annotated[int, Field(ge=100, le=10**6)] = Field(
        default=N_RESAMPLES, description="Resamples of the bootstrap."
    )

    tails: list[str] | None = Field(
        default=None,
        description="Metrics of the tail that the verdict looks at beside a mean; by default p99 and longest waits.",
    )
    tail_margin: Annotated[float, Field(ge=1, le=10)] = Field(
        default=1.1, description="Ratio to the baseline's tail up to which a tail counts as no worse."
    )
    equal_within: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.02, description="Relative change below which two are equal in practice."
    )
    bound: bool = Field(
        default=False, description="True if each policy stands beside itself with true run times: what is left to win."
    )

    _where: str = PrivateAttr(default="sweep")
    _trusts_models: bool = PrivateAttr(default=False)
    _agent_files: tuple[str, ...] = PrivateAttr(default=())

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if not self.workloads and not self.loads:
            raise ValueError("there is nothing to simulate: give workloads (-w FILE), or loads (--loads 0.7,0.85)")
        if self.loads and (self.windows is None or self.windows.starts is not None or self.windows.length == "all"):
            raise ValueError("loads need windows with a length (and a count): that is how long each sequence is")
        names = [f"{load:g}" for load in self.loads]
        if len(set(names)) < len(names):
            twice = max(names, key=names.count)
            raise ValueError(f"loads holds {twice} more than once: the same jobs would count as several windows")
        if self.range[0] >= self.range[1]:
            raise ValueError(f"range is {self.range}, expected the smaller share first")
        return self

    @model_validator(mode="after")
    def _check_metrics_once(self) -> Self:
        metrics = self.metrics or []
        if len(set(metrics)) < len(metrics):
            raise ValueError("metrics names one twice")
        return self

    @model_serializer(mode="wrap")
    def _in_order(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Put the keys of a setting before the last ones."""
        data = self._without_newer_keys(handler)
        first = {key: value for key, value in data.items() if key not in self.last_keys}
        return first | {key: data[key] for key in self.last_keys}

    @property
    def setting_name(self) -> str:
        """Name of the setting, or the path of the Python file that defines it."""
        raise NotImplementedError

    @property
    def trusts_models(self) -> bool:
        """True if the agent files that lie beside models may run."""
        return self._trusts_models

    @property
    def agent_files(self) -> tuple[str, ...]:
        """The agent files that the user has named for models."""
        return self._agent_files

    def trusting(self, agent_files: Sequence[str] = (), *, models: bool = True) -> Self:
        """Return the same with agent files that may run for the models among the candidates.

        ``agent_files`` are those that the user has named; ``models`` lets those run, too, that lie beside models.
        """
        copy = self.model_copy()
        copy._agent_files, copy._trusts_models = tuple(agent_files), models  # noqa: SLF001 (its own class)
        return copy

    @property
    def is_continuous(self) -> bool:
        """True if the range of each log is simulated in one run."""
        return self.windows is not None and self.windows.length == ALL

    def file_or_name(self, text: str) -> str | Path:
        """Return the path of a file, or the text itself where it can only be a name."""
        path = self.path_of(text)
        is_name = ":" in text or (len(Path(text).parts) == 1 and not Path(text).suffix)
        return text if is_name and not path.is_file() else path

    def resolve_policy(self, name: str) -> str:
        """Return the name of a policy with the file that it reads, if any, resolved against the folder of the sweep."""
        found = _POLICY_OF_FILE.fullmatch(name)
        return name if found is None else f"{found[1]}{self.path_of(found[2])}{found[3]}"

    def completed(self, machine: Machine, *, baseline: str, metrics: Sequence[str]) -> Self:
        """Return the sweep with the defaults filled in that depend on the setting and the machine.

        Raises
        ------
        OptionsError
            If the sweep requests something that the machine cannot give.
        """
        del machine
        return self.model_copy(update={"baseline": self.baseline or baseline, "metrics": self.metrics or list(metrics)})

    def portable(self) -> dict[str, Any]:
        """Return the sweep as plain values without anything of this machine: paths shrink to names."""
        found: dict[str, Any] = _names_only(self.model_dump(mode="json"))
        return found

    def sha256(self) -> str:
        """Return the SHA-256 of the sweep; where files are does not count, their names do."""
        text = json.dumps(self.portable(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()


class SettingSweep(Sweep):
    """The sweep file of a setting that is named in it, as all settings but HDeepRM's are."""

    setting: PathText = Field(description="Name of the setting, or the Python file that defines it.")

    @property
    def setting_name(self) -> str:
        """Name of the setting, or the path of the Python file that defines it."""
        return self.setting


FILE_SUFFIXES = (".py", ".pt", ".safetensors", ".json", ".swf", ".gz", ".xml")


def _looks_like_file(text: str) -> bool:
    """Return whether a text names a file, and not a policy, a shipped file or a group."""
    base = text.partition("+")[0]
    return "/" in text or base.endswith(FILE_SUFFIXES) or ".py-" in base


def from_here(key: str, value: Any) -> Any:
    """Return a value from the command line that does not depend on the folder of a sweep file."""
    if key in ("platform", "baseline", "opponents", "setting"):
        return _relabelled(value, _from_here)
    if key in ("workloads", "candidates") and isinstance(value, list):
        return [_relabelled(text, _from_here) for text in value]
    return value


MODEL_FILE = "model.pt"
"""The model in the folder of a training."""


def model_in_folder(text: str, start: Path) -> str:
    """Return the model file of a candidate that is the folder of a training; any other candidate as it is.

    The file has the label of the folder, by default its name.
    """
    label, _, what = text.rpartition("=")
    try:
        folder = start / expanded(what)
        holds_model = bool(what) and (folder / MODEL_FILE).is_file()
    except (OSError, ReadError):  # it is too long for a file, or begins with ~
        return text
    if not holds_model:
        return text
    return f"{label or folder.absolute().name}={what}/{MODEL_FILE}"


def _from_here(text: str) -> str:
    return str(expanded(text).absolute()) if _looks_like_file(text) else text


_POLICY_OF_FILE = re.compile(r"([\w+]+@)(.+\.json)((?:[/~-].*)?)", re.ASCII)
"""The name of a policy that reads a file, for instance ``sjf+easy@nets/my.json/all~gate``, in three parts."""


def _relabelled(text: str, change: Callable[[str], str]) -> str:
    label, equals, rest = text.rpartition("=")
    policy = _POLICY_OF_FILE.fullmatch(rest)
    before, file, after = ("", rest, "") if policy is None else policy.groups()
    return f"{label}{equals}{before}{change(file)}{after}"


def strip_folder(text: str) -> str:
    """Return the name of a file, or of a policy that reads one, without the folder of the file.

    A text that names no file stays as it is.
    """
    return _relabelled(text, lambda path: Path(path).name) if _looks_like_file(text) else text


def _names_only(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _names_only(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_names_only(inner) for inner in value]
    return strip_folder(value) if isinstance(value, str) else value
