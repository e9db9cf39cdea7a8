"""A real Slurm as a simulator, recorded runs of it, and how far policies are from these."""

from hdrl.slurm.recording import Fidelity, RecordedRun, fidelity, fidelity_text, read_run

__all__ = ["Fidelity", "RecordedRun", "fidelity", "fidelity_text", "read_run"]
