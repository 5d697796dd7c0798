"""Every built-in rule as ``--rule`` options: alone where it comes without parameters, else with some."""

from __future__ import annotations

from leadline.rules.registry import BUILT_IN

OTHER_RUN = "other"
"""The name of the run that ``similar_across_runs`` compares with."""
_GIVEN = {
    "all_zero": "collection_names=gradients",
    "similar_across_runs": f"other_trials={OTHER_RUN}",
    "tensor_variance": "tensor_regex=weight$,max_threshold=1e9",
    "unchanged_tensor": "collection_names=gradients",
}
EVERY_RULE = tuple(f"{name}:{_GIVEN[name]}" if name in _GIVEN else name for name in BUILT_IN)
