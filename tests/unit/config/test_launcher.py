"""The names of distributed jobs, from what their launchers set on each node."""

from __future__ import annotations

import pytest

from leadline.config.launcher import job_name

SRUN = {"SLURM_JOB_ID": "17", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_NODES": "2"}
MPI = {"OMPI_COMM_WORLD_SIZE": "16", "OMPI_COMM_WORLD_LOCAL_SIZE": "8", "PMIX_NAMESPACE": "prterun-n0-77@1"}
HOROVOD = {
    "HOROVOD_SIZE": "4",
    "HOROVOD_LOCAL_SIZE": "2",
    "HOROVOD_GLOO_RENDEZVOUS_ADDR": "10.0.0.4",
    "HOROVOD_GLOO_RENDEZVOUS_PORT": "41235",
}
TORCHRUN = ("torchrun", "--nnodes", "2", "--rdzv-id=9", "--rdzv-endpoint", "n0:29500", "train.py")
POD = {"JOB_COMPLETION_INDEX": "1", "MASTER_ADDR": "train-0.train"}


@pytest.mark.parametrize(
    ("environment", "command", "expected"),
    [
        (SRUN, ("train.py",), "slurm-17-0"),
        (SRUN | {"SLURM_STEP_NUM_NODES": "1"}, ("train.py",), None),
        ({"SLURM_JOB_ID": "17", "SLURM_JOB_NUM_NODES": "2"}, ("train.py",), None),  # the batch script runs on one node
        (MPI, ("train.py",), "mpi-prterun-n0-77-1"),
        (MPI | {"OMPI_COMM_WORLD_SIZE": "8"}, ("train.py",), None),
        (HOROVOD, ("train.py",), "horovod-10.0.0.4-41235"),
        (HOROVOD | {"HOROVOD_LOCAL_SIZE": "4"}, ("train.py",), None),
        ({}, TORCHRUN, "torchrun-9-n0-29500"),
        ({}, ("torchrun", "--nproc-per-node", "2", "train.py"), None),
        ({}, ("torchrun", "--nnodes=1:4", "--rdzv_id", "none", "--master_addr=n0", "train.py"), "torchrun-n0"),
        ({}, ("python", "train.py", "--nnodes", "2", "--rdzv-id", "9"), None),
        ({"PET_NNODES": "2", "PET_RDZV_ID": "j"}, ("torchrun", "train.py"), "torchrun-j"),
        ({"GROUP_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "j", "MASTER_ADDR": "n0"}, ("train.py",), "torchrun-j-n0"),
        ({"GROUP_WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": "j"}, ("train.py",), None),
        (POD, ("train.py",), "train"),
        ({"JOB_COMPLETION_INDEX": "1"}, ("train.py",), None),  # pods that search for parameters each train alone
        ({}, ("train.py",), None),
    ],
)
def test_nodes_of_a_job_find_its_name(
    environment: dict[str, str], command: tuple[str, ...], expected: str | None
) -> None:
    assert job_name(environment, command, "train-1") == expected
