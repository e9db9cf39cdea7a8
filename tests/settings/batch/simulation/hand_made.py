"""Traces put together by hand, for the tests of the files of a run."""

import numpy as np
from procset import ProcSet

from hdrl.settings.batch.platform.model import Platform
from hdrl.settings.batch.simulation.trace import (
    ENERGY_DTYPE,
    MACHINE_STATE_DTYPE,
    PSTATE_CHANGE_DTYPE,
    RECORD_DTYPE,
    BatchTrace,
    JobState,
    OverUtilization,
)
from hdrl.settings.batch.workload.model import JOB_DTYPE, STEP_DTYPE, Workload


def make_platform(n_cores, n_processors=1):
    of_processor = np.arange(n_cores, dtype=np.int32) * n_processors // n_cores
    first = np.searchsorted(of_processor, np.arange(n_processors + 1)).astype(np.int32)
    ones, per_state = np.ones(n_processors), np.ones((n_cores, 4))
    ints = np.zeros(n_cores, np.int32)
    return Platform(
        name="hand-made",
        clusters=(),
        global_link=None,
        rules=None,
        core_names=tuple(map(str, range(n_cores))),
        cluster_of_node=np.zeros(1, np.int32),
        node_of_processor=np.zeros(n_processors, np.int32),
        processor_of_core=of_processor,
        first_core_of_processor=first,
        first_processor_of_node=np.array([0, n_processors], np.int32),
        memory_mib=np.ones(1),
        bandwidth_gbps=ones,
        peak_flops=ones,
        peak_power_w=ones,
        speed_flops=per_state,
        idle_w=per_state,
        epsilon_w=per_state,
        full_w=per_state,
        initial_pstate=ints,
        host_cores=ints + 1,
        message_s=ints * 1.0,
        message_latency_s=ints * 1.0,
    )


def make_trace(rows, *, n_cores=4, n_processors=2, **changes):
    """Build a trace.

    A row is ``(id, source, profile, submit, cores, walltime, state, start, run, allocation, energy)``.
    """
    n_jobs = len(rows)
    ids, sources, profiles = ([row[k] for row in rows] for k in range(3))
    source_names, profile_names = sorted({*sources, "w0"}), sorted(set(profiles))
    jobs, records = np.zeros(n_jobs, JOB_DTYPE), np.zeros(n_jobs, RECORD_DTYPE)
    jobs["source"] = [source_names.index(name) for name in sources]
    jobs["profile"] = [profile_names.index(name) for name in profiles]
    for name, position in (("submit_s", 3), ("cores", 4), ("walltime_s", 5)):
        jobs[name] = [row[position] for row in rows]
    for name, position in (("state", 6), ("start_s", 7), ("run_s", 8), ("energy_j", 10)):
        records[name] = [row[position] for row in rows]
    sets = [list(ProcSet.from_str(row[9])) if row[9] else [] for row in rows]
    records["n_cores"] = [len(cores) for cores in sets]
    records["first_core"] = np.cumsum(records["n_cores"]) - records["n_cores"]
    nothing = np.zeros(0)
    fields = {
        "platform": make_platform(n_cores, n_processors),
        "workload": Workload(
            "hand-made",
            jobs,
            tuple(ids),
            np.zeros(0, STEP_DTYPE),
            np.zeros(len(profile_names) + 1, np.int64),
            tuple(profile_names),
            tuple(source_names),
        ),
        "records": records,
        "completion_order": np.arange(n_jobs),
        "allocated_cores": np.array([core for cores in sets for core in cores], np.int32),
        "machine_states": np.zeros(0, MACHINE_STATE_DTYPE),
        "pstate_changes": np.zeros(0, PSTATE_CHANGE_DTYPE),
        "pstate_cores": np.zeros(0, np.int32),
        "energy": np.zeros(0, ENERGY_DTYPE),
        "overutilization": OverUtilization(nothing, nothing, np.zeros(0, np.int32), nothing, nothing),
        "consumed_j": 0.0,
        "end_s": 0.0,
        "n_decisions": 0,
        "n_grouped_switches": 0,
        "n_machine_switches": 0,
    }
    return BatchTrace(**(fields | changes))


S = JobState
HAND_MADE = [
    ("a", "w0", "p", 1.0, 2, 100.0, S.COMPLETED_SUCCESSFULLY, 1.0, 10.0, "0-1", 40.0),
    ("b", "w1", "q", 3.0, 1, 8.0, S.COMPLETED_WALLTIME_REACHED, 3.0, 8.0, "3", 2.5),
    ("c", "w0", "p", 5.0, 3, -1.0, S.COMPLETED_KILLED, 11.0, 5.0, "0-1 3", 1e6 / 3),
    ("d", "w0", "q", 6.0, 9, -1.0, S.REJECTED, -1.0, -1.0, "", -1.0),
    ("e", "w0", "p", 7.0, 2, -1.0, S.RUNNING, 16.0, -1.0, "1 3", -1.0),
    ("f", "w0", "p", 31.0, 1, -1.0, S.NOT_SUBMITTED, -1.0, -1.0, "", -1.0),
]
JOBS_TEXT = """\
d,w0,q,6.000000,9,-1.000000,0,REJECTED,,,,,,,,,""
a,w0,p,1.000000,2,100.000000,1,COMPLETED_SUCCESSFULLY,1.000000,10.000000,11.000000,0.000000,10.000000,1.000000,0-1,\
40.000000,"x, y"
b,w1,q,3.000000,1,8.000000,0,COMPLETED_WALLTIME_REACHED,3.000000,8.000000,11.000000,0.000000,8.000000,1.000000,3,\
2.500000,""
c,w0,p,5.000000,3,-1.000000,0,COMPLETED_KILLED,11.000000,5.000000,16.000000,6.000000,11.000000,2.200000,0-1 3,\
333333.333333,""
"""


def hand_made_trace():
    """Return the trace whose rows are `HAND_MADE`, and of which every file is known by hand."""
    states = np.array(
        [(4e-10, 0, 0, 0, 2, 2), (81.12547, 1, 2, 3, 4, 5), (1234567.0, 0, 0, 0, 4, 0)], MACHINE_STATE_DTYPE
    )
    changes = np.array([(0, 0, 4, 3), (5e-10, 4, 1, -1), (12.3456789, 5, 3, 1)], PSTATE_CHANGE_DTYPE)
    energy = np.array(
        [(0, 0, b"s", 480), (2, 500, b"p", 480), (2, 500, b"p", 4.5), (4, 1500.5, b"e", 4.5)], ENERGY_DTYPE
    )
    return make_trace(
        HAND_MADE,
        completion_order=np.array([3, 0, 1, 2]),
        machine_states=states,
        pstate_changes=changes,
        pstate_cores=np.array([0, 1, 2, 3, 2, 0, 1, 3], np.int32),
        energy=energy,
        consumed_j=1500.5,
        end_s=21.0000004,
        n_grouped_switches=2,
        n_machine_switches=4,
        metadata={0: "x, y"},
        time_in_state_s={"computing": 43.0, "idle": 17.25},
        info={"simulation_time_s": 0.5, "scheduling_time_s": 0.25},
        overutilization=OverUtilization(
            core_s=np.array([5.0, 11.0]),
            memory_s=np.array([7.0]),
            bandwidth_processor=np.array([1, 0, 1], np.int32),
            bandwidth_start_s=np.array([2.0, 4.0, 12.5]),
            bandwidth_duration_s=np.array([4.0, 0.1, -1.0]),
        ),
    )
