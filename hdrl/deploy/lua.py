"""The order of a policy in Lua, for Slurm's plugin ``job_submit/lua``: a number for each job when it is submitted.

What waiting changes is left out: a job has not waited yet when it is submitted. The daemon adds it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hdrl.deploy.files import GROUPS, NOW, UNDONE, Users
from hdrl.deploy.folder import Deployment
from hdrl.deploy.groups import COLUMNS, HEADER
from hdrl.deploy.policy import DeployedPolicy
from hdrl.settings.batch.kernel import codes
from hdrl.settings.batch.kernel.groups import FIRST_INVERSE, FIRST_LOG_RATIO, SHORT_S, SHRINKAGES
from hdrl.settings.batch.site_rules.kernel.site_factor import MIDDLE, MOST, STEP, UNIT


@dataclass(frozen=True, slots=True)
class LuaSite:
    """Data of a site for the Lua.

    Attributes
    ----------
    n_cores, cores_per_node
        Cores of the machine, and of most of its nodes.
    first_s, last_s
        The date that is 0 in the log, and that of its last submission, in seconds since 1970.
    limits_s
        The time that a job of each partition gets that asks for none, in seconds; the empty name: of the default one.
    unlimited_s
        Value in place of a missing limit, in seconds.
    folder
        Folder of the tables on the machine of slurmctld.
    users
        The field of a job that stands for its user.
    """

    n_cores: int
    cores_per_node: int
    first_s: float
    last_s: float
    limits_s: Mapping[str, float]
    unlimited_s: float
    folder: Path
    users: Users = "user_name"

    @classmethod
    def of(cls, deployment: Deployment, folder: Path) -> LuaSite:
        """Return the site of a deployment whose tables lie in a folder."""
        return cls(
            n_cores=deployment.cores,
            cores_per_node=deployment.cores_per_node,
            first_s=deployment.first_s,
            last_s=deployment.last_s,
            limits_s=deployment.limits_s,
            unlimited_s=deployment.unlimited_s,
            folder=folder,
            users=deployment.users,
        )


def quoted_lua(text: str) -> str:
    """Return a string of Lua: all but letters, digits and a few marks are written as numbers of bytes."""

    def escaped(found: re.Match[bytes]) -> bytes:
        return b"".join(b"\\%03d" % byte for byte in found[0])

    return '"' + re.sub(rb"[^A-Za-z0-9_./ -]+", escaped, text.encode("utf-8", "surrogateescape")).decode() + '"'


def number_lua(value: float) -> str:
    """Return a number of Lua."""
    if math.isnan(value):
        raise ValueError("no number")
    if math.isinf(value):
        return "math.huge" if value > 0 else "-math.huge"
    return repr(int(value)) if float(value).is_integer() and abs(value) < 2**53 else repr(float(value))


_KEYS = {
    codes.JOB_FIRST: "date",
    codes.JOB_SHORTEST: "length",
    codes.JOB_LONGEST: "-length",
    codes.JOB_SMALLEST: "cores",
    codes.JOB_LARGEST: "-cores",
    codes.JOB_SAF: "length * cores",
    codes.JOB_LXF: "-1",
    codes.JOB_WFP3: "0",
    codes.JOB_UNICEF: "(cores == 1) and -math.huge or 0",
    codes.JOB_F1: "log10(r) * cores + 870 * log10(math.max(date, 1))",
    codes.JOB_F2: "math.sqrt(r) * cores + 25600 * log10(math.max(date, 1))",
    codes.JOB_F3: "r * cores + 6860000 * log10(math.max(date, 1))",
    codes.JOB_F4: "r * math.sqrt(cores) + 530000 * log10(math.max(date, 1))",
}
"""Job keys of `kernel.keys` of a job that has not waited; ``r`` is the length, at least 1 s."""

_LENGTHS = {
    "requested": ("request", "math.max(request, {short})"),
    "last2": ("user[9] < 2 and request or math.min(request, last_two(user, request))", "math.max(length, {short})"),
    "user_mean": ("user[9] == 0 and request or math.min(request, user[4] / user[1])", "math.max(length, {short})"),
    "geo": ("geo", "harm"),
    "harm": ("harm", "harm"),
}

_HEAD = """\
-- The order of jobs by {policy}, for Slurm's job_submit/lua: README.md beside the original explains it.
-- Reads two tables, runs nothing, refuses no job; a job without data gets no number.
local TABLES, NOW, UNDONE = {tables}, {now}, {undone}
local CORES, NODE, FIRST, YEAR = {cores}, {node}, {first}, {year}
local LIMITS = {limits}
"""

_TABLES = """\
local NONE = {{0, 0, 0, 0, 0, 0, 0, 0, 0}}
local lines, version = {{}}, nil

