"""Names of modes, collections, phases and statuses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Literal

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
COMPUTES_LATER: Final = "computes_later"
"""The fact that a framework computes while the script goes on, which then may wait for the results of a step."""
WHOLE_DATA: Final = "whole_data"
"""The collection of what a training was given as a whole, where the inputs of a batch are not known."""
GRADIENT_NORMS: Final = "gradient_norms"
"""The norm of all gradients of an optimizer, before and after clipping, and whether clipping changed them."""
BEST_EVALUATION: Final = "best_evaluation"
"""What a rule collects of the best evaluation, beside its verdict."""
CHECKS: Final = "checks"
"""Counts from the loop checks, for example consecutive steps that began with stale gradients."""
FROZEN_BY_OPTIMIZER: Final = "frozen_by_optimizer"
"""The check of a parameter whose update is exactly 0 whatever its gradient (``<parameter>/frozen_by_optimizer``), by a
learning rate of 0 of its own or a mask: 1, and 0 once it is not any more."""
ADAPTERS: Final = "adapters"
"""The check of how many weights of low-rank adapters the models of an optimizer have (``<model>/adapters``)."""
FROZEN_ADAPTERS: Final = "frozen_adapters"
"""The check of how many of them require no gradient (``<model>/frozen_adapters``)."""
UNMANAGED_ADAPTERS: Final = "adapters_outside_optimizers"
"""The check of how many of them require one, and no optimizer holds them (``<model>/adapters_outside_optimizers``)."""
CUT_OFF_ADAPTERS: Final = "adapters_without_gradient"
"""The check of how many of them the optimizer holds, and no gradient reached them in the first step, though it reached
others (``<model>/adapters_without_gradient``)."""
MADE_ANEW: Final = "made_anew"
"""The check of how many optimizers went on with the training of another one of the same class and settings, without its
state (``<optimizer>/made_anew``)."""
INITIALIZED_AGAIN: Final = "initialized_again"
"""The check of how often a parameter was initialized between updates of its optimizer, where it was
(``<parameter>/initialized_again``)."""
STATE_NOT_LOADED: Final = "state_not_loaded"
"""The check of an optimizer that began without a state, although the file that its model was loaded from had one
(``<optimizer>/state_not_loaded``, 1 or 0)."""
LOADED_STATE, FIRST_STATE = "loaded_state", "first_state"
"""The checks of an optimizer whose state was loaded before its first step (``<optimizer>/loaded_state/<part>``), and of
the same before that step (``<optimizer>/first_state/<part>``): ``lr``, ``steps``, ``norm`` of its moments."""
STARTED_OVER: Final = "schedule_started_over"
"""The check of such an optimizer: 1 if its schedule, which was not over, counts no step, else 0
(``<optimizer>/schedule_started_over``)."""
SCHEDULE_NOT_LOADED: Final = "schedule_not_loaded"
"""The check of such an optimizer whose schedule counts no step, though the file that a state of as many parameters was
loaded from has one of a schedule: the steps of that (``<optimizer>/schedule_not_loaded``)."""
USES_INITIAL_PARAMETERS: Final = "uses_initial_parameters"
"""The check of how many arrays of the first train step a function computes with that is given the current parameters
and does not use them (``<function>/uses_initial_parameters``)."""
SAME_RANDOM_KEYS: Final = "same_random_keys"
"""The check of at how many captured steps, all so far, a function drew all of its random numbers by the same keys
(``<function>/same_random_keys``); 0 once it has not."""
CLAMPED_INDICES: Final = ("clamped_indices", "different_clamped", "largest_index", "table_length")
"""The checks of a table of parameters of which a function of JAX looks up rows beyond its length, which gives the last
row (``<table>/clamped_indices``): the share of the indices, how many different ones, the largest, and the length."""
MOMENT_NORM: Final = "moment_norm"
"""The check of the norm of an optimizer's moments, of its first elements (``<optimizer>/<moment>/moment_norm``)."""
RATE_SHARE: Final = "rate_share"
"""The check of the learning rate of an optimizer with a scheduler, as a share of the one that it was made with, or of
the largest of its cycle (``<optimizer>/rate_share``); of several groups the largest share."""
SCHEDULERS: Final = "schedulers"
"""The check of how many schedulers of an optimizer have made steps since the check before, where there are several
(``<optimizer>/schedulers``); those that are part of another one do not count."""
SCHEDULE_STEPS: Final = "schedule_steps"
"""The check of how often the only scheduler of an optimizer was stepped (``<optimizer>/schedule_steps``)."""
SCHEDULE_LENGTH: Final = "schedule_length"
"""The check of the steps that the only scheduler of an optimizer is made for (``<optimizer>/schedule_length``)."""
WARM_UP_LENGTH: Final = "warm_up_length"
"""The check of the steps in which that scheduler raises the learning rate (``<optimizer>/warm_up_length``)."""
WATCHED_UPWARDS, WATCHED_DOWNWARDS = "watched_upwards", "watched_downwards"
"""The checks of a callback of a trainer that takes the largest value of a metric for the best one, or the smallest,
where the name of the metric says the opposite (``ModelCheckpoint/val_loss/watched_upwards``: 1)."""
REMAINING_STEPS: Final = "process/remaining_steps"
"""The check of the train steps that the trainer plans to make from this one on, this one included."""
COSINE_PROGRESS: Final = "cosine_progress"
"""The check of how often the scheduler of a cosine was stepped, as a share of its length
(``<optimizer>/cosine_progress``): above 1 the rate rises again."""
EPOCHS_IN_ONE_ORDER: Final = "epochs_in_one_order"
"""The check of how many epochs in a row a sampler has shuffled alike (``DistributedSampler/epochs_in_one_order``)."""
DROPPED_EXAMPLES: Final = ("dropped_examples", "given_examples")
"""The checks of how many examples of a data set a trainer has left out, since nothing was left to learn from them, and
of how many (``TRL/dropped_examples``); absent where it has left out none."""
EPISODES: Final = ("episodes", "longest_episode", "episodes_at_limit", "truncated_episodes")
"""The checks of an algorithm of Stable-Baselines3 (``PPO/episodes``): how many of its latest 100 episodes are known,
the steps of the longest of all, how many of the latest were as long and terminated, and how many of all were
truncated."""
ACTIONS: Final = ("action_reach", "actions_within", "action_low", "action_high", "action_deviation")
"""The checks of an algorithm that draws actions from a normal distribution around 0 (``PPO/action_reach``), of the
dimension that it reaches least: the share of the action space within three standard deviations, the share of the draws
within the space, its bounds, and the deviation."""
REPEATED_MODULE: Final = "repeated_module"
"""The check of how often a container of a model holds one module (``<container>/repeated_module``), from 2 on."""
NONFINITE_AVERAGES: Final = "nonfinite_averages"
"""The check of how many running averages of a model's normalizations are not finite
(``<optimizer>/nonfinite_averages``); -1 for a model without any."""
NONFINITE_AVERAGE: Final = "nonfinite_average"
"""The check of such an average: 1 (``<layer>.running_mean/nonfinite_average``)."""
INITIAL_AVERAGES: Final = "initial_averages"
"""The check of how many normalizations of a model train while their averages are exactly 0 and 1, as they began
(``<optimizer>/initial_averages``)."""
INITIAL_AVERAGE: Final = "initial_average"
"""The check of such a normalization: 1 (``<layer>/initial_average``)."""
NEVER_CALLED_WRAPPER: Final = "never_called_wrapper"
"""The check of a model whose ``DistributedDataParallel`` was not called before its update: 1
(``<model>/never_called_wrapper``); absent where it was."""
UNCALLED_REGULARIZERS: Final = "uncalled_regularizers"
"""The check of how many trained variables of Keras have a regularizer that was never called
(``model/uncalled_regularizers``); absent where all were."""
UNTRAINED_VARIABLES: Final = "untrained_variables"
"""The check of how many trainable variables of a model of Keras its ``fit`` does not train
(``<model>/untrained_variables``); absent where it trains all."""
UNACCUMULATED: Final = ("accumulation_steps", "unaccumulated_batches")
"""The checks of an Accelerator that is to accumulate (``Accelerate/accumulation_steps``): over how many batches,
and how many backward passes so far had an update of their own, outside of ``accumulate``; 0 once one had not."""
UNFIT_STATE: Final = ("entries_of_state", "loaded_entries")
"""The checks of a trained module that was loaded from a state of which nothing fits, or less than half
(``<module>/entries_of_state``): how many entries the state has, and how many of them were loaded."""
FITTING_ENTRIES: Final = ("fitting_without_prefix", "fitting_behind_prefix", "fitting_within_entry")
"""The check of how many entries of such a state would fit if a prefix were removed from their names
(``<module>/<prefix>/fitting_without_prefix``), or put before them, or those of an entry were taken."""
UNUSED_LOAD: Final = "unused_load"
"""The check of an algorithm of Stable-Baselines3 that began to learn after another one was loaded and never used: 1
(``PPO/unused_load``); absent where there was none."""
WATCHED_TRAINING_SET: Final = "watched_training_set"
"""The check of an evaluation set of XGBoost by which early stopping decides: 1, it is the training data, and there is
another set (``<set>/watched_training_set``); absent otherwise."""
UNWATCHED_TRAINING_SET: Final = "unwatched_training_set"
"""The check of the training data of LightGBM where early stopping, which leaves it out, has no other evaluation set: 1
(``<set>/unwatched_training_set``); absent otherwise."""
STUCK_COPY: Final = "stuck_copy"
"""The check of a model like the trained one, which is called without gradients, and whose weights are written and have
not moved: at how many looks; 0: they have (``<model>/stuck_copy``)."""
UNMOVED_AVERAGES: Final = "unmoved_averages"
"""The check of a model like the trained one, which was called in evaluation mode and whose weights have changed since:
how many of its normalizations have averages that are exactly 0 and 1, where those of the trained one are others
(``<model>/unmoved_averages``)."""
SCALED_CLIP: Final = ("scaled_clip_limit", "scaled_clip_norm", "scale_at_clip")
"""The checks of gradients that were clipped by their norm before a gradient scaler divided them by its scale
(``GradScaler/scaled_clip_limit``): the limit, the norm before clipping, and the scale."""
RECOMPILATIONS: Final = "recompilations"
"""The check of how often torch.compile has compiled a function again (``<function>: <guard>/recompilations``)."""
ALL_RECOMPILATIONS: Final = "process/recompilations"
"""The check of how often it has done so with all functions of the process; -1 where none was compiled."""
RECOMPILE_LIMIT: Final = "recompile_limit"
"""The check of a function that it does not compile any more: the limit (``<function>/recompile_limit``)."""
RESUMED: Final = "process/resumed"
"""The check at the first train step of a process that continues a run: the number of its start, 1 for the second."""
NEW_STATE: Final = "process/new_state"
"""The check at the same step of an optimizer that had counted no step by then: 1, else 0."""
PROCESS_MEMORY: Final = {"process/rss_bytes": "resident memory", "process/device_bytes": "device memory"}
"""The memory of a training process, recorded with the loop checks: name and description."""
OPTIMIZER_VARIABLES: Final = "optimizer_variables"
"""An optimizer's state for each parameter: ``AdamW/exp_avg/fc.weight``."""
FEATURE_IMPORTANCE: Final = "feature_importance"
"""Importance of each feature: ``feature_importance/gain/<feature>``; the values of each kind add up to 1."""
AVERAGE_SHAP: Final = "average_shap"
"""Mean SHAP value of each feature: ``average_shap/<feature>``."""
POSSIBLE_CAUSES: Final = "possible_causes"
"""What a rule has collected: those of its remarks that may be the cause of a finding."""
NO_BETTER: Final = "no better than"
"""In a remark: what is known of a loss or metric beside that of a prediction without input."""
OVERFITTING: Final = "overfitting"
"""The word with which messages begin that find it, and which is in remarks on it."""
TREES: Final = "trees"
"""The table of a boosting round's trees, one tensor for each column: ``trees/Gain``."""
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
"""Collections whose members are scalars, stored as the statistic ``value``."""
FEATURE_COLLECTIONS: Final = frozenset({FEATURE_IMPORTANCE, AVERAGE_SHAP})
"""Collections with one scalar for each feature of a booster."""
FULL_SHAP: Final = "full_shap"
"""The SHAP values of all samples, as one tensor."""
TREE_COLLECTIONS: Final = FEATURE_COLLECTIONS | {FULL_SHAP, TREES}
"""Collections that exist only for boosters."""

