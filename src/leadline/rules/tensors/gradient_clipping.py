"""The rule gradient_clipping."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from leadline.records.needs import Needs
from leadline.records.verdict import Clear, Fired, Undecided, Verdict
from leadline.rules.rule import Rule

if TYPE_CHECKING:
    from leadline.reader.window import TensorReading, Window


class GradientClipping(Rule, frozen=True, kw_only=True):
    """Fires when gradients are clipped at most steps, or are very large and nothing clips them.

    Why it matters:
        Clipping is a safety net: where it acts all the time, it sets the size of every step and the learning rate
        no longer means what it says. Without it, one step with a norm of thousands may undo the training.
    How it decides:
        Of the last ``window`` saved steps more than ``share_threshold`` were clipped (``clipped steps >
        share_threshold * window``), where a step is clipped when ``clip_grad_norm_`` or ``clip_grad_value_`` made
        its gradients smaller; or the norm of all gradients that the optimizer is about to use is above
        ``norm_threshold`` and nothing was asked to clip them. With several optimizers each is judged by itself.
    Not a number:
        A norm that is NaN is not judged here (``exploding_tensor`` is there for it); an infinite one is above every
        threshold. At a step that a gradient scaler skips the norm is not judged.
    Blind spots:
        Clipping written by hand is not seen as such. A limit that clips at every step by design (as some recipes
        for language models have it) fires: raise ``share_threshold`` to 1. What is a large norm depends on the
        number of parameters and on whether the loss is a sum or a mean.
    Args:
        share_threshold: Largest share of clipped steps that is no finding, >= 0 and <= 1.
        window: Saved steps that are looked back at, >= 1.
        norm_threshold: Norm above which gradients should be clipped, > 0, in the gradient's unit.
    Source:
        Ours; the name and the aim are SageMaker Debugger's.
    """

    share_threshold: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5
    window: Annotated[int, msgspec.Meta(ge=1)] = 100
    norm_threshold: Annotated[float, msgspec.Meta(gt=0)] = 1000.0

    def needs(self) -> Needs:
        return Needs.of("gradient_norms", "value", history=self.window - 1)

    def evaluate(self, window: Window) -> Verdict:
        readings = {(each.worker, *_parts(each)): each for each in window.readings("value")}
        clippings = [each for each in readings.values() if _parts(each)[1] == "gradient_clipped"]
        norms = [each for each in readings.values() if _parts(each)[1] == "gradient_norm"]
        for each in clippings:
            fired = self._often(each, window, readings.get((each.worker, _parts(each)[0], _BEFORE)))
            if fired is not None:
                return fired
        for each in norms:
            is_clipped = (each.worker, _parts(each)[0], "gradient_clipped") in readings
            if each.value > self.norm_threshold and not is_clipped and not window.is_skipped:
                return self._large(each)
        if not clippings and not any(each.value == each.value for each in norms):
            return Undecided("no norm of the gradients was known at this step")
        return Undecided("part of the gradients' norms at this step was lost") if window.is_thinned else Clear()

    def _often(self, clipping: TensorReading, window: Window, before: TensorReading | None) -> Fired | None:
        flags = [*(each.value for each in window.earlier(clipping)), clipping.value]
        clipped = sum(each > 0.5 for each in flags)
        if clipped <= self.share_threshold * self.window:
            return None
        norm = {} if before is None else {"gradient_norm_before_clipping": before.value}
        now = "" if before is None else f"; the norm before clipping is {before.value:.3g} now"
        return Fired(
            f"gradients were clipped at {clipped:,} of the last {len(flags):,} saved steps{now}",
            tensors=(clipping.tensor,),
            evidence={
                "clipped_steps": clipped,
                "saved_steps": len(flags),
                "share_threshold": self.share_threshold,
                **norm,
            },
            suggestion="a higher limit (about the median norm before clipping), or half the learning rate; "
            "usually the limit is far below what the gradients are, or the training is unstable",
            worker=clipping.worker,
        )

    def _large(self, norm: TensorReading) -> Fired:
        return Fired(
            f"the norm of all gradients is {norm.value:.4g}, above {self.norm_threshold:g}, and nothing clips them",
            tensors=(norm.tensor,),
            evidence={"gradient_norm": norm.value, "threshold": self.norm_threshold},
            suggestion="clip_grad_norm_(model.parameters(), 1.0) before optimizer.step(), or a tenth of the learning "
            "rate; usually the rate is too high, the loss is a sum over the batch, or a batch has an outlier",
            worker=norm.worker,
        )


_BEFORE = "gradient_norm_before_clipping"


def _parts(reading: TensorReading) -> tuple[str, str]:
    """The optimizer in front of a norm's name, where there are several, and what it is."""
    optimizer, _, what = reading.tensor.rpartition("/")
    return optimizer, what
