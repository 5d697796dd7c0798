"""Low-rank adapters that cannot learn, as the first step of their optimizer shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from leadline.records.formatting import counted
from leadline.records.names import ADAPTERS, CHECKS, CUT_OFF_ADAPTERS, FROZEN_ADAPTERS, UNMANAGED_ADAPTERS
from leadline.rules import Advice, Fired, TensorNeed, TensorReading, Window
from leadline.rules.messages import fired

UPDATED_BY_NOTHING: Final = (FROZEN_ADAPTERS, UNMANAGED_ADAPTERS)
_WHAT: Final = {
    FROZEN_ADAPTERS: "none of its {weights} requires a gradient, so that no step changes them",
    UNMANAGED_ADAPTERS: "no optimizer holds any of its {weights} when the first step is made",
    CUT_OFF_ADAPTERS: "no gradient reaches any of its {weights} in the first step, though it reaches other parameters",
}
_ADVICE: Final = {
    FROZEN_ADAPTERS: Advice(
        "loading the adapter for training (of PEFT, PeftModel.from_pretrained with is_trainable=True), or {freeze} for "
        "all but the adapters; usually it was loaded for inference, or the model was frozen after they were added"
    ),
    UNMANAGED_ADAPTERS: Advice(
        "{parameters_to_optimizer} after the adapters are added; usually the optimizer was made before"
    ),
    CUT_OFF_ADAPTERS: Advice(
        "{whole_checkpoints}; usually a checkpoint begins at frozen embeddings, whose output requires no gradient, and "
        "so passes none on"
    ),
}
"""What to try, by the check."""


def need(*checks: str) -> TensorNeed:
    """Return the need of these checks, and of the number of adapters."""
    return TensorNeed(
        CHECKS,
        regex=f"/({'|'.join((ADAPTERS, *checks))})$",
        statistics=("value",),
        modes=("train",),
        every=10,
        is_optional=True,
    )


@dataclass(frozen=True, slots=True)
class IdleAdapters:
    """All adapters of a model, which cannot learn."""

    check: str
    reading: TensorReading
    message: str

    @classmethod
    def find(cls, window: Window, *checks: str) -> Iterator[IdleAdapters]:
        """Yield the models of a step of which all adapters have one of these checks."""
        readings = {(reading.worker, reading.tensor): reading for reading in window.readings("value")}
        for (worker, name), reading in readings.items():
            model, _, check = name.rpartition("/")
            total = readings.get((worker, f"{model}/{ADAPTERS}"))
            if check in checks and total is not None and reading.value == total.value:
                weights = f"{counted(int(total.value), 'adapter weight')} (lora)"
                yield cls(check, reading, f"{model}: {_WHAT[check].format(weights=weights)}")

    def fired(self) -> Fired:
        """Return the finding."""
        return fired(
            self.message,
            self.reading,
            advice=_ADVICE[self.check],
            evidence={"kind": self.check, "adapter_weights": self.reading.value},
            since_step=self.reading.mode_step,
        )