local function read_tables()  -- again when they have changed
   local file = io.open(TABLES, "r")
   if not file then return end
   local first = file:read("*l")
   if first ~= version and first and first:sub(1, {n_header}) == "{header}" then
      local found = {{}}
      for line in file:lines() do
         local numbers, key = line:match("^(" .. ("[^\\t]+\\t"):rep({n_columns}) .. ")(.*)$")
         if key then found[key] = numbers end
      end
      lines, version = found, first
   end
   file:close()
end

local function group(key)
   local line = lines[key]
   if not line then return NONE end
   local numbers = {{}}
   for text in line:gmatch("[^\\t]+") do numbers[#numbers + 1] = tonumber(text) or 0 end
   return numbers
end
"""

_SHRUNK = """\
local SHRINKAGES = {shrinkages}

local function geo_and_harm(keys, request)
   local ratio, inverse = {ratio}, {inverse}
   for level = 1, #keys do
      local sums, m = group(keys[level]), SHRINKAGES[level]
      ratio = (sums[2] + m * ratio) / (sums[1] + m)
      inverse = (sums[3] + m * inverse) / (sums[1] + m)
   end
   inverse = math.max(inverse, {short} / math.max(request, {short}))
   return math.min(request, request * math.exp(ratio)), {short} / inverse
end
"""

_LAST_TWO = """\
local function last_two(user, otherwise)
   if user[9] == 0 then return otherwise end
   return user[9] == 1 and user[7] or 0.5 * (user[7] + user[8])
end
"""

_HERE = """\
local function here(name)  -- jobs of the user in the system and waiting, free cores: as the daemon saw them last
   local n_here, n_waiting, n_free = 0, 0, 0
   local file = io.open(NOW, "r")
   if not file then return n_here, n_waiting, n_free end
   local date, free = (file:read("*l") or ""):match("^(%d+)\\t(%d+)$")
   if date and os.time() - tonumber(date) < {stale} then
      n_free = tonumber(free)
      for line in file:lines() do
         local one, other, user = line:match("^(%d+)\\t(%d+)\\t(.*)$")
         if user == name then n_here, n_waiting = tonumber(one), tonumber(other) end
      end
   end
   file:close()
   return n_here, n_waiting, n_free
end
"""

STALE_S = 600
"""After how many seconds the script ignores what the daemon wrote."""


def lua_text(policy: DeployedPolicy, site: LuaSite) -> str:
    """Return ``job_submit.lua`` of a policy on a site."""
    return "\n".join(_parts(policy, site))


def _parts(policy: DeployedPolicy, site: LuaSite) -> Iterator[str]:
    limits = ", ".join(f"[{quoted_lua(name)}] = {number_lua(limit)}" for name, limit in sorted(site.limits_s.items()))
    yield _HEAD.format(
        policy=re.sub(r"[^\w.+@~-]", "?", policy.name),
        tables=quoted_lua(str(site.folder / GROUPS)),
        now=quoted_lua(str(site.folder / NOW)),
        undone=quoted_lua(str(site.folder / UNDONE)),
        cores=site.n_cores,
        node=site.cores_per_node,
        first=number_lua(site.last_s if policy.aging_per_s else site.first_s),
        year=number_lua(site.unlimited_s),
        limits=f"{{{limits}}}",
    )
    short = number_lua(SHORT_S)
    sees_groups = policy.is_index or policy.predictor != "requested"
    if sees_groups:
        yield _TABLES.format(header=HEADER, n_header=len(HEADER), n_columns=len(COLUMNS))
    if policy.predictor in ("geo", "harm"):
        yield _SHRUNK.format(
            shrinkages="{" + ", ".join(map(number_lua, SHRINKAGES)) + "}",
            ratio=number_lua(FIRST_LOG_RATIO),
            inverse=number_lua(FIRST_INVERSE),
            short=short,
        )
    if policy.is_index or policy.predictor == "last2":
        yield _LAST_TWO
    if policy.is_index:
        yield _HERE.format(stale=STALE_S)
    yield "local function log10(x) return math.log(x) / math.log(10) end\n"
    yield "\n".join(_function(policy, short, sees_groups=sees_groups)) + "\n"
    yield _TAIL.format(users=site.users, unit=number_lua(UNIT), step=STEP, most=MOST, middle=MIDDLE)


def _function(policy: DeployedPolicy, short: str, *, sees_groups: bool) -> Iterator[str]:
    yield "local function index(name, request, cores, date)  -- the lowest is served first"
    if sees_groups:
        yield "   read_tables()"
        yield '   local seconds, size = string.format("%d", request), string.format("%d", cores)'
        yield '   local tab, by_user = "\\t", "2\\t" .. name'
        yield (
            '   local keys = {"0", "1\\t" .. seconds, by_user, "3\\t" .. name .. tab .. seconds, '
            '"4\\t" .. name .. tab .. seconds .. tab .. size}'
        )
        yield "   local user = group(by_user)"
    if policy.predictor in ("geo", "harm"):
        yield "   local geo, harm = geo_and_harm(keys, request)"
    length, harmonic = _LENGTHS[policy.predictor]
    yield f"   local length = {length}"
    if not policy.is_index:
        yield "   local r = math.max(length, 1)"
        yield f"   return {_KEYS[policy.key]}"
        yield "end"
        return
    yield f"   local harmonic = {harmonic.format(short=short)}"
    yield from _index(policy, short)
    yield "end"


def _index(policy: DeployedPolicy, short: str) -> Iterator[str]:
    """Yield the index of `kernel.keys.weigh_described`, of a job that has not waited."""
    w = [number_lua(weight) for weight in policy.pair.rule.weights]
    yield "   local n_here, n_waiting, n_free = here(name)"
    yield "   local mean = user[9] > 0 and user[5] / user[1] or 0"
    yield "   local spread = user[9] == 0 and 1 or math.sqrt(math.max(0, user[6] / user[1] - mean * mean))"
    yield f"   local z = {w[0]} * (math.log(math.max(request, 1)) - 8) / 2"
    yield f"   z = z + {w[1]} * (math.log(cores / CORES) + 3) / 2"
    yield f"   z = z + {w[2]} * (math.log(math.max(length, 1)) - 6.5) / 2"
    yield f"   z = z + {w[3]} * (math.log(math.max(harmonic, {short})) - 5) / 2"
    yield f"   z = z + {w[4]} * (math.log(math.max(last_two(user, length), 1)) - 6) / 2"
    if not policy.aging_per_s:
        yield f"   z = z - 2 * {w[6]}  -- features of the wait: 0, -2 and 0"
    yield f"   z = z + {w[8]} * user[1] / (user[1] + 2) + {w[9]} * (spread - 1)"
    yield f"   z = z + {w[10]} * math.log(2 + n_here) + {w[11]} * math.log(2 + n_waiting)"
    yield f"   z = z + {w[12]} * (cores <= n_free and 1 or 0)"
    if policy.aging_per_s:
        yield f"   return math.exp(math.min(20, math.max(-20, z))) + {number_lua(policy.aging_per_s)} * date"
    else:
        yield "   return z"


_TAIL = """\
function hdrl_site_factor(job_desc)
   local undone = io.open(UNDONE, "r")
   if undone then undone:close() return nil end
   local minutes, cores, nodes = job_desc.time_limit, job_desc.min_cpus or 1, job_desc.min_nodes
   local limit = LIMITS[(job_desc.partition or ""):match("[^,]*")]  -- of several partitions, the first
   local request = (minutes and minutes < 4294967294 and minutes > 0) and minutes * 60 or limit or YEAR
   if job_desc.shared == 0 and nodes and nodes < 4294967294 then cores = math.max(cores, nodes * NODE) end
   if cores < 1 or cores >= 4294967294 then cores = 1 end
   local date, begin = os.time(), job_desc.begin_time or 0
   if begin > date and begin < 4294967294 then date = begin end
   local x = index(tostring(job_desc.{users}), request, cores, date - FIRST) / {unit}
   local size = math.abs(x)
   local scaled = math.min({most}, {step} * math.log(size + math.sqrt(size * size + 1)))
   if x ~= x then return nil end
   return {middle} - math.floor((x < 0 and -scaled or scaled) + 0.5)
end

function slurm_job_submit(job_desc, part_list, submit_uid)
   local is_fine, number = pcall(hdrl_site_factor, job_desc)
   if is_fine and number then job_desc.site_factor = number end
   if not is_fine then slurm.log_info("hdrl: no number for a job: %s", tostring(number)) end
   return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid) return slurm.SUCCESS end

return slurm.SUCCESS
"""
