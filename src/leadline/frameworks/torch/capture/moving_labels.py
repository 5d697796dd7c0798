"""Labels that a loss moves towards the predictions, as those of a critic whose gradient was not cut off."""

from __future__ import annotations

from leadline.frameworks.torch.capture.autograd_graph import Edge, below_views, inputs_of, kind_of, leaf_ids


def are_moving(predictions: Edge, labels: Edge) -> bool:
    """Return whether labels are something plus a multiple of an output of the predictions' parameters."""
    if _is_bootstrapped(predictions) or not _is_bootstrapped(labels):
        return False
    first, second = leaf_ids(predictions[0]), leaf_ids(labels[0])
    return bool(first and second and first & second)


def _is_bootstrapped(edge: Edge) -> bool:
    for kind in ("AddBackward0", "MulBackward0"):
        edge = below_views(edge)
        if edge[0] is None or kind_of(edge[0]) != kind or len(inputs_of(edge[0])) != 1:
            return False
        edge = inputs_of(edge[0])[0]
    return True