Family = Literal["network", "trees", "arrays"]
"""Kinds of frameworks: neural networks, gradient boosting, and arrays that the script captures itself."""
OF_LOG: Final = "log"
"""The framework of a run that ``leadline diagnose`` has made of a log."""

MODULE_COLLECTIONS: Final = frozenset({"inputs", "outputs", "labels", "predictions", "layers"})
"""Collections of module inputs and outputs; ``<kind>_input`` and ``<kind>_output`` are further ones."""

ACCURACY: Final = "accuracy"
"""The metric computed from the call of a classification loss; ``accuracy_1`` for a second loss."""

PHASES: Final = ("data", "host", "copy", "forward", "backward", "optimizer", "compute", "collective", "checkpoint")
"""The phases of a step in a worker's timeline; ``step`` is the whole step, ``other`` the remaining time.

``compute`` is a call of a function that does several of the others at once: of TensorFlow's, often also the input."""
START: Final = "start"
"""The mode of operators before the first step; their phase is ``initialization``."""
OVERHEAD: Final = "watching"
"""The time that Leadline takes from a step; phases do not include it."""
OTHER: Final = "other"
PARTS: Final = (*PHASES, OVERHEAD, OTHER)
"""What the time of a step divides into."""

SMDEBUG: Final = "LEADLINE_SMDEBUG"
"""The environment variable with which ``import smdebug`` is that of ``leadline.compat.smdebug`` in a training;
``training/bootstrap/site/sitecustomize.py`` reads the same."""

