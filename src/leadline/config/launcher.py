"""The name of a distributed job, as all of its nodes find it in what its launcher has set."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Final

_NO_ID: Final = ("", "none")
_TORCHRUN: Final = ("torchrun", "torch.distributed.run")


def job_name(environment: Mapping[str, str], command: Sequence[str], host: str) -> str | None:
    """Return the name that a job has on all of its nodes; None: it runs on one node, or no launcher is known.

    Args:
        environment: The environment of the agent.
        command: The command that it launches.
        host: The host name; that of a pod of an indexed job contains the name of the job.
    """
    name = _slurm(environment) or _open_mpi(environment) or _horovod(environment)
    name = name or _torchrun(environment, command) or _kubernetes(environment, host)
    return re.sub(r"[^\w.-]+", "-", name) if name else None


def _slurm(environment: Mapping[str, str]) -> str | None:
    """Of the processes that ``srun`` starts on several nodes; the batch script itself runs on one."""
    job, step = environment.get("SLURM_JOB_ID"), environment.get("SLURM_STEP_ID")
    is_shared = _number(environment.get("SLURM_STEP_NUM_NODES")) > 1
    return f"slurm-{job}-{step}" if job and step and is_shared else None


def _open_mpi(environment: Mapping[str, str]) -> str | None:
    size, local = (environment.get(f"OMPI_COMM_WORLD_{name}") for name in ("SIZE", "LOCAL_SIZE"))
    job = environment.get("PMIX_NAMESPACE") or environment.get("OMPI_MCA_ess_base_jobid")
    return f"mpi-{job}" if job and _number(size) > _number(local) > 0 else None


def _horovod(environment: Mapping[str, str]) -> str | None:
    """Of processes that ``horovodrun`` starts without MPI; the address at which they meet identifies the job."""
    size, local = (environment.get(f"HOROVOD_{name}") for name in ("SIZE", "LOCAL_SIZE"))
    address, port = (environment.get(f"HOROVOD_GLOO_RENDEZVOUS_{name}") for name in ("ADDR", "PORT"))
    return f"horovod-{address}-{port}" if address and port and _number(size) > _number(local) > 0 else None


def _torchrun(environment: Mapping[str, str], command: Sequence[str]) -> str | None:
    """Of ``torchrun`` as the command, or around it; without an id of the rendezvous, its address identifies the job."""
    if _number(environment.get("GROUP_WORLD_SIZE")) > 1:
        found = environment.get("TORCHELASTIC_RUN_ID"), _address(environment)
    elif any(os.path.basename(word) in _TORCHRUN for word in command):
        nodes = _option(command, "nnodes") or environment.get("PET_NNODES", "")
        if _number(nodes.rpartition(":")[2]) < 2:
            return None
        address = _option(command, "rdzv-endpoint") or _option(command, "master-addr")
        address = address or environment.get("PET_RDZV_ENDPOINT") or _address(environment)
        found = _option(command, "rdzv-id") or environment.get("PET_RDZV_ID"), address
    else:
        return None
    parts = [part for part in found if part and part not in _NO_ID]
    return f"torchrun-{'-'.join(parts)}" if parts else None


def _address(environment: Mapping[str, str]) -> str:
    return ":".join(filter(None, (environment.get("MASTER_ADDR"), environment.get("MASTER_PORT"))))


def _option(command: Sequence[str], name: str) -> str | None:
    """Return the value of an option of ``torchrun``, which takes ``--rdzv-id`` and ``--rdzv_id``."""
    for position, word in enumerate(command):
        option, equals, value = word.partition("=")
        if option.startswith("--") and option[2:].replace("_", "-") == name:
            return value if equals else next(iter(command[position + 1 :]), None)
    return None


def _kubernetes(environment: Mapping[str, str], host: str) -> str | None:
    """Return the name of an indexed Kubernetes job whose pods share a rendezvous address; None: there is none."""
    index = environment.get("JOB_COMPLETION_INDEX")
    is_joint = bool(environment.get("MASTER_ADDR")) and index is not None
    return host.removesuffix(f"-{index}") if is_joint and host.endswith(f"-{index}") else None


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() else 0
