"""Finding rules by name: built in, other people's by entry points, one's own by file or module."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from functools import lru_cache
from importlib import metadata
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any, Final

from leadline.errors import ConfigurationError, UnknownNameError
from leadline.rules.rule import Rule

BUILT_IN: Final = {
    "all_zero": "leadline.rules.all_zero:AllZero",
    "check_input_images": "leadline.rules.check_input_images:CheckInputImages",
    "class_imbalance": "leadline.rules.class_imbalance:ClassImbalance",
    "confusion": "leadline.rules.confusion:Confusion",
    "dead_relu": "leadline.rules.dead_relu:DeadRelu",
    "eval_in_train_mode": "leadline.rules.eval_in_train_mode:EvalInTrainMode",
    "exploding_gradient": "leadline.rules.exploding_gradient:ExplodingGradient",
    "exploding_tensor": "leadline.rules.exploding_tensor:ExplodingTensor",
    "gradient_clipping": "leadline.rules.gradient_clipping:GradientClipping",
    "learning_rate": "leadline.rules.learning_rate:LearningRate",
    "loss_at_start": "leadline.rules.loss_at_start:LossAtStart",
    "loss_not_decreasing": "leadline.rules.loss_not_decreasing:LossNotDecreasing",
    "loss_spike": "leadline.rules.loss_spike:LossSpike",
    "metric_not_improving": "leadline.rules.metric_not_improving:MetricNotImproving",
    "missing_zero_grad": "leadline.rules.missing_zero_grad:MissingZeroGrad",
    "nlp_sequence_ratio": "leadline.rules.nlp_sequence_ratio:NLPSequenceRatio",
    "no_learning": "leadline.rules.no_learning:NoLearning",
    "nonfinite_origin": "leadline.rules.nonfinite_origin:NonfiniteOrigin",
    "output_collapse": "leadline.rules.output_collapse:OutputCollapse",
    "overfit": "leadline.rules.overfit:Overfit",
    "overtraining": "leadline.rules.overtraining:Overtraining",
    "poor_weight_initialization": "leadline.rules.poor_weight_initialization:PoorWeightInitialization",
    "probabilities_as_logits": "leadline.rules.probabilities_as_logits:ProbabilitiesAsLogits",
    "replica_divergence": "leadline.rules.replica_divergence:ReplicaDivergence",
    "saturated_activation": "leadline.rules.saturated_activation:SaturatedActivation",
    "similar_across_runs": "leadline.rules.similar_across_runs:SimilarAcrossRuns",
    "skipped_steps": "leadline.rules.skipped_steps:SkippedSteps",
    "stalled_training": "leadline.rules.stalled_training:StalledTraining",
    "tensor_variance": "leadline.rules.tensor_variance:TensorVariance",
    "unchanged_tensor": "leadline.rules.unchanged_tensor:UnchangedTensor",
    "unscaled_input": "leadline.rules.unscaled_input:UnscaledInput",
    "unused_parameter": "leadline.rules.unused_parameter:UnusedParameter",
    "vanishing_gradient": "leadline.rules.vanishing_gradient:VanishingGradient",
    "weight_saturation": "leadline.rules.weight_saturation:WeightSaturation",
    "weight_update_ratio": "leadline.rules.weight_update_ratio:WeightUpdateRatio",
}
AMAZON: Final = {
    "AllZero": "all_zero",
    "CheckInputImages": "check_input_images",
    "ClassImbalance": "class_imbalance",
    "Confusion": "confusion",
    "DeadRelu": "dead_relu",
    "ExplodingTensor": "exploding_tensor",
    "GradientClipping": "gradient_clipping",
    "LossNotDecreasing": "loss_not_decreasing",
    "NLPSequenceRatio": "nlp_sequence_ratio",
    "Overfit": "overfit",
    "Overtraining": "overtraining",
    "PoorWeightInitialization": "poor_weight_initialization",
    "SaturatedActivation": "saturated_activation",
    "SimilarAcrossRuns": "similar_across_runs",
    "StalledTraining": "stalled_training",
    "StalledTrainingRule": "stalled_training",
    "TensorVariance": "tensor_variance",
    "UnchangedTensor": "unchanged_tensor",
    "VanishingGradient": "vanishing_gradient",
    "WeightUpdate": "weight_update_ratio",
    "WeightUpdateRatio": "weight_update_ratio",
}
"""Amazon's names for them."""
DEFAULT: Final = (
    "exploding_tensor", "nonfinite_origin", "exploding_gradient", "loss_spike", "no_learning", "missing_zero_grad",
    "unused_parameter", "probabilities_as_logits", "skipped_steps", "replica_divergence", "stalled_training",
)  # fmt: skip
"""Those that stay silent on every healthy run, and are judged unless told otherwise."""


