"""smdebug's names of the tensors of Keras."""

from __future__ import annotations

import re
from typing import Final

MEAN_LOSS: Final = "metrics/loss"
"""The mean loss of the epoch so far, which Keras counts as a metric; smdebug has only the loss."""
_GRADIENT: Final = "gradient/"
_METRIC: Final = "metrics/"
_LAYER: Final = re.compile(r"(.+)_(input|output)_(\d+)")
_VARIABLES: Final = frozenset({"kernel", "bias", "gamma", "beta", "moving_mean", "moving_variance", "embeddings"})


def smdebug_name(name: str) -> str:
    """Return smdebug's name of a tensor of Keras; as it is where smdebug has none.

    ``sequential/dense/kernel`` is ``dense/weights/dense/kernel:0``, its gradient ``gradients/dense/kernelGrad``,
    ``sequential/dense_output_0`` is ``dense/outputs``, and ``metrics/accuracy`` is ``accuracy``.
    """
    if name.startswith(_METRIC):
        return name.removeprefix(_METRIC)
    if name.startswith(_GRADIENT):
        parts = name.removeprefix(_GRADIENT).split("/")
        return f"gradients/{'/'.join(parts[-2:])}Grad" if len(parts) > 1 else name
    tensor = _LAYER.fullmatch(name)
    if tensor and "/" in tensor[1]:
        layer, side, index = tensor[1].rpartition("/")[2], tensor[2], tensor[3]
        return f"{layer}/{side}s" + (f"_{index}" if index != "0" else "")
    parts = name.split("/")
    if len(parts) > 2 and (parts[-1] in _VARIABLES or parts[-1].endswith("_kernel")):
        return f"{parts[-2]}/weights/{parts[-2]}/{parts[-1]}:0"
    return name
