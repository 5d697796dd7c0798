"""What to try first about a bottleneck, in the words of the framework that trains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from leadline.analysis.trees import FRAMEWORKS as TREES
from leadline.records.names import OTHER, OVERHEAD

INPUT, COMPUTE, COMMUNICATION, HOST, MEMORY = "input", "compute", "communication", "host", "memory"
"""The kinds of a bottleneck."""
OVERLOADED: Final = (
    "fewer processes on this machine, or fewer threads than cores, since more workers need free processors"
)
"""Comes first where the machine is overloaded, whatever else takes the time."""
SCORING: Final = "fewer, smaller evaluation sets or fewer metrics: all of them are scored after each round"
"""For boosted trees that spend their time scoring evaluation sets."""

_TORCH: Final = {
    INPUT: "more num_workers and persistent_workers=True in the DataLoader, then cheaper or cached preprocessing",
    "host wait": "reading ahead: torch.utils.data.DataLoader with num_workers, or a thread that prefetches batches",
    "host": "torch.utils.data.DataLoader with num_workers, then cheaper or cached preprocessing; py-spy shows them",
    "blocked": "py-spy or leadline profile on what that phase waits for: locks, files, the network, other processes",
    OVERHEAD: "--preset light, fewer rules or a smaller --budget; longer runs have a smaller share",
    COMMUNICATION: "gradient accumulation with no_sync(), larger buckets (bucket_cap_mb) or fewer, larger collectives",
    COMPUTE: "mixed precision (torch.autocast) and torch.compile, then a larger batch or a faster device",
    MEMORY: "float() or detach() what is kept from step to step, then a smaller batch or activation checkpointing",
    "straggler": "what is different on that rank: its node, device, data and what only it does",
    "copy": "pin_memory=True and .to(device, non_blocking=True)",
    "checkpoint": "saving less often, or asynchronously (torch.distributed.checkpoint.async_save)",
    OTHER: "py-spy or leadline profile on what the loop does between its phases: logging, .item(), metrics, Python",
    "idle": "torch.compile or CUDA graphs, a larger batch, and no .item() in the loop: the GPU waits for Python",
}
_COMPILED: Final = "a longer run, since what captures is compiled once; fewer rules and --preset light compile less"
_CALLBACKS: Final = "cheaper or less frequent metrics and callbacks: they run after each round"
_TREES: Final = {
    COMPUTE: "all cores (nthread) or a GPU (device='cuda'), then a smaller max_bin or max_depth, or subsample below 1",
    **dict.fromkeys((INPUT, "host", "host wait", "blocked", "copy", "idle", OTHER), _CALLBACKS),
    COMMUNICATION: "fewer workers with more cores each: histograms are exchanged at each level of a tree",
    MEMORY: "32-bit data, a smaller max_bin, and a QuantileDMatrix (XGBoost)",
    "checkpoint": "saving less often",
}
_OTHERS: Final[Mapping[str, Mapping[str, str]]] = {
    "tensorflow": {
        OVERHEAD: _COMPILED,
        INPUT: "prefetch(tf.data.AUTOTUNE) and map(…, num_parallel_calls=tf.data.AUTOTUNE), then cache()",
        "host wait": "reading ahead: a tf.data.Dataset with prefetch(tf.data.AUTOTUNE)",
        "host": "a tf.data.Dataset with parallel map and prefetch, then cheaper or cached preprocessing",
        COMMUNICATION: "a larger batch per replica, or gradient_accumulation_steps: fewer, larger collectives",
        COMPUTE: "mixed precision (keras.mixed_precision) and jit_compile=True, then a larger batch or a faster device",
        MEMORY: "float() or numpy() of what is kept from step to step, then a smaller batch",
        "copy": "a tf.data.Dataset whose last step is prefetch(tf.data.AUTOTUNE)",
        "checkpoint": "saving less often, or asynchronously (tf.train.CheckpointOptions(enable_async=True))",
        OTHER: "py-spy or leadline profile on what runs between the steps: callbacks, logging, metrics, Python",
        "idle": "jit_compile=True, steps_per_execution and a larger batch: the GPU waits for Python",
    },
    "jax": {
        OVERHEAD: _COMPILED,
        INPUT: "a loader with workers that prefetches batches (grain, torch.utils.data), then cached preprocessing",
        "host wait": "reading ahead: a loader with workers (grain, torch.utils.data), or a thread that prefetches",
        "host": "a loader with workers (grain, torch.utils.data), then cheaper preprocessing; py-spy shows it",
        COMMUNICATION: "gradient accumulation or another sharding: fewer, larger collectives",
        COMPUTE: "bfloat16, then a larger batch or a faster device",
        MEMORY: "float() of what is kept from step to step, then a smaller batch or jax.checkpoint",
        "copy": "jax.device_put of the next batch while the current one is computed",
        "checkpoint": "saving less often, or asynchronously (orbax.checkpoint.AsyncCheckpointer)",
        OTHER: "py-spy or leadline profile on what runs between the steps: logging, float() of losses, metrics",
        "idle": "lax.scan over several steps, a larger batch, and no float() in the loop: the GPU waits for Python",
    },
    "mxnet": {
        INPUT: "more num_workers in gluon.data.DataLoader, then cheaper or cached preprocessing",
        "host wait": "reading ahead: gluon.data.DataLoader with num_workers, or a thread that prefetches batches",
        "host": "gluon.data.DataLoader with num_workers, then cheaper or cached preprocessing; py-spy shows them",
        COMMUNICATION: "a larger batch per worker, or compression_params of gluon.Trainer",
        COMPUTE: "hybridize() and mixed precision (mxnet.contrib.amp), then a larger batch or a faster device",
        MEMORY: "asscalar() of what is kept from step to step, then a smaller batch",
        "copy": "pin_memory=True in gluon.data.DataLoader",
        "checkpoint": "saving less often",
        OTHER: "py-spy or leadline profile on what the loop does between its phases: logging, asnumpy(), metrics",
        "idle": "hybridize(static_alloc=True), a larger batch, and no asnumpy() in the loop: the GPU waits for Python",
    },
    **dict.fromkeys(TREES, _TREES),
}


def suggestions(framework: str) -> Mapping[str, str]:
    """Return what to try first, by the kind of a bottleneck or a phase.

    Args:
        framework: Its name, with which a version may follow; another one is taken for PyTorch.
    """
    own = next((tries for name, tries in _OTHERS.items() if framework.startswith(name)), {})
    return {**_TORCH, **own}