def canonical(name: str) -> str:
    """A rule's own name, where it has another's; else the name as it is."""
    return AMAZON.get(name, name)


def is_custom(name: str) -> bool:
    """Whether a name means a class of the user's: ``file.py:Class`` or ``module:Class``."""
    return ":" in name


@lru_cache(maxsize=1)
def other_peoples() -> dict[str, metadata.EntryPoint]:
    """Rules of installed packages, by the name of their entry point in the group ``leadline.rules``."""
    return {each.name: each for each in metadata.entry_points(group="leadline.rules")}


def rule_names() -> tuple[str, ...]:
    """Every name that a rule can be asked for by, Amazon's apart."""
    return (*BUILT_IN, *(name for name in sorted(other_peoples()) if name not in BUILT_IN))


def find_rule(name: str, folder: str = "") -> type[Rule]:
    """The class of a rule.

    Args:
        name: A rule's name, Amazon's, ``file.py:Class`` or ``module:Class``.
        folder: What a relative file is relative to; "" for the working directory.
    Raises:
        UnknownNameError: No rule has that name.
        ConfigurationError: The file or module cannot be imported, or holds no such rule.
    """
    name = canonical(name)
    if name in BUILT_IN:
        return _from_module(*BUILT_IN[name].split(":"))
    if is_custom(name):
        place, _, class_name = name.rpartition(":")
        if place.endswith(".py"):
            return _pick(_import_file(os.path.join(folder, place)), class_name, place)
        return _from_module(place, class_name)
    if name in other_peoples():
        entry = other_peoples()[name]
        return _from_module(entry.module, entry.attr)
    known = (*AMAZON,) if name[:1].isupper() else rule_names()
    raise UnknownNameError("rule", name, known, hint="leadline rules lists all")


def _from_module(module: str, class_name: str) -> type[Rule]:
    try:
        imported = importlib.import_module(module)
    except Exception as error:
        raise _not_imported(module, error) from error
    return _pick(imported, class_name, module)


def _import_file(path: str) -> Any:
    """A file as a module of its own; files beside it can be imported by it."""
    path = os.path.abspath(path)
    if not os.path.isfile(path):
        raise ConfigurationError(f"there is no rule file {path}")
    name = "leadline_rule_" + os.path.basename(path).removesuffix(".py")
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    folder = os.path.dirname(path)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise _not_imported(path, error) from error
    finally:
        sys.path.remove(folder)
    return module


def _pick(module: Any, class_name: str, place: str) -> type[Rule]:
    found = getattr(module, class_name, None)
    if isinstance(found, type) and issubclass(found, Rule):
        return found
    if found is not None:
        raise ConfigurationError(f"{place}:{class_name} is no rule: it must be a class made from leadline.rules.Rule")
    rules = [name for name, each in vars(module).items() if isinstance(each, type) and issubclass(each, Rule)]
    raise UnknownNameError("rule", class_name, [each for each in rules if each != "Rule"], hint=f"in {place}")


def _not_imported(place: str, error: Exception) -> ConfigurationError:
    if isinstance(error, SyntaxError):
        where = f"{error.filename}:{error.lineno}"
        return ConfigurationError(f"the rule file does not import: {where}: {type(error).__name__}: {error.msg}")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename]
    own = [frame for frame in frames if not frame.filename.startswith(os.path.dirname(__file__))]
    where = f"{own[-1].filename}:{own[-1].lineno}" if own else place
    return ConfigurationError(f"the rule file does not import: {where}: {type(error).__name__}: {error}")
