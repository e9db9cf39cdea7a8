"""From a load, a cluster and a policy to a Trace."""
