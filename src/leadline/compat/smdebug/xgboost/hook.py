"""The hook for XGBoost, in smdebug's interface."""

from __future__ import annotations

from typing import Any, Final

import xgboost
from xgboost.callback import TrainingCallback

from leadline.compat.smdebug.core.capture_items import Naming, TensorSelection
from leadline.compat.smdebug.core.hook import BaseHook
from leadline.compat.smdebug.core.hook_run import logger
from leadline.compat.smdebug.core.singleton import set_hook
from leadline.compat.smdebug.exceptions import SMDebugTypeError, SMDebugValueError
from leadline.compat.smdebug.trial_naming import XGBOOST
from leadline.compat.smdebug.xgboost.utils import get_dmatrix
from leadline.frameworks.xgboost.booster import GivenData
from leadline.records.json_object import JsonObject

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
_WITHOUT_BIAS: Final = {"average_shap": "^(?!.*/bias$)"}
_EVERYWHERE: Final = tuple(TensorSelection(place, _WITHOUT_BIAS.get(place), _TRAIN) for place in _PLACES)
_NAMING: Final = Naming(
    defaults={
        "all": (".*",),
        "default": (),
        "metrics": ("^[^/]+-[^/]+$",),
        "losses": (),
        **{place: (f"^{place}(?:/|$)",) for place in _PLACES[2:]},
    },
    native={
        **{selection.collection: (selection,) for selection in _EVERYWHERE},
        "metrics": _EVERYWHERE[:2],
        "all": _EVERYWHERE,
    },
    searched=_EVERYWHERE,
)


class Hook(BaseHook, TrainingCallback):  # type: ignore[misc] # xgboost has no types here
    """Saves what XGBoost trains with, as one of the ``callbacks`` of ``xgboost.train``; see ``BaseHook`` for arguments.

    A step is a round.

    Args:
        hyperparameters: Saved as ``hyperparameters/<name>``, beside those of the booster, which are numbers.
        train_data: The data whose SHAP values are saved, a ``DMatrix`` or the path of a file and its format (``csv``,
            ``libsvm``); None: the data that is trained on.
        validation_data: The data whose predictions and labels are saved; None: the last of ``evals`` that is not
            trained on.
        args, kwargs: See ``BaseHook``; a ``reduction_config`` changes nothing.
    Raises:
        SMDebugTypeError: The data is of another type.
    """

    naming = _NAMING
    names = XGBOOST
    default_collections = ("metrics",)
    default_interval = 10

    def __init__(
        self,
        *args: Any,
        hyperparameters: JsonObject | None = None,
        train_data: Any = None,
        validation_data: Any = None,
        **kwargs: Any,
    ) -> None:
        if kwargs.pop("reduction_config", None) is not None:
            logger.warning("reduction_config is ignored: the hook for XGBoost saves whole tensors")
        super().__init__(*args, **kwargs)
        self.hyperparameters = hyperparameters
        self.train_data, self.validation_data = (
            _data("train_data", train_data),
            _data("validation_data", validation_data),
        )
        self._given = {str(name): _plain(value) for name, value in (hyperparameters or {}).items()}
        self._features: list[str] = []
        set_hook(self)
        self._begin(are_collections_complete=False)

    @property
    def captured_data(self) -> GivenData:
        """The data that is captured instead of that which the training is given; scripts also set the attributes."""
        return GivenData(self.train_data, self.validation_data)

    def before_training(self, model: Any) -> Any:
        """Capture what the collections select by now."""
        self._begin()
        return model

    def after_training(self, model: Any) -> Any:
        """Write what was saved; numbers of the script may follow."""
        session = self._session
        if session is not None:
            self._features = _features(model)
            self._describe()
            session.guard.run(session.flush)
        return model

    def _facts(self) -> dict[str, object]:
        return {"hyperparameters": self._given, "features": self._features}


def _data(name: str, given: Any) -> xgboost.DMatrix | None:
    """Return the data that a script gave to its hook.

    Raises:
        SMDebugTypeError: It is neither a DMatrix nor a path with a format.
        SMDebugError: Nothing can be read there.
    """
    if given is None or isinstance(given, xgboost.DMatrix):
        return given
    if isinstance(given, tuple) and len(given) == 2 and all(isinstance(part, str) for part in given):
        data = get_dmatrix(*given)
        if data is None:
            raise SMDebugValueError(f"{name}: there is nothing at {given[0]}")
        return data
    raise SMDebugTypeError(f"{name}: a DMatrix is expected, or the path of a file and its format")


def _features(model: Any) -> list[str]:
    """Return the names of the features of a booster; of several folds, those of the first."""
    folds = getattr(model, "cvfolds", None)
    booster = folds[0].bst if folds else model
    named = booster.feature_names if isinstance(booster, xgboost.Booster) else None
    return list(named) if named else [f"f{index}" for index in range(booster.num_features())]


def _plain(value: Any) -> str | float | int | bool:
    """Return a hyperparameter as a number or text."""
    return value if isinstance(value, (str, float, int, bool)) else str(value)
