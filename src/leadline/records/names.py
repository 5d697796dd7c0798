"""The literal names of modes, collections and statuses."""

from __future__ import annotations

import re
from typing import Final, Literal

Mode = Literal["train", "eval", "predict", "global"]
MODES: Final[tuple[str, ...]] = ("train", "eval", "predict", "global")

COLLECTIONS: Final[tuple[str, ...]] = (
    "all",
    "default",
    "losses",
    "metrics",
    "weights",
    "biases",
    "gradients",
    "inputs",
    "outputs",
    "labels",
    "predictions",
    "layers",
    "optimizer_variables",
    "hyperparameters",
    "scalars",
    "gradient_norms",
    "checks",
    "feature_importance",
    "average_shap",
    "full_shap",
    "trees",
)
GRADIENT_NORMS: Final = "gradient_norms"
"""The norm of all gradients of an optimizer, before and after clipping, and whether clipping changed them."""
CHECKS: Final = "checks"
"""What the hooks notice of the loop itself, counted: steps in a row that begin with old gradients, and the like."""
OPTIMIZER_VARIABLES: Final = "optimizer_variables"
"""What an optimizer keeps for each parameter: ``AdamW/exp_avg/fc.weight``."""
FEATURE_IMPORTANCE: Final = "feature_importance"
"""What each feature is to a booster: ``feature_importance/gain/<feature>``, each kind's together 1."""
AVERAGE_SHAP: Final = "average_shap"
"""Mean SHAP value of each feature: ``average_shap/<feature>``."""
TREES: Final = "trees"
"""The table of a boosting round's trees, a tensor a column: ``trees/Gain``."""
SCALAR_COLLECTIONS: Final = frozenset(
    {
        "losses",
        "metrics",
        "scalars",
        "hyperparameters",
        GRADIENT_NORMS,
        CHECKS,
        FEATURE_IMPORTANCE,
        AVERAGE_SHAP,
    }
)
"""Collections whose members are single numbers, stored as the statistic ``value``."""
FEATURE_COLLECTIONS: Final = frozenset({FEATURE_IMPORTANCE, AVERAGE_SHAP})
"""A number for each feature of a booster, worked out where it is captured."""
FULL_SHAP: Final = "full_shap"
"""The SHAP values of all samples, as one tensor."""
TREE_COLLECTIONS: Final = FEATURE_COLLECTIONS | {FULL_SHAP, TREES}
"""What only boosters have."""

Family = Literal["network", "trees", "arrays"]
"""Kinds of frameworks: what has optimizers, boosters, and what the script hands over itself."""

MODULE_COLLECTIONS: Final = frozenset({"inputs", "outputs", "labels", "predictions", "layers"})
"""Collections of what modules take and give; beside them ``<kind>_input`` and ``<kind>_output``."""

ACCURACY: Final = "accuracy"
"""The metric that a classification loss's own call tells; of a second loss ``accuracy_1``."""

PHASES: Final = ("data", "copy", "forward", "backward", "optimizer", "collective", "checkpoint")
"""What a step is made of, as a worker's timeline names it; ``step`` is all of it, ``other`` what is left."""

PRESETS: Final = ("light", "standard", "full", "sagemaker")

_GIVEN: Final = re.compile(r"(.+)_(?:input|output)_\d+")

JobStatus = Literal["Starting", "InProgress", "Completed", "Failed", "Stopping", "Stopped", "Interrupted"]
JOB_STATUSES: Final = ("Starting", "InProgress", "Completed", "Failed", "Stopping", "Stopped", "Interrupted")
JOB_ENDED: Final = frozenset({"Completed", "Failed", "Stopped", "Interrupted"})
RuleStatus = Literal["InProgress", "NoIssuesFound", "IssuesFound", "Error", "Stopping", "Stopped"]
RULE_STATUSES: Final = ("InProgress", "NoIssuesFound", "IssuesFound", "Error", "Stopping", "Stopped")
EVERY_STATUS: Final = "*"
"""In place of a status: every one, and the closings of episodes."""
EVERY_RULE: Final = "*"
"""In place of a rule: every one."""
JOB: Final = "job"
"""In place of a rule: the run itself, with the job's statuses."""


def display_name(owner: type) -> str:
    """The name of a rule's or an action's class as people write it: ``vanishing_gradient``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", owner.__name__).lower()


def is_module_collection(name: str) -> bool:
    """Whether a collection holds what modules take and give: ``layers``, ``relu_output`` …"""
    kind, _, side = name.rpartition("_")
    return name in MODULE_COLLECTIONS or (side in ("input", "output") and kind.isidentifier())


def module_of(name: str) -> str:
    """The dotted name of the module that a tensor belongs to; "" of one that belongs to the model itself.

    ``gradient/block.0.weight``, ``AdamW/exp_avg/block.0.weight`` and ``block.0_output_1`` belong to ``block.0``.
    """
    given = _GIVEN.fullmatch(name)
    return given[1] if given else name.rpartition("/")[2].rpartition(".")[0]


def gradient_name(parameter: str) -> str:
    """The tensor name of a parameter's gradient: ``gradient/fc.weight``."""
    return f"gradient/{parameter}"
