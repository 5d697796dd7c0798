"""All built-in rules as ``--rule`` options, with parameters where a rule requires them."""

from __future__ import annotations

from leadline.rules.registry import BUILT_IN

OTHER_RUN = "other"
"""Name of the run that ``similar_across_runs`` compares with."""
_PARAMETERS = {
    "all_zero": "collection_names=gradients",
    "similar_across_runs": f"other_trials={OTHER_RUN}",
    "tensor_variance": "tensor_regex=weight$,max_threshold=1e9",
    "unchanged_tensor": "collection_names=gradients",
}
EVERY_RULE = tuple(f"{name}:{_PARAMETERS[name]}" if name in _PARAMETERS else name for name in BUILT_IN)
