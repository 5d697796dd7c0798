"""The rule dead_relu."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from leadline.records.formatting import exact
from leadline.records.formatting import share as percent
from leadline.rules import Advice, Fired, Needs, TensorRule, TensorVector, Window
from leadline.rules.bounds import Percent
from leadline.rules.messages import fired
from leadline.rules.selection import check_selection, select
from leadline.rules.tensors.unit_percentages import unit_percentages

_ADVICE: Final = Advice(
    "a tenth of the learning rate, or LeakyReLU or GELU in place of ReLU; usually one large step pushed the biases far "
    "below zero, or the layer's input is not centred"
)


class DeadRelu(TensorRule[TensorVector], frozen=True, kw_only=True):
    """Fires when more than a given share of a ReLU layer's units is almost never active.

    Why it matters:
        A unit that is zero for every sample passes no gradient back and cannot recover: the layer is effectively
        smaller, and if most of it is dead, the layers in front stop learning.
    How it decides:
        A unit (channel of a convolution, feature of a dense layer) is dead if it is above 0 on fewer than
        ``threshold_inactivity`` percent of the samples of the captured step. Fires if ``dead units / units * 100 >
        threshold_layer`` in a layer.
    Not a number:
        NaN is not above 0: a unit that is NaN counts as dead. A layer without samples is not evaluated.
    Blind spots:
        Only one batch is evaluated: with few samples a rarely active unit looks dead (one of 32 samples is 3
        percent). Sparse layers may work with few active units. Leaky variants, GELU and SiLU are not selected: they
        are never exactly zero.
    Args:
        tensor_regex: Regular expressions (``re.search``) for the outputs that are evaluated; a pattern such as
            ``.*relu_output`` also selects the outputs of all modules of that kind.
        threshold_inactivity: Percent of the samples below which a unit counts as dead, >= 0 and <= 100.
        threshold_layer: Percent of a layer's units that may be dead, >= 0 and <= 100.
    Source:
        SageMaker developer guide, "DeadRelu".
    """

    explains: ClassVar[tuple[str, ...]] = ("vanishing_gradient", "all_zero", "unchanged_tensor", "loss_not_decreasing")

    data: ClassVar[str] = "activations"
    untested: ClassVar[str] = "no layer had units and samples at this step"

    tensor_regex: tuple[str, ...] = (".*relu_output",)
    threshold_inactivity: Percent = 1.0
    threshold_layer: Percent = 50.0

    def check(self) -> None:
        check_selection(self.name, None, self.tensor_regex)

    def needs(self) -> Needs:
        return Needs(select((), self.tensor_regex, ("unit_activity",)))

    def find(self, window: Window) -> list[TensorVector] | None:
        layers = [vector for vector in window.vectors("unit_activity") if (vector.values == vector.values).any()]
        if not layers:
            return None
        return sorted((layer for layer in layers if self._is_bad(layer)), key=self._dead_percent, reverse=True)

    def _dead(self, layer: TensorVector) -> int:
        return int((unit_percentages(layer.values) < self.threshold_inactivity).sum())

    def _dead_percent(self, layer: TensorVector) -> float:
        return self._dead(layer) / layer.values.size * 100.0

    def _is_bad(self, layer: TensorVector) -> bool:
        return self._dead_percent(layer) > self.threshold_layer

    def finding(self, bad: Sequence[TensorVector]) -> Fired:
        worst = bad[0]
        dead, units = self._dead(worst), worst.values.size
        return fired(
            f"{worst.tensor}: {dead:,} of {units:,} units ({percent(dead / units)}) are active on fewer than "
            f"{exact(self.threshold_inactivity)} % of the samples",
            *bad,
            advice=_ADVICE,
            evidence={
                "dead_units": dead,
                "units": units,
                "dead_percent": dead / units * 100.0,
                "threshold": self.threshold_layer,
            },
            noun="layer",
            count="layers",
        )
