"""The rule gradient_clipping."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from leadline.records.formatting import exact, significant
from leadline.rules import Advice, Fired, Needs, Rule, TensorReading, Undecided, Verdict, Window, update_limits
from leadline.rules.bounds import PositiveFloat, PositiveInt, Share
from leadline.rules.messages import clear_if_complete, fired, suspected
from leadline.rules.update_limits import UpdateLimits

_LOW_LIMIT: Final = Advice(
    "a higher limit (about the median norm before clipping), or half the learning rate; usually the limit is far below "
    "what the gradients are, or the training is unstable"
)
_UNLIMITED: Final = Advice(
    "{clip_gradients}, or a tenth of the learning rate; usually the rate is too high, the loss is a sum over the "
    "batch, or a batch has an outlier"
)


class GradientClipping(Rule, frozen=True, kw_only=True):
    """Fires when gradients are clipped at most steps, or are very large without any clipping.

    Why it matters:
        Clipping is a safety net: if it acts all the time, it sets the size of every step, and the learning rate
        loses its meaning. Without it, one step with a norm of thousands may ruin the training.
    How it decides:
        Fires if more than ``share_threshold`` of the last ``window`` saved steps were clipped (``clipped steps >
        share_threshold * window``), where a step counts if ``clip_grad_norm_`` or ``clip_grad_value_`` made its
        gradients smaller; or if the norm of all gradients that the optimizer is about to use is above
        ``norm_threshold`` and no clipping was called. Undecided while fewer steps were saved and too large a share of
        them was clipped. Each optimizer is evaluated separately.
    Not a number:
        A norm that is NaN is not evaluated (see ``exploding_tensor``); an infinite one is above every threshold. At
        a step that a gradient scaler skips, the norm is not evaluated.
    Blind spots:
        Clipping written by hand is not detected. A limit that clips at every step by design (as in some recipes for
        language models) fires: set ``share_threshold`` to 1. Which norm is large depends on the number of
        parameters and on whether the loss is a sum or a mean.
    Args:
        share_threshold: Largest share of clipped steps that is not a finding, >= 0 and <= 1.
        window: Number of latest saved steps, >= 1.
        norm_threshold: Norm above which gradients should be clipped, > 0, in the gradient's unit.
    Source:
        Ours; the name and the purpose are SageMaker Debugger's.
    """

    share_threshold: Share = 0.5
    window: PositiveInt = 100
    norm_threshold: PositiveFloat = 1000.0

    def needs(self) -> Needs:
        norms, scale = update_limits.NEEDS
        return Needs((replace(norms, history=self.window - 1, is_optional=False), scale))

    def remember(self, memory: Any, window: Window) -> dict[str, UpdateLimits]:
        limits: dict[str, UpdateLimits] = memory or {}
        UpdateLimits.note(limits, window)
        return limits

    def evaluate(self, window: Window) -> Verdict:
        readings = {(reading.worker, *_parts(reading)): reading for reading in window.readings("value")}
        clippings = [reading for reading in readings.values() if _parts(reading)[1] == "gradient_clipped"]
        norms = [reading for reading in readings.values() if _parts(reading)[1] == "gradient_norm"]
        for clipping in clippings:
            finding = self._clipped_often(
                clipping, window, readings.get((clipping.worker, _parts(clipping)[0], _BEFORE))
            )
            if finding is not None:
                return finding
        for norm in norms:
            is_clipped = (norm.worker, _parts(norm)[0], "gradient_clipped") in readings
            if norm.value > self.norm_threshold and not is_clipped and not window.is_skipped:
                return self._large_norm(norm)
        streak = max((self._clipped_always(clipping, window) for clipping in clippings), default=0)
        if streak:
            return suspected(streak, int(self.share_threshold * self.window) + 1)
        if not clippings and not any(norm.value == norm.value for norm in norms):
            return Undecided("no gradient norm is known at this step")
        return clear_if_complete(window, "gradient norms")

    @property
    def least_observations(self) -> int:
        return min(_MIN_STEPS, self.window)

    def _clipped_always(self, clipping: TensorReading, window: Window) -> int:
        """Return how many of the first saved steps were clipped, if it is most of them; 0: too few to tell, or not."""
        flags = [*(earlier.value for earlier in window.earlier(clipping)), clipping.value]
        clipped = sum(flag > 0.5 for flag in flags)
        return clipped if len(flags) < self.window and clipped > self.share_threshold * len(flags) else 0

    def _clipped_often(self, clipping: TensorReading, window: Window, before: TensorReading | None) -> Fired | None:
        flags = [*(earlier.value for earlier in window.earlier(clipping)), clipping.value]
        clipped = sum(flag > 0.5 for flag in flags)
        if clipped <= self.share_threshold * self.window:
            return None
        norm = {} if before is None else {"gradient_norm_before_clipping": before.value}
        limits = window.memory.get(clipping.worker)
        norm_now = "" if before is None else f"; the norm before clipping is {significant(before.value)} now"
        return fired(
            f"gradients were clipped at {clipped:,} of the last {len(flags):,} saved steps{norm_now}",
            clipping,
            advice=limits.advice() if limits is not None and limits.is_clipping else _LOW_LIMIT,
            evidence={
                "clipped_steps": clipped,
                "saved_steps": len(flags),
                "share_threshold": self.share_threshold,
                **norm,
            },
        )

    def _large_norm(self, norm: TensorReading) -> Fired:
        return fired(
            f"the norm of all gradients is {significant(norm.value)}, above {exact(self.norm_threshold)}, "
            "and nothing clips them",
            norm,
            advice=_UNLIMITED,
            evidence={"gradient_norm": norm.value, "threshold": self.norm_threshold},
        )


_BEFORE = "gradient_norm_before_clipping"
_MIN_STEPS = 10
"""Saved steps that are required for a clear verdict."""


def _parts(reading: TensorReading) -> tuple[str, str]:
    """Split a norm's name into the optimizer, if there are several, and the kind of norm."""
    optimizer, _, kind = reading.tensor.rpartition("/")
    return optimizer, kind
