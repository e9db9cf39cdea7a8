"""Work spread over processes: local ones, or a Ray cluster, behind one face."""

from hdrl.distributed.tasks import WorkerDied, check_executor, default_workers, run_tasks

__all__ = ["WorkerDied", "check_executor", "default_workers", "run_tasks"]
