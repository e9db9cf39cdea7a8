"""Names of the files of a deployment, and of what its files and daemon agree on."""

from typing import Literal

DEPLOYMENT, LUA, GROUPS, NOW, STATE, LOG = (
    "deployment.json",
    "job_submit.lua",
    "groups.tsv",
    "now.tsv",
    "state.json",
    "decisions.jsonl",
)
UNIT, PAGE, PROMISED = "hdrl-deploy.service", "README.md", "promised"

Users = Literal["user_name", "account"]
"""Identity of a job's user: its user, or its account, where one user submits for many."""

UNDONE = "undone"
"""A file of this name stops the daemon and the Lua."""
