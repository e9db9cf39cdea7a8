"""From pipelines, a machine and a policy to a Trace."""
