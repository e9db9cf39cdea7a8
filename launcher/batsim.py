"""``hdrl-batsim``: a drop-in for the ``batsim`` command, by the exact engine."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from hdrl.base.errors import OptionsError, suggest
from hdrl.base.files import read_text
from hdrl.batsim.exact.context import BatsimOptions
from hdrl.launcher.errors import CleanErrors, OneLine
from hdrl.launcher.numbers import FloatRange, Int, IntRange

BATSIM_VERSION = "v4.2.1"
SIMGRID_VERSION = "3.34.0"
_ROLES = ("compute_node", "storage", "master")
_VERBOSITIES = ("quiet", "network-only", "information", "debug")

_NOT_SIMULATED = {
    "workflow": "-W/--workflow (workflows)",
    "workflow_start": "--WS/--workflow-start (workflows)",
    "workflow_jobs_limit": "--workflow-jobs-limit (workflows)",
    "ignore_beyond_last_workflow": "--ignore-beyond-last-workflow (workflows)",
    "enable_redis": "--enable-redis",
    "no_sched": "--no-sched (execution without a scheduler)",
    "sg_cfg": "--sg-cfg (options of SimGrid)",
}
Command = TypeVar("Command", bound=Callable[..., None])
_FILE = click.Path(path_type=Path)


def _print_and_exit(text: str) -> Callable[[click.Context, click.Parameter, bool], None]:
    def callback(context: click.Context, parameter: click.Parameter, value: bool) -> None:  # noqa: ARG001, FBT001
        if value:
            click.echo(text)
            context.exit(0)

    return callback


def _information(name: str, text: str, about: str) -> Callable[[Command], Command]:
    return click.option(
        name, is_flag=True, is_eager=True, expose_value=False, callback=_print_and_exit(text), help=about
    )


@click.command(
    name="hdrl-batsim",
    cls=CleanErrors,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    help="Simulate how jobs run on a platform, as Batsim 4.2.1 does; a scheduler decides over a ZeroMQ socket.",
    epilog="It differs from batsim: --timeout and --host-table are new; "
    "the colours in schedule.trace are the same in every run; where "
    "batsim stops or waits forever it says why in one line and exits with code 2; a deadlock exits with code 1 after "
    "the files are written.",
)
@click.option("-p", "--platform", required=True, type=_FILE, help="The SimGrid platform.")
@click.option("-w", "--workload", multiple=True, type=_FILE, help="A JSON workload; may be given several times.")
@click.option("-W", "--workflow", multiple=True, type=_FILE, help="Not simulated.")
@click.option("--WS", "--workflow-start", "workflow_start", multiple=True, nargs=2, help="Not simulated.")
@click.option("--events", multiple=True, type=_FILE, help="A file of external events; may be given several times.")
@click.option("-m", "--master-host", default="master_host", show_default=True, help="The host that runs no jobs.")
@click.option("-r", "--add-role-to-hosts", multiple=True, metavar="HOST1,HOST2:ROLE", help="Give hosts a role.")
@click.option("-E", "--energy", is_flag=True, help="Measure energy.")
@click.option("-s", "--socket-endpoint", default="tcp://localhost:28000", show_default=True, help="The scheduler.")
@click.option("--timeout", default=0.0, type=FloatRange(min=0), help="Wall-clock seconds for an answer; 0: any.")
@click.option("--enable-redis", is_flag=True, help="Not simulated.")
@click.option("--redis-hostname", default="127.0.0.1", hidden=True)
@click.option("--redis-port", default=6379, type=Int(), hidden=True)
@click.option("--redis-prefix", default="default", hidden=True)
@click.option("-e", "--export", default="out", show_default=True, help="Prefix of the names of the files.")
@click.option("--disable-schedule-tracing", is_flag=True, help="Write no schedule.trace.")
@click.option("--disable-machine-state-tracing", is_flag=True, help="Write no machine_states file.")
@click.option("--host-table", is_flag=True, help="Write a hosts file: what each machine did (new).")
@click.option("--mmax", default=0, type=IntRange(min=0), help="The largest number of machines; 0: no limit.")
@click.option("--mmax-workload", is_flag=True, help="Use no more machines than the workloads' nb_res.")
@click.option("--forward-profiles-on-submission", is_flag=True, help="Send the profile with each submission.")
@click.option("--enable-dynamic-jobs", is_flag=True, help="Let the scheduler register jobs and profiles.")
@click.option("--acknowledge-dynamic-jobs", is_flag=True, help="Tell the scheduler of the jobs that it registers.")
@click.option("--enable-profile-reuse", is_flag=True, help="Keep profiles that no job uses any more.")
@click.option("-v", "--verbosity", default="information", type=click.Choice(_VERBOSITIES), help="Verbosity.")
@click.option("-q", "--quiet", is_flag=True, help="Same as --verbosity quiet.")
@click.option("--workflow-jobs-limit", default=0, type=Int(), help="Not simulated.")
@click.option("--ignore-beyond-last-workflow", is_flag=True, help="Not simulated.")
@click.option("--dump-execution-context", is_flag=True, help="Print the execution context as JSON, and stop.")
@click.option("--enable-compute-sharing", is_flag=True, help="Let several jobs use one machine at a time.")
@click.option("--disable-storage-sharing", is_flag=True, help="Let only one job use a storage host at a time.")
@click.option("--no-sched", is_flag=True, help="Not simulated.")
@click.option("--sched-cfg", default=None, help="A text for the scheduler.")
@click.option("--sched-cfg-file", default=None, type=_FILE, help="A file that holds this text.")
@click.option("--sg-cfg", multiple=True, help="Not simulated.")
@click.option("--sg-log", multiple=True, help="Accepted, without effect.")
@click.option("--forward-unknown-events", is_flag=True, help="Pass on external events of unknown types.")
@_information("--version", BATSIM_VERSION, "Print the version of Batsim that this behaves as.")
@_information("--simgrid-version", SIMGRID_VERSION, "Print the version of SimGrid that this behaves as.")
def main(**given: Any) -> None:
    """Run the command; its help is above."""
    options = batsim_options(given)
    if given["dump_execution_context"]:
        click.echo(_execution_context(given))
        return
    simulate(options, given, quiet=given["quiet"] or given["verbosity"] == "quiet")


def batsim_options(given: dict[str, Any]) -> BatsimOptions:
    """Return the options of the command line; refuse those that are not simulated."""
    for name, what in _NOT_SIMULATED.items():
        if given[name]:
            raise OptionsError(f"hdrl-batsim does not simulate {what}; leave it out")
    if given["sched_cfg"] is not None and given["sched_cfg_file"] is not None:
        raise OptionsError("--sched-cfg and --sched-cfg-file exclude each other: give one of them")
    config = given["sched_cfg"] or ""
    if given["sched_cfg_file"] is not None:
        config = read_text(given["sched_cfg_file"])
    return BatsimOptions(
        platform=given["platform"],
        workloads=given["workload"],
        events=given["events"],
        master_host=given["master_host"],
        roles=_roles(given["add_role_to_hosts"]),
        energy=given["energy"],
        compute_sharing=given["enable_compute_sharing"],
        storage_sharing=not given["disable_storage_sharing"],
        dynamic_jobs=given["enable_dynamic_jobs"],
        acknowledge_dynamic_jobs=given["acknowledge_dynamic_jobs"],
        profile_reuse=given["enable_profile_reuse"],
        forward_profiles=given["forward_profiles_on_submission"],
        forward_unknown_events=given["forward_unknown_events"],
        scheduler_config=config,
        max_machines=given["mmax"],
        max_machines_of_workload=given["mmax_workload"],
        schedule_trace=not given["disable_schedule_tracing"],
        host_table=given["host_table"],
    )


def simulate(options: BatsimOptions, given: dict[str, Any], *, quiet: bool) -> None:
    """Simulate with the scheduler at the socket, and write the files."""
    from hdrl.batsim.connection import RemoteScheduler
    from hdrl.batsim.exact.simulation import ExactBatsim

    simulation = ExactBatsim(options)
    gc.freeze()  # platform and jobs stay to the end, or nearly so
    folder = Path(given["export"]).parent
    if not folder.is_dir():
        raise OptionsError(f"--export {given['export']!r}: no folder {str(folder)!r}")
    with RemoteScheduler(given["socket_endpoint"], timeout_s=given["timeout"]) as scheduler:
        result = simulation.run(scheduler)
    states = not given["disable_machine_state_tracing"]
    result.outputs.write(
        given["export"], result.schedule, machine_states=states, trace=result.trace, hosts=result.hosts
    )
    if result.deadlocked:
        raise OneLine("hdrl-batsim", result.deadlock(), exit_code=1)
    if not quiet:
        row = result.schedule
        click.echo(
            f"[{result.end_s:f}] jobs={row['nb_jobs']}, finished={row['nb_jobs_finished']}, "
            f"success={row['nb_jobs_success']}, killed={row['nb_jobs_killed']}, "
            f"makespan={row['makespan']}, mean_waiting_time={row['mean_waiting_time']}",
            err=True,
        )


def _roles(maps: tuple[str, ...]) -> dict[str, str]:
    roles: dict[str, str] = {}
    for text in maps:
        hosts, separator, role = text.rpartition(":")
        if not separator or not all(hosts.split(",")):
            raise OptionsError(f"--add-role-to-hosts {text!r}, expected HOST1,HOST2:ROLE")
        if role not in _ROLES:
            raise OptionsError(f"--add-role-to-hosts {text!r}: no role {role!r}; {suggest(role, _ROLES)}")
        roles |= dict.fromkeys(hosts.split(","), role)
    return roles


def _execution_context(given: dict[str, Any]) -> str:
    return json.dumps(
        {
            "socket_endpoint": given["socket_endpoint"],
            "redis_enabled": False,
            "redis_hostname": given["redis_hostname"],
            "redis_port": given["redis_port"],
            "redis_prefix": given["redis_prefix"],
            "export_prefix": given["export"],
            "external_scheduler": True,
        }
    )
