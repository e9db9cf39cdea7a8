"""``hdrl platform``: look at platforms and export them for SimGrid and Batsim."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hdrl.base.errors import OptionsError
from hdrl.launcher.completion import files_or
from hdrl.launcher.groups import CommandGroup
from hdrl.launcher.numbers import Float

if TYPE_CHECKING:
    from rich.table import Table

    from hdrl.settings.batch.platform import Link, NodeGroup, Platform, PStateRules


_compatibility = click.option(
    "--compatibility", metavar="MODE", help="P-states of another system: hdeeprm-0.3.1 or irmasim."
)
_contention = click.option(
    "--contention",
    metavar="NAME",
    help="Effect of over-committed memory bandwidth: step (default), proportional, none.",
)


@click.group(cls=CommandGroup)
def platform() -> None:
    """Show platforms and export them for SimGrid."""


@platform.command()
@click.argument("name", metavar="PLATFORM", shell_complete=files_or("platforms"))
@_compatibility
@_contention
def show(name: str, compatibility: str | None, contention: str | None) -> None:
    """Describe PLATFORM: a JSON or XML file, or the name of a shipped one."""
    from hdrl.launcher.bars import print_table
    from hdrl.settings.batch.platform import read_platform

    machine = read_platform(name, rules=_rules(contention, compatibility))
    table = _nodes_table(machine) if machine.clusters else _hosts_table(machine)
    print_table(table)


@platform.command()
@click.argument("name", metavar="PLATFORM", shell_complete=files_or("platforms"))
@click.option(
    "-o", "--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="The XML file to write."
)
@_compatibility
@_contention
@click.option("--boot-s", type=Float(), metavar="SECONDS", help="Nodes can be switched off: how long one boots.")
@click.option("--resume-s", type=Float(), metavar="SECONDS", help="Nodes can be suspended, too: how long one resumes.")
def export(
    name: str,
    out: Path,
    compatibility: str | None,
    contention: str | None,
    boot_s: float | None,
    resume_s: float | None,
) -> None:
    """Write PLATFORM as SimGrid XML that Batsim loads."""
    from hdrl.settings.batch.platform import read_platform, write_simgrid

    if out.suffix.lower() != ".xml":  # so that a slip replaces no description or log
        raise OptionsError(f"{out}: expected a name that ends in .xml")
    machine = read_platform(name, rules=_rules(contention, compatibility, boot_s, resume_s))
    write_simgrid(machine, out)
    click.echo(f"wrote {out}: {machine.n_nodes} nodes, {machine.n_cores} cores")


@platform.command(name="list")
def list_() -> None:
    """List the shipped platforms and the types of the library."""
    from hdrl.launcher.bars import print_table
    from hdrl.settings.batch.platform import read_platform, shipped_platforms
    from hdrl.settings.batch.platform.library import type_library

    table = _table("Shipped platforms", "platform", *_numbers("nodes", "processors", "cores", "mean Gflop/s a core"))
    for name in shipped_platforms():
        machine = read_platform(name)
        counts = (machine.n_nodes, machine.n_processors, machine.n_cores)
        table.add_row(name, *map(str, counts), f"{machine.reference_gflops:.3f}")
    print_table(table)

    library = type_library()
    table = _table("Node types", "node type", "processors", *_numbers("memory GB"), "source")
    for node in library.nodes.values():
        parts = " + ".join(f"{number} x {kind.name}" for kind, number in node.processors)
        table.add_row(node.name, parts, f"{node.memory_gb:g}", node.source)
    print_table(table)

    table = _table(
        "Processor types",
        "processor type",
        "kind",
        *_numbers("cores", "Gflop/s a core", "GB/s", "W"),
        "source",
    )
    for kind in library.processors.values():
        gflops = kind.clock_ghz * kind.flops_per_cycle
        figures = (str(kind.cores), f"{gflops:g}", f"{kind.memory_bandwidth_gbps:g}", f"{kind.power_w:g}")
        table.add_row(kind.name, kind.kind, *figures, kind.source)
    print_table(table)

    table = _table("Network types", "network type", *_numbers("Gbit/s"))
    for name, bandwidth in library.networks.items():
        table.add_row(name, f"{bandwidth:g}")
    print_table(table)


def _rules(
    contention: str | None, compatibility: str | None, boot_s: float | None = None, resume_s: float | None = None
) -> PStateRules | None:
    """Return the requested P-state rules; ``None`` if there are none, so that an XML file keeps its own."""
    from hdrl.settings.batch.platform import NodePower, SuspendPower, pstate_rules

    given = {"boot_s": boot_s, "resume_s": resume_s}
    switching = [f"--{name.replace('_', '-')}" for name, value in given.items() if value is not None]
    if contention is None and compatibility is None and not switching:
        return None
    if compatibility is not None and switching:
        raise OptionsError(
            f"{switching[0]} is given, but under compatibility {compatibility!r} nodes are always on; leave one out"
        )
    suspend = None if resume_s is None else SuspendPower(resume_s=resume_s)
    power = NodePower(suspend=suspend) if boot_s is None else NodePower(boot_s=boot_s, suspend=suspend)
    return pstate_rules(contention or "step", compatibility=compatibility, node_power=power if switching else None)


def _numbers(*titles: str) -> tuple[tuple[str], ...]:
    """Mark columns as columns of numbers."""
    return tuple((title,) for title in titles)


def _table(title: str, *columns: str | tuple[str]) -> Table:
    """Return an empty table; a column given as a tuple holds numbers."""
    from rich.table import Table

    table = Table(title=title)
    for column in columns:
        if isinstance(column, tuple):
            table.add_column(column[0], justify="right")
        else:
            table.add_column(column, overflow="fold")
    return table


def _nodes_table(machine: Platform) -> Table:
    """Return the tree of a platform: a row per group of equal nodes and kind of processor, then the totals."""
    if machine.rules is None:
        raise ValueError("a platform with a tree has rules")
    memory_gb = machine.memory_mib / machine.rules.mib_per_gb
    table = _table(
        f"{machine.name}, P-states {machine.rules.name}",
        "cluster",
        "node type",
        *_numbers("nodes"),
        "processors",
        *_numbers("cores", "Gflop/s a core", "memory GB", "GB/s", "kW"),
        "link",
    )
    for cluster in machine.clusters:
        link = cluster.local_link
        for group in cluster.groups:
            for i, row in enumerate(_group_rows(group)):
                first = (cluster.id, group.type.name, str(group.number)) if i == 0 else ("", "", "")
                table.add_row(*first, *row, _link_text(link))
    table.add_section()
    table.add_row(
        "all",
        "",
        str(machine.n_nodes),
        str(machine.n_processors),
        str(machine.n_cores),
        f"{machine.reference_gflops:.3f}",
        _total(memory_gb.max(), memory_gb.sum()),
        _total(machine.bandwidth_gbps.max(), machine.bandwidth_gbps.sum()),
        f"{machine.full_w[:, 0].sum() / 1e3:.3f}",
        f"{machine.speed_flops[:, 0].sum() / 1e12:.3f} Tflop/s",
    )
    return table


def _link_text(link: Link) -> str:
    latency = f", {link.latency_s * 1e6:g} us" if link.latency_s else ""
    return f"{link.name}{latency}"


def _total(of_one: float, of_all: float) -> str:
    """Return a total as text; machines of equal cores have so much of each that it limits no job."""
    from hdrl.settings.batch.platform.homogeneous import ENDLESS_GB

    return "unlimited" if of_one >= ENDLESS_GB else f"{of_all:g}"


def _group_rows(group: NodeGroup) -> list[tuple[str, ...]]:
    """Return the cells from "processors" to "kW" for each kind of processor of a group of nodes."""
    rows: list[tuple[str, ...]] = []
    for i, (kind, number) in enumerate(group.type.processors):
        n_processors = number * group.number
        rows.append(
            (
                f"{n_processors} x {kind.name}",
                str(n_processors * kind.cores),
                f"{kind.clock_ghz * kind.flops_per_cycle:g}",
                _total(group.type.memory_gb, group.type.memory_gb * group.number) if i == 0 else "",
                _total(kind.memory_bandwidth_gbps, kind.memory_bandwidth_gbps * n_processors),
                f"{kind.power_w * n_processors / 1e3:.3f}",
            )
        )
    return rows


def _hosts_table(machine: Platform) -> Table:
    """Return the hosts of a platform without a tree: a row per kind of host."""
    table = _table(
        f"{machine.name}: {machine.n_cores} hosts from SimGrid XML",
        "first host",
        *_numbers("hosts", "cores each"),
        "Gflop/s by P-state",
        "W at full load by P-state",
    )
    kinds: Counter[tuple[str, str, str]] = Counter()
    first: dict[tuple[str, str, str], str] = {}
    for host, name in enumerate(machine.core_names):
        speeds = ", ".join(f"{speed / 1e9:g}" for speed in machine.speed_flops[host])
        watts = ", ".join(f"{watt:g}" for watt in machine.full_w[host])
        kind = (str(machine.host_cores[host]), speeds, watts if machine.has_power else "unknown")
        kinds[kind] += 1
        first.setdefault(kind, name)
    for kind, number in kinds.items():
        table.add_row(first[kind], str(number), *kind)
    return table