PRESETS: Final = ("light", "standard", "full", "sagemaker")

_MODULE_TENSOR: Final = re.compile(r"(.+)_(?:input|output)_\d+")
_PATH: Final = re.compile(
    r"(?:gradient/)?((?!gradient/)[a-z_][^./]*(?:/[^./]+)*)/"
    r"(?:kernel|bias|gamma|beta|moving_mean|moving_variance|embeddings|(?:recurrent|depthwise|pointwise)_kernel)"
)
"""A parameter of Keras or its gradient: the path of its layer, and its name there."""

JOB_STATUSES: Final = ("Starting", "InProgress", "Completed", "Failed", "Stopping", "Stopped", "Interrupted")
JOB_ENDED: Final = frozenset({"Completed", "Failed", "Stopped", "Interrupted"})
RULE_STATUSES: Final = ("InProgress", "NoIssuesFound", "IssuesFound", "Error", "Stopping", "Stopped")
Severity = Literal["fatal", "warning", "advice"]
"""How severe the finding of a rule is: the training is worthless from there on, the model suffers or may, or only time
and hardware are wasted."""
SEVERITIES: Final[tuple[Severity, ...]] = ("fatal", "warning", "advice")
EVERY_STATUS: Final = "*"
"""Placeholder for every status, including the closing of episodes."""
EVERY_RULE: Final = "*"
"""Placeholder for every rule."""
JOB: Final = "job"
"""Placeholder for a rule that stands for the job, with the job's statuses."""

