"""Names of the files of a deployment."""

DEPLOYMENT, LUA, GROUPS, NOW, STATE, LOG = (
    "deployment.json",
    "job_submit.lua",
    "groups.tsv",
    "now.tsv",
    "state.json",
    "decisions.jsonl",
)
UNIT, PAGE, PROMISED = "hdrl-deploy.service", "README.md", "promised"

UNDONE = "undone"
"""A file of this name stops the daemon and the Lua."""
