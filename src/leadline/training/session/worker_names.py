"""Names of workers, from the ranks that frameworks and launchers tell."""

from __future__ import annotations

import os
from typing import Final

RANKS: Final = (
    "RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
    "HOROVOD_RANK",
    "SLURM_PROCID",
    "JOB_COMPLETION_INDEX",
)
"""Where launchers tell the rank of a process: torchrun, Open MPI, MPICH, horovodrun, Slurm, Kubernetes."""


def is_launched() -> bool:
    """Return whether a launcher tells the rank of this process."""
    return any(name in os.environ for name in RANKS)


def rank_number(rank: int | None) -> int:
    """Return the rank of this process.

    Args:
        rank: What a framework says; None: nothing, so that it is what a launcher says, and 0 without one.
    """
    found = (os.environ[name] for name in RANKS if name in os.environ)
    number = str(rank) if rank is not None else next(found, "0")
    return int(number) if number.isdecimal() else 0


def worker_name(rank: int, incarnation: int) -> str:
    """Return a name that no other process of the run has: rank, restarts of the launcher, incarnation, pid."""
    restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    suffix = f"-r{restarts}" if restarts.isdecimal() and int(restarts) else ""
    suffix += f"-i{incarnation}" if incarnation else ""  # machines, and containers above all, use pids again
    return f"rank{rank}{suffix}-{os.getpid()}"
