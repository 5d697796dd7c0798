"""The hook for XGBoost, in smdebug's interface."""

from __future__ import annotations

from typing import Any, Final

from xgboost.callback import TrainingCallback

from leadline.compat.smdebug.core.capture_items import Naming, TensorSelection
from leadline.compat.smdebug.core.hook import BaseHook
from leadline.compat.smdebug.core.hook_run import logger
from leadline.compat.smdebug.core.singleton import set_hook

__all__ = ["Hook"]

_TRAIN: Final = ("train",)
_PLACES: Final = (
    "losses",
    "metrics",
    "feature_importance",
    "average_shap",
    "full_shap",
    "trees",
    "predictions",
    "labels",
    "hyperparameters",
)
_EVERYWHERE: Final = tuple(TensorSelection(place, None, _TRAIN) for place in _PLACES)
_NAMING: Final = Naming(
    defaults={
        "all": (".*",),
        "default": (),
        "metrics": ("^[^/]+-[^/]+$",),
        "losses": (),
        **{place: (f"^{place}(?:/|$)",) for place in _PLACES[2:]},
    },
    native={
        **{place: (TensorSelection(place, None, _TRAIN),) for place in _PLACES},
        "metrics": _EVERYWHERE[:2],
        "all": _EVERYWHERE,
    },
    searched=_EVERYWHERE,
)


class Hook(BaseHook, TrainingCallback):  # type: ignore[misc] # xgboost has no types here
    """Saves what XGBoost trains with, as one of the ``callbacks`` of ``xgboost.train``; see ``BaseHook`` for arguments.

    A step is a round. The hook closes at the end of the training.

    Args:
        hyperparameters: Not used: the hyperparameters that are saved are those of the booster, as numbers.
        train_data: Not used: SHAP values are those of the training data.
        validation_data: Not used: predictions and labels are those of the last of ``evals`` that is not trained on.
        args, kwargs: See ``BaseHook``; a ``reduction_config`` changes nothing.
    """

    naming = _NAMING
    default_collections = ("metrics",)
    default_interval = 10

    def __init__(
        self,
        *args: Any,
        hyperparameters: dict[str, Any] | None = None,
        train_data: Any = None,
        validation_data: Any = None,
        **kwargs: Any,
    ) -> None:
        if kwargs.pop("reduction_config", None) is not None:
            logger.warning("reduction_config is ignored: the hook for XGBoost saves whole tensors")
        super().__init__(*args, **kwargs)
        self.hyperparameters, self.train_data, self.validation_data = hyperparameters, train_data, validation_data
        set_hook(self)
        self._begin(are_collections_complete=False)

    def before_training(self, model: Any) -> Any:
        """Capture what the collections select by now."""
        self._begin()
        return model

    def after_training(self, model: Any) -> Any:
        """Close the hook."""
        self.close()
        return model
