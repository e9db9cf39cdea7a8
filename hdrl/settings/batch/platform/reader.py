"""Reading platforms from files: HDeepRM's and IRMaSim's JSON descriptions, SimGrid XML, shipped platforms by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from hdrl.base.arguments import check_type
from hdrl.base.errors import PlatformError, ReadError, quoted
from hdrl.base.files import find_file, read_json
from hdrl.settings.batch.irmasim import irmasim, is_irmasim_platform
from hdrl.settings.batch.platform.conversion import build_platform
from hdrl.settings.batch.platform.homogeneous import PREFIX, homogeneous_platform, is_homogeneous
from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.platform.pstates import PStateRules
from hdrl.settings.batch.platform.simgrid import read_simgrid
from hdrl.settings.batch.site_rules.conf import read_conf
from hdrl.settings.batch.site_rules.rules import rules_of

INSTALLED_FOLDER = Path(__file__).parent / "shipped"
CHECKOUT_FOLDER = Path(__file__).parents[4] / "platforms"


def shipped_platforms() -> dict[str, Path]:
    """Return the platforms that come with hdrl: their files by name, sorted.

    They are in ``platforms/`` of a checkout, and beside this module where hdrl is installed.
    """
    folder = INSTALLED_FOLDER if INSTALLED_FOLDER.is_dir() else CHECKOUT_FOLDER
    return {path.stem: path for path in sorted(folder.glob("*.json"))}


def find_platform(name: str | Path) -> Path:
    """Return the file of a platform that is given by a path or by the name of a shipped one.

    Parameters
    ----------
    name
        A path, or for instance ``"gaia"``. A file of that name in the current folder comes first.

    Raises
    ------
    ReadError
        If there is neither.
    """
    known = shipped_platforms()
    n_cores = str(name).rpartition(":")[2]
    if n_cores.isdecimal() and str(name) not in known and not Path(name).exists():
        raise ReadError(name, f"no such file; did you mean {PREFIX + n_cores!r}?")
    return find_file(name, known, "platform")


def given_platform(platform: Platform | str | Path, *, rules: PStateRules | None = None) -> Platform:
    """Return the platform of an argument; raise HdrlError if it cannot be read, or stands for no platform."""
    expected = "the name of a platform, a file, or what hdrl.read_platform returns"
    check_type("platform", platform, (Platform, str, Path), expected)
    return platform if isinstance(platform, Platform) else read_platform(platform, rules=rules)


def read_platform(path: str | Path, *, rules: PStateRules | None = None) -> Platform:
    """Read a platform.

    Parameters
    ----------
    path
        A JSON description, a SimGrid file (its name ends in ``.xml``), the name of a shipped platform, or
        ``"homogeneous:<n>"``: n identical cores. ``"file.json#name"`` is one of the platforms of a file of IRMaSim.
    rules
        P-state rules, `pstate_rules` without arguments unless given. SimGrid files have P-states of their own:
        there the rules do nothing, except that a file which hdrl made with other rules is refused.

    Returns
    -------
    Platform
        The platform, named after its file.

    Raises
    ------
    ReadError
        If there is no such file, or it is no JSON or XML.
    PlatformError
        If it describes no platform.
    """
    if isinstance(path, str) and is_homogeneous(path):
        return homogeneous_platform(path, rules)
    file, named = file_and_name(find_platform(path))
    if file.suffix.lower() == ".xml":
        platform = read_simgrid(file)
        if rules is not None and platform.rules is not None and platform.rules != rules:
            made = f"{platform.rules.name!r} with contention {platform.rules.contention.name!r}"
            raise PlatformError(f"{file}: was made with P-state rules {made}, other rules are requested")
        return platform
    description = read_json(file)
    name = file.name.removesuffix(".gz").removesuffix(".json")
    try:
        if is_irmasim_platform(description):
            description, name = irmasim("platforms").hdeeprm_description(description, named), named or name
        elif named:
            raise PlatformError(f"holds one platform, expected no #{named} after the file")
        platform = build_platform(description, name=name, rules=rules)
        return platform if description.get("site_rules") is None else _ruled(platform, file, description["site_rules"])
    except PlatformError as error:
        raise PlatformError(f"{file}: {error}") from None


def _ruled(platform: Platform, file: Path, name: str) -> Platform:
    """Return the platform with the rules of a site, whose nodes must be its own."""
    if Path(name).name != name or name in (".", ".."):
        raise PlatformError(f"site_rules is {quoted(name)}, expected the name of a file in the same folder")
    try:
        site = rules_of(read_conf(file.with_name(name)))
    except PlatformError as error:
        raise PlatformError(f"site_rules: {name} {error}") from None
    cores = np.bincount(platform.node_of_processor[platform.processor_of_core], minlength=platform.n_nodes)
    if not np.array_equal(cores, site.nodes["cores"]):
        raise PlatformError(
            f"has {platform.n_nodes:,} nodes with {platform.n_cores:,} cores, but {name} has {len(site.nodes):,} with "
            f"{int(site.nodes['cores'].sum()):,}: expected the same cores, node by node"
        )
    return replace(platform, site=site)


def file_and_name(path: Path) -> tuple[Path, str]:
    """Tell a file and the name of a platform in it apart; the name is empty if there is none."""
    text, mark, name = str(path).rpartition("#")
    return (Path(text), name) if mark and not path.is_file() else (path, "")
