"""Good files to start from, of every kind that hdrl reads, and Python files with mistakes."""

from __future__ import annotations

import itertools
import json
import shutil
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

from hdrl.batch import read_platform, write_simgrid
from hdrl.settings.batch.site_rules.conf import read_conf
from hdrl.settings.batch.site_rules.machine import platform_of
from hdrl.settings.gpu.loads.gavel_jobs import TEMPLATES
from hdrl.site import ImportChoices, import_site
from hdrl.site.ab import PlanChoices, plan_ab

ROOT = Path(__file__).parents[2]

SWF = """\
; Version: 2.2
; UnixStartTime: 0
; MaxProcs: 4
1 0 0 10 2 -1 -1 2 20 -1 1 1 1 1 1 -1 -1 -1
2 5 0 20 1 -1 -1 1 30 -1 1 2 1 1 1 -1 -1 -1
3 6 0 30 4 -1 -1 4 40 -1 1 1 1 1 1 -1 -1 -1
4 9 2 5 3 5 -1 3 5 2000 0 1 1 2 1 -1 -1 -1
"""
JOBS = {
    "nb_res": 4,
    "jobs": [
        {"id": "1", "subtime": 0, "walltime": 20, "res": 2, "profile": "work"},
        {"id": "2", "subtime": 3.5, "res": 1, "profile": "both"},
    ],
    "profiles": {
        "work": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0},
        "wait": {"type": "delay", "delay": 4},
        "both": {"type": "composed", "repeat": 2, "seq": ["work", "wait"]},
    },
}
BATCH = {
    "seed": 3,
    "runs": 1,
    "platform_file_path": "learning",
    "workload_file_path": "jobs.swf",
    "nb_jobs": 4,
    "workload": {"memory": "none", "bandwidth": "none", "oversized": "drop"},
    "pybatsim": {"agent": {"type": "CLASSIC", "policy_pair": "first-high_gflops"}, "env": {"objective": "makespan"}},
}
TRAINING: dict[str, Any] = {
    "seed": 3,
    "platform_file_path": "homogeneous:4",
    "workload_file_path": "jobs.swf",
    "learning": {
        "algorithm": "ppo",
        "environment": "job_pick",
        "n_envs": 2,
        "iterations": 1,
        "episodes": {"n_jobs": 2},
        "settings": {"n_steps": 4},
    },
}
IMPORTING = {**TRAINING, "learning": {**TRAINING["learning"], "arguments": {"max_jobs": 6}}}
GPU = {
    "setting": "gpu",
    "platform": "drl-gpu",
    "workload": "poisson",
    "nb_jobs": 6,
    "agent": {"type": "CLASSIC", "policy": "fifo"},
}
GPU_ADAPTING = {
    **GPU,
    "load": {"adapting": {"values": "values.json"}},
    "agent": {"type": "CLASSIC", "policy": "fifo+promise"},
}
VALUES = {
    "jobs": [
        {
            "name": "small",
            "rows": [
                {
                    "actions": [action],
                    "decisions": [0.3],
                    "shares": [0, 0.3, 1],
                    "draws": [[0.1, 0.2, 0.6 + action]] * 2,
                }
                for action in range(2)
            ],
        }
    ]
}
PIPELINES = {
    "setting": "pipelines",
    "platform": "1cpu+1gpu",
    "workload": "generated",
    "nb_jobs": 20,
    "load": {"model": {"utilization": 0.6}},
    "agent": {"type": "CLASSIC", "policy": "edf"},
}
PIPELINE_SET = {
    "pipelines": [
        {
            "name": "lanes",
            "kernels": [{"name": "a", "cpu_us": 5000, "gpu_us": 600}, {"name": "b", "cpu_us": 500, "gpu_us": 610}],
            "edges": [[0, 1]],
            "groups": [{"kernels": [0, 1], "cpu_us": 5200, "gpu_us": 1000}],
            "periods_us": [34000, 68000],
        }
    ]
}
PIPELINES_OF_FILE = {**PIPELINES, "workload": "set.json", "load": {"horizon_ms": 200}}
GAVEL = {**GPU, "workload": "gavel", "load": {"throughputs": "throughputs.json"}}
PIPELINES_OF_PERIODS = {**PIPELINES, "workload": "periods.txt", "load": {"horizon_ms": 200, "times_in": "ms"}}
SITE_DATES = "2025-01-01T00:00:00|2025-01-01T00:00:00|2025-01-01T00:00:10|2025-01-01T00:01:00"
SACCT = f"""\
JobID|User|Account|Partition|Submit|Eligible|Start|End|TimelimitRaw|AllocCPUS|ReqMem|AllocTRES|State|NodeList
1|ann|bio|main|{SITE_DATES}|2|4|1Gc|cpu=4,gres/gpu=1,node=1|NODE_FAIL|n1
1|ann|bio|main|{SITE_DATES.replace("T00:00:00", "T00:02:00").replace(":10", ":50")}|2|4|1G|cpu=4,node=1|COMPLETED|n1
2_1|bob|bio|main|{SITE_DATES}|UNLIMITED|2|1Gn|cpu=2,node=2|COMPLETED|n[1-2]
2_[2-9%3]|bob|bio|main|2025-01-01T00:00:00|Unknown|Unknown|Unknown|5|0||||PENDING|
3+0|eve|phys|gpu|{SITE_DATES}|5|1||cpu=1|FAILED|n2
3+1|eve|phys|main|{SITE_DATES}|5|1||cpu=1|FAILED|n2
"""
RULED_SWF = SWF.replace(
    "; MaxProcs: 4", "; MaxProcs: 8\n; Partition: 1 main\n; Queue: 1 high\n; SiteColumns: ruled.site.csv"
)
RULED_COLUMNS = """\
job,partitions,exclusive,features,account,nodes,nice,array,array_limit,begin_s,held_until_s,cancelled_s,dependencies,think_s
1,"main,low",,,phys,1,5,,,,,,,
2,,1,big,,,,0,1,1,2.5,,,
3,low,,,,2,,0,1,,,30,afterany:1,2.5
4,,,,,,,,,,,,"afterok:2,after:1+1",
"""
RULED_SITE = {
    "name": "ruled",
    "nodes": [{"names": "n[1-2]", "cores": 4, "memory_mib": 8000, "gpus": 1, "features": ["big"]}],
    "partitions": {
        "main": {"is_default": True, "max_time_s": 6000, "tier": 2},
        "low": {"nodes": "n2", "preempt_mode": "requeue", "grace_s": 5},
    },
    "scheduler": {
        "SchedulerParameters": "bf_interval=20,bf_busy_nodes",
        "PreemptType": "preempt/qos",
        "PreemptMode": "suspend,gang",
        "PreemptExemptTime": "00:01:00",
        "PriorityWeightAge": "10",
    },
    "qos": {"high": {"Priority": "9", "Preempt": "low", "MaxWall": "01:00:00"}, "low": {"GraceTime": "00:00:05"}},
    "accounts": {"root": {}, "phys": {"ParentName": "root", "Share": "3", "GrpTRES": "cpu=6"}},
    "users": {"phys": {"ann": {"MaxJobs": "2", "Share": "4", "GrpTRES": "gres/gpu=1"}}},
    "downtimes": [{"start": "1970-01-01T00:01:00Z", "end": "1970-01-01T00:02:00Z", "nodes": "n1", "kind": "failure"}],
    "restart_s": 10,
}
RULED_RUN = {
    **BATCH,
    "platform_file_path": "ruled_platform.json",
    "workload_file_path": "ruled.swf",
    "pybatsim": {"agent": {"type": "CLASSIC", "policy_pair": "slurm"}},
}
QOS = """\
Name|Priority|GraceTime|Preempt|PreemptExemptTime|PreemptMode|MaxWall|GrpTRES|GrpJobs|MaxTRESPU|MaxJobsPU|MaxSubmitPU
normal|0|00:00:00||00:05:00|cluster|1-00:00:00|cpu=64|5|cpu=8|2|4
high|10|00:01:00|normal||requeue||||||
"""
ACCOUNTS = """\
Account|ParentName|User|Partition|Share|GrpJobs|GrpTRES|MaxJobs|MaxTRES|MaxWall
root||||1|||||
bio|root|||3|4|cpu=9,gres/gpu=2||cpu=4|
bio||ann||2||cpu=4|2||01:00:00
bio||ann|main|1|||1||
"""
RESERVATIONS = """\
ReservationName=m StartTime=2026-01-01T01:00:00 EndTime=2026-01-01T02:00:00 Duration=01:00:00
   Nodes=n1 NodeCnt=1 CoreCnt=4 Features=(null) PartitionName=main Flags=MAINT,WEEKDAY,SPEC_NODES

ReservationName=class StartTime=2026-01-01T01:00:00 EndTime=2026-01-01T02:00:00
   Nodes=n1 Flags=DAILY
"""
SLURM_CONF = """\
ClusterName=tiny
SelectTypeParameters=CR_Core_Memory
NodeName=DEFAULT CPUs=4 RealMemory=8000
NodeName=n[1-2] Sockets=1 Gres=gpu:a100:2 # two
PartitionName=main Nodes=ALL MaxTime=1-00:00:00 PriorityTier=2
PartitionName=gpu Nodes=n[1-2] MaxTime=UNLIMITED
"""
SITE = {
    "name": "tiny",
    "nodes": [{"names": "n[1-2]", "cores": 4, "memory_mib": 8000, "gpus": 2}],
    "partitions": {"main": {"nodes": "n[1-2]", "max_time_s": 600.0}},
    "scheduler": {"SelectTypeParameters": "CR_Core"},
}
PBS = """\
01/01/2025 00:00:00;Q;1.s;queue=batch
01/01/2025 00:01:10;E;2.s;user=ann queue=batch ctime=100 etime=105 start=110 end=170 exec_host=n1/0*2+n2/0*2 \
exec_vnode=(n1:ncpus=2)+(n2:ncpus=2) Resource_List.ncpus=4 Resource_List.mem=4gb Resource_List.walltime=00:10:00
01/01/2025 00:01:10;E;3[2].s;user=bob queue=batch ctime=100 etime=105 start=110 end=120 Resource_List.ncpus=1
"""
LSF = (
    '"JOB_FINISH" "10.1" 1527327585 7610 1 3 1 1527326745 0 0 1527326746 "ann" "normal" "" "" "" "h" "/w" "" "" "" "f" '
    '1 "pac" 2 "n1" "3*n2" 64 60.0 "j" "sleep 1" ' + " ".join(["-1"] * 19) + ' "" "p" 0 1 "" "" 2 2048 0 ""\n'
)
JOBCOMP = (
    "JobId=2 UserId=ann(7) Name=j JobState=COMPLETED Partition=wide TimeLimit=10 StartTime=2026-01-01T00:04:09 "
    "EndTime=2026-01-01T00:08:52 NodeList=n[5-8] NodeCnt=4 ProcCnt=32 Tres=cpu=32,gres/gpu=3 "
    "SubmitTime=2026-01-01T00:04:00 EligibleTime=2026-01-01T00:04:08\n"
)
KUBERNETES = {
    "kind": "List",
    "items": [
        {"kind": "Node", "metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "8", "nvidia.com/gpu": "4"}}},
        {
            "kind": "Pod",
            "metadata": {"name": "p", "creationTimestamp": "2025-01-01T00:00:00Z", "annotations": {}},
            "spec": {"containers": [{"resources": {"requests": {"cpu": "500m", "nvidia.com/gpu": 1}}}]},
            "status": {
                "phase": "Succeeded",
                "startTime": "2025-01-01T00:00:05Z",
                "containerStatuses": [{"state": {"terminated": {"finishedAt": "2025-01-01T00:01:05Z"}}}],
            },
        },
    ],
}
TABLE_MAPPING = {
    "columns": {"id": "n", "submit": "in", "start": "go", "run": "took", "cores": "c", "state": "s"},
    "dates": "%d.%m.%Y %H:%M",
    "durations": "min",
    "states": {"ok": "done"},
}
TABLE = "n,in,go,took,c,s\nA,01.02.2025 10:00,01.02.2025 10:05,3,4,ok\nB,01.02.2025 10:00,,,4,pending\n"
GPU_SWEEP = {
    "setting": "gpu",
    "platform": "drl-gpu",
    "loads": [0.5],
    "windows": {"length": 5, "count": 2},
    "candidates": ["fifo", "sjf+fgd"],
    "baseline": "fifo",
}
SWEEP = {
    "platform": "homogeneous:4",
    "workloads": ["jobs.swf"],
    "candidates": ["fcfs+easy", "sjf+easy"],
    "baseline": "fcfs+easy",
    "windows": {"length": 2, "count": 2},
    "seeds": 1,
    "seed": 1,
    "metrics": ["mean_wait_s"],
}
DRL_CSV = "arrival_time,runtime,gpus,priority\n1,50,1,1\n2,60,2,0.5\n3,5,8,1\n"
SIA_CSV = """\
timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66,1,66.0,a
2017-10-09 07:02:55,90,4,360.0,b
"""
HELIOS_CSV = """\
job_id,user,gpu_num,state,submit_time,duration
a,u,8,COMPLETED,2020-04-01 00:00:10+08:00,50
b,v,1,FAILED,2020-04-01 00:00:00,5
"""
OPENB_CSV = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p1,4000,1024,1,500,,LS,Succeeded,0,100,3
p2,6000,2048,2,1000,T4,BE,Succeeded,5,60,
"""
PAI_CSV = """\
j1,tf,1,Terminated,100.0,160.0,600.0,29.3,25.0,T4
j2,w,4,Terminated,90,100,600,29,50,MISC
"""
GOOGLE_2011_CSV = """\
0,,7,0,,0,u,2,9,0.25,0.1,0,0
5000000,,7,0,m,1,u,2,9,0.25,0.1,0,0
9000000,,7,0,m,4,u,2,9,0.25,0.1,0,0
"""
GOOGLE_2019_CSV = """\
time,type,collection_id,priority,instance_index,resource_request
0,SUBMIT,1,100,0,"{'cpus': 0.5, 'memory': 0.1}"
1000000,SCHEDULE,1,100,0,"{'cpus': 0.5, 'memory': 0.1}"
3000000,FINISH,1,100,0,"{'cpus': 0.5, 'memory': 0.1}"
"""
NODES_CSV = "sn,cpu_milli,memory_mib,gpu,model\na,64000,262144,8,A100\nb,96000,393216,4,T4\n"
PHILLY = [
    {
        "status": "Pass",
        "vc": "x",
        "jobid": "j",
        "submitted_time": "2017-10-01 00:00:30",
        "user": "u",
        "attempts": [
            {
                "start_time": "2017-10-01 00:01:00",
                "end_time": "2017-10-01 00:02:00",
                "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}],
            }
        ],
    }
]
THROUGHPUTS = {
    kind: {f"('{job}', 1)": {"null": 2.0, "('ResNet-18 (batch size 16)', 1)": [1.0, 1.0]} for job, _ in TEMPLATES}
    for kind in ("A100", "V100", "T4", "RTX4090", "v100", "p100", "k80")
}
ADAPTING = {
    "setting": "adaptation",
    "platform": "counted",
    "workload": "digits_*",
    "nb_jobs": 20,
    "agent": {"policy": "thompson"},
}
ADAPTING_TABLE = {
    "model": "convnet2",
    "scenario": "made",
    "device": "made",
    "budget_s": 100.0,
    "rungs": [0.5],
    "others": {"linear-decay": [[0.7, 0.7]] * 2},
    "rows": [
        {
            "actions": list(actions),
            "timeleft_s": [60.0],
            "before": [[0.2]] * 2,
            "draws": [[0.5, 0.6], [0.4, 0.5]],
            "curves": [[0.3]] * 2,
        }
        for actions in itertools.product(range(4))
    ],
}
MACHINE = {"name": "car", "ecus": [{"cpu": 1, "gpu": 1}, {"cpu": 2}]}
GRAPH = "3 2\na:5,0.6\nb:0.5,0.61\nc:1,2\n0 1\n1 2\n0,1:5.2,1\n"
PERIODS = "lanes.graph=[34,68]\n"
IRMASIM = {
    "seed": 1,
    "platform_file": "nodes.json",
    "platform_name": "two",
    "workload_file": "ops.json",
    "workload_manager": {"type": "Minimal", "job_selection": "first", "resource_selection": "high_gflops"},
    "compatibility": "irmasim",
}
IRMASIM_LEARNING = {
    **IRMASIM,
    "workload_manager": {
        "type": "Policy",
        "environment": {"objective": "makespan", "actions": {"selection": [{"first": ["high_gflops", "low_power"]}]}},
        "agent": {"name": "ActorCritic", "gamma": 0.9, "lr": 0.1, "hidden": 4, "phase": "train"},
    },
    "trajectory_length": "3",
    "trajectory_origin": "random",
    "learning": {"iterations": 1, "tensorboard": False},
}
_PROCESSOR = {
    **{"cores": 4, "clock_rate": 3.4, "dpflops_per_cycle": 1, "static_power": 6.1, "dynamic_power": 5.6},
    **{"min_power": 0.05, "b": -1.85e-05, "c": 32000, "da": 1.75, "db": 2000, "dc": 50000, "dd": 6000},
}
IRMASIM_NODES = {
    "platform": {"two": {"clusters": [{"nodes": [{"type": "n", "number": 2}]}], "model_name": "modelV1"}},
    "node": {"n": {"processors": [{"type": "p"}]}},
    "processor": {"p": _PROCESSOR},
}
IRMASIM_JOBS = {
    "jobs": [{"subtime": 0.01 * n, "res": 1, "profile": "A"} for n in range(4)],
    "profiles": {"A": {"req_ops": 21_000_000_000, "req_time": 5, "mem": 1000, "mem_vol": 1000000}},
}
IRMASIM_CSV = "id,subtime,req_ops,ipc,req_time,mem,mem_vol,ntasks\n1,0,1e10,1,5,10,100,2\n2,0.5,2e10,1,9,10,100,1\n"
AGENTS = [
    *(
        "",
        "policy = 3",
        "def policy(): return []",
        "def policy(view, more): return []",
        "async def policy(view): return []",
    ),
    *("def policy(view): return None", "def policy(view): return [7]", "def policy(view):\n    raise SystemExit(0)"),
    *("import nosuchmodule", "def policy(view:", "exec('1/0')", "class Agent: pass"),
    *(
        "def priority(job): return 1",
        "def priority(job, now_s): return 'x'",
        "def priority(job, now_s): return float('nan')",
    ),
    *(
        "def policy(view):\n    while view.no_such: pass",
        "def policy(view):\n    return view.waiting",
        "policy = print",
    ),
    *("from hdrl.batch import Easy\npolicy = Easy(3)", "SETTING = 5", "\x00", "def policy(view):\n    yield 1"),
    *("from hdrl.batch import Start\ndef policy(view): return [Start(99, [0])]", "import os; os._exit(0)"),
    *(
        "from hdrl.batch import CallAt\ndef policy(view): return [CallAt(float('nan'))]",
        "import sys; sys.exit('x' * 9999)",
    ),
    *("import sys\nsys.stdout.close()", "class Agent:\n    def __init__(self, *a): raise ValueError(chr(27))"),
]


def write_models(folder: Path) -> None:
    """Write weights of another library, ``weights.pt``, and what evolution has found, ``evolved.pt``, into a folder.

    Parameters
    ----------
    folder
        The folder, which exists.
    """
    import numpy as np
    import torch
    from gymnasium import spaces

    from hdrl.agents.cma_es import CMAES
    from hdrl.learn.checkpoint import checkpoint_of, save_checkpoint

    n_numbers = 6 * 8  # jobs that an agent of IMPORTING sees, and what it sees of each
    weights = {
        f"{name}.{number}.{key}": value
        for name, n_outputs in (("actor", 6), ("critic", 1))
        for number, layer in ((0, torch.nn.Linear(n_numbers, 4)), (2, torch.nn.Linear(4, n_outputs)))
        for key, value in layer.state_dict().items()
    }
    torch.save(weights, folder / "weights.pt")
    agent = CMAES(spaces.Box(0, 1, (1,)), spaces.Box(-9, 9, (2,)))
    agent.load_weights({"weights": np.array([1.0, 2.0])})
    notes = {"trained_on": {"workload_sha256": "a"}, "seed": 1}
    save_checkpoint(folder / "evolved.pt", checkpoint_of(agent, "cma_es", environment={"id": "x"}, notes=notes))


def write_good_files(folder: Path) -> None:
    """Write all good files into a folder.

    Parameters
    ----------
    folder
        The folder, which exists.
    """
    texts = {
        **{"jobs.swf": SWF, "nodes.csv": NODES_CSV, "drl.csv": DRL_CSV, "sia.csv": SIA_CSV, "helios.csv": HELIOS_CSV},
        **{"openb.csv": OPENB_CSV, "pai.csv": PAI_CSV, "google_2011.csv": GOOGLE_2011_CSV},
        **{"sacct.txt": SACCT, "slurm.conf": SLURM_CONF, "pbs.txt": PBS, "lsf.txt": LSF, "jobcomp.txt": JOBCOMP},
        **{"table.csv": TABLE, "ruled.swf": RULED_SWF, "ruled.site.csv": RULED_COLUMNS},
        **{"qos.txt": QOS, "accounts.txt": ACCOUNTS, "res.txt": RESERVATIONS},
        **{"google_2019.csv": GOOGLE_2019_CSV, "ops.csv": IRMASIM_CSV, "lanes.graph": GRAPH, "periods.txt": PERIODS},
    }
    values: dict[str, Any] = {
        **{"jobs": JOBS, "batch": BATCH, "training": TRAINING, "importing": IMPORTING, "sweep": SWEEP},
        **{"gpu": GPU, "gpu_sweep": GPU_SWEEP, "gpu_adapting": GPU_ADAPTING, "values": VALUES, "philly": PHILLY},
        **{"gavel": GAVEL, "throughputs": THROUGHPUTS, "adapting": ADAPTING, "table": ADAPTING_TABLE},
        **{"pipelines": PIPELINES, "set": PIPELINE_SET, "of_file": PIPELINES_OF_FILE, "machine": MACHINE},
        **{"of_periods": PIPELINES_OF_PERIODS, "irmasim": IRMASIM, "irmasim_learning": IRMASIM_LEARNING},
        **{"nodes": IRMASIM_NODES, "ops": IRMASIM_JOBS},
        **{"ruled_site": RULED_SITE, "ruled_run": RULED_RUN},
        **{"site": SITE, "kubernetes": KUBERNETES, "mapping": TABLE_MAPPING},
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    for name, value in values.items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    shutil.copy(ROOT / "platforms" / "learning.json", folder / "platform.json")
    shutil.copy(ROOT / "hdrl" / "settings" / "gpu" / "data" / "drl-gpu.json", folder / "cluster.json")
    shutil.copy(ROOT / "hdrl" / "settings" / "batch" / "predict" / "data" / "learned.json", folder / "predictor.json")
    write_simgrid(read_platform("learning"), folder / "platform.xml")
    ruled = platform_of(read_conf(folder / "ruled_site.json")) | {"site_rules": "ruled_site.json"}
    (folder / "ruled_platform.json").write_text(json.dumps(ruled))
    with tempfile.TemporaryDirectory() as made:
        choices = ImportChoices(confs=(folder / "slurm.conf",))
        import_site([folder / "sacct.txt"], Path(made) / "site", choices)
        shutil.copy(Path(made) / "site" / "import.json", folder)
    plan = plan_ab(PlanChoices(("old", "new"), date(2025, 1, 6), 4))
    (folder / "plan.json").write_text(plan.model_dump_json())