_RANK: Final = re.compile(r"rank(\d+)-")


def display_name(owner: type) -> str:
    """Return the name of a rule or action class in snake case: ``vanishing_gradient``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", owner.__name__).lower()


def heading(name: str, collections: Iterable[str] = ()) -> str:
    """Return what a chart calls a tensor: ``loss (CrossEntropyLoss)`` for the loss ``CrossEntropyLoss_output_0``."""
    call, _, output = name.rpartition("_output_")
    if "losses" not in collections:
        return name.removeprefix("metrics/")  # a logged name that another tensor has
    if not call or not output.isdecimal():
        return name
    return f"loss ({call})" if output == "0" else f"loss ({call}, output {output})"


def is_module_collection(name: str) -> bool:
    """Return whether a collection holds module inputs or outputs: ``layers``, ``relu_output`` …"""
    kind, _, side = name.rpartition("_")
    return name in MODULE_COLLECTIONS or (side in ("input", "output") and kind.isidentifier())


def module_of(name: str) -> str:
    """Return the dotted name of the module that a tensor belongs to; "" for the model itself.

    ``gradient/block.0.weight``, ``AdamW/exp_avg/block.0.weight`` and ``block.0_output_1`` belong to ``block.0``,
    ``gradient/sequential/dense/kernel`` to ``sequential/dense``.
    """
    match = _MODULE_TENSOR.fullmatch(name)
    if match:
        return match[1]
    of_path = _PATH.fullmatch(name)
    return of_path[1] if of_path else name.rpartition("/")[2].rpartition(".")[0]


def path_of(parameter: str) -> str:
    """Return what stands before a parameter's own name: ``block.0``, ``layers/0``; "" if it has no path.

    Gluon has no separator of its own: ``net0_dense0`` stands before the weight of ``net0_dense0_weight``.
    """
    end = max(parameter.rfind("."), parameter.rfind("/"))
    return parameter[: end if end >= 0 else max(parameter.rfind("_"), 0)]


def layers_of(parameters: Iterable[str]) -> dict[str, str]:
    """Return the path of each parameter's layer; "" for those at the root of a model whose others have a path."""
    names = list(parameters)
    have_paths = any("." in name or "/" in name for name in names)
    return {name: path_of(name) if not have_paths or "." in name or "/" in name else "" for name in names}


def rank_of(worker: str) -> int | None:
    """Return the rank in a worker's name, 3 of ``rank3-4711``; None: the name has none."""
    match = _RANK.match(worker)
    return int(match[1]) if match else None


def gradient_name(parameter: str) -> str:
    """Return the tensor name of a parameter's gradient: ``gradient/fc.weight``."""
    return f"gradient/{parameter}"
