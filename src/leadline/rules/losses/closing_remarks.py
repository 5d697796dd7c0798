"""The rule closing_remarks."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import median
from typing import Any, ClassVar, Final

from leadline.records.json_object import JsonObject
from leadline.records.loss_roles import role_of
from leadline.records.metric_names import is_upward
from leadline.records.names import BEST_EVALUATION, CHECKS, NO_BETTER, POSSIBLE_CAUSES
from leadline.rules import Clear, Needs, Rule, Severity, TensorNeed, TensorReading, Undecided, Verdict, Window
from leadline.rules.booster_detection import is_from_booster
from leadline.rules.bounds import PositiveInt
from leadline.rules.losses import (
    competing_losses,
    constant_loss,
    gradient_sizes,
    ignored_classes,
    logged_norms,
    policy_remarks,
    rollout_remarks,
    schedules,
    update_sizes,
    watched_metrics,
)
from leadline.rules.losses.best_evaluation import BestEvaluation, best_evaluation
from leadline.rules.losses.competing_losses import EndsOfLoss
from leadline.rules.losses.given_loss import NEEDS, given_losses
from leadline.rules.losses.gradient_sizes import GradientSizes
from leadline.rules.losses.known_run import KnownRun
from leadline.rules.losses.last_evaluation import MARGIN, MIN_LABELS, LastEvaluation
from leadline.rules.losses.logged_norms import LoggedNorm
from leadline.rules.losses.remark_parts import PARTS
from leadline.rules.losses.schedules import RateSchedule
from leadline.rules.losses.still_evaluations import StillEvaluation
from leadline.rules.losses.token_remarks import GivenTokens
from leadline.rules.losses.trivial_level import MIN_VALUES, LabelsByCall, is_comparable
from leadline.rules.robust import mann_kendall

_LABEL_STEPS: Final = 10
_MIN_LOSSES: Final = 5
_MANY_LOSSES: Final = 40
"""Of fewer losses all are tested for a fall, not only the last half."""
_FEW_LOSSES: Final = 50
"""A training of fewer updates may have learned nothing yet."""
_MIN_UPDATES: Final = 20
"""Fewer updates may well have moved the weights but little."""
_STANDSTILL: Final = 1e-3
"""The share of their norm that the weights must have moved in all updates together."""
_P: Final = 0.01
"""Significance of a fall of the loss in the second half of the updates."""
_FALL: Final = 0.01
"""The share of the loss by which that half must end lower."""
_OTHERS: Final = frozenset({CHECKS, "gradient_norms", "scalars"})
_Key = tuple[str, str]


class ClosingRemarks(Rule, frozen=True, kw_only=True):
    """Never fires: remarks at the end of a run on its length, its schedule, and a validation no better than guessing.

    Why it matters:
        A model that is judged after a few dozen updates has not been trained yet. A validation accuracy of 95 % is
        nothing if 95 % of the labels are equal.
    How it decides:
        The remarks follow the outcome of a run without problems. Where there is a problem of the model, those that are
        facts about the program follow it as possible causes: all but those on the length of the training, on what its
        losses and metrics reach, on what a callback watches, and on a norm that is logged. It remarks that

        - there were fewer than ``updates`` train steps, in the first training of a process, if the last half of the
          losses (all of them, if there are 5 to 40) falls, by the Mann-Kendall test at a significance of 0.01, and that
          half ends more than 1 % lower than it began;
        - the mean of a validation metric in the last evaluation is not better, by 2 %, than what a predictor without
          input reaches: the entropy of the labels for a cross entropy or negative log likelihood, their variance for a
          mean squared error, their mean distance from their median for an absolute error, the Poisson loss of their
          mean, the share of the most frequent label for an accuracy. Of XGBoost and LightGBM it is computed of the
          labels, weights and groups of the validation set: the best constant for ``l1``, ``l2``, ``mae``, ``rmse``,
          ``quantile``, the Poisson and the log losses, 0.5 for ``auc``, and the mean of all orders for ``ndcg`` and
          ``map``. The 2 % are those of the distance to a perfect predictor. Printed values are given half the unit of
          their last decimal. Labels are those of the first 10 train steps, at least 100 of them;
        - the training loss is no better than that (than ln C where labels are not known) in the second half of 50 to
          300 updates, if neither it nor another training loss falls; it says where gradients vanish, and longer
          trainings are evaluated by ``metric_not_improving``;
        - the weights hardly moved: the largest median of their update ratios times the number of updates, at least 20,
          is below 0.001, and no loss falls;
        - a learning rate with a scheduler was still rising at the last capture, after at least 50 updates, and has
          never reached a fifth of the value that its group was made with (of ``max_lr`` in a cycle). This and the next
          two are known of PyTorch's optimizers only, whose schedulers are observed;
        - the scheduler of a cosine was stepped more than 1.2 times as often as its ``T_max``;
        - several schedulers of one optimizer, none of which is part of another, have made steps between two captures,
          three times;
        - at least 3 epochs in a row had the same order, because the epoch number of a ``DistributedSampler`` that
          shuffles stayed the same;
        - a list of PyTorch's modules holds one module with weights several times;
        - the output of a linear layer or convolution, or what follows it, is added to itself;
        - at least 3 captured steps clipped gradients to a norm of less than a hundredth of the scale by which a
          ``GradScaler`` had multiplied them, and which it divided them by later;
        - a model like the trained one, which was called without gradients in evaluation mode and whose weights have
          changed since, has running averages of batch normalization that are exactly 0 and 1, and the trained one has
          others;
        - a model with parameters of the shapes of the trained one, called without gradients, is written between all
          looks, at least 3, or differs in bits, and has moved by less than a ten-thousandth of what the
          trained one has, which is at least 1 % of its norm;
        - a trained model of PyTorch, or a part of it, was given a state of which ``load_state_dict`` has loaded no
          parameter, and no later one has; or less than half, where a prefix in the names is all that keeps the others
          from fitting by name and shape;
        - an Accelerator is to accumulate gradients, has never entered ``accumulate``, and as many backward passes, at
          least 8, had an update each;
        - ``fit`` of Keras on TensorFlow does not train all that is trainable, as that was changed after its first call
          since ``compile``; trained weights of Keras on TensorFlow have regularizers that were never called;
        - early stopping of XGBoost watches an evaluation set that is the training data itself (the same ``DMatrix``, or
          the same arrays as ``fit`` is given), as it is the last one or the one that ``data_name`` names, and there is
          another set; early stopping of LightGBM has no set but the training data, which it leaves out;
        - all keys by which a compiled function of JAX draws random numbers were made of the same inputs at all captured
          steps, at least 5;
        - a compiled function of JAX without gradients is given the current parameters, does not use them, and has
          arrays of the first train step as constants;
        - a step of JAX looks up rows of a table among its inputs by at least two different indices, also among its
          inputs, at or beyond the table's length, without a mode, and compares them with nothing but 0;
        - a loss of class indices ignores one of its classes, of fewer than the model is given tokens, at more than 4
          different tokens between other labels;
        - a trainer of TRL has left out more than 10 % of the examples of a data set;
        - at least 10, and half, of the latest 100 episodes of an algorithm of Stable-Baselines3 ended after the largest
          number of steps so far, as terminated, and none was ever truncated; or the normal distribution of its
          untrained policy reaches less than 10 % of the action space, by three standard deviations, or has less than
          10 % of its draws within it;
        - an algorithm of Stable-Baselines3 began to learn, and another one of its class, that was loaded after it was
          made, was gone by then, had never predicted, learned, or been asked for its parameters, and had other weights;
        - in the loss of a policy, at the first two steps, log-probabilities are multiplied by an error that has a
          gradient and is minimized itself;
        - at the second step all ratios to the old policy, at least 8, are exactly 1 and clipped, though the first
          update has moved its weights by a ten-thousandth and no model was called without gradients after it, but
          before it;
        - Keras or the trainer of Transformers or Lightning keeps the best model, or stops early, by a metric whose name
          says the opposite of the direction that it was given;
        - the gradient norm which the script or its trainer logs differs by more than 5 % from that of the gradients,
          before and after clipping, at each of at least 5 steps at which both are known;
        - a validation loss was the same in all evaluations, at least 3, to the bit or as it was printed with at least 4
          digits, though the weights moved by more than that 0.001;
        - one of two networks that compete has won: one of several training losses has fallen below a twentieth of its
          first 10 values, and another one is above three times its own, by the median of the last 30 of at least 50
          values, where no loss is a regression of labels that vary, as that of a critic is;
        - the only training loss of the last steps was the same at at least 30, to the bit, and 1e-6 or more.

        Of a causal language model of Transformers that is given labels by name, at least 99 % of them the token at
        their place, it remarks, at the first two steps, that

        - the end token of its configuration occurs in at least 8 sequences, and never as a label;
        - more than 10 % of at least 8 sequences have no label, or more than a quarter fill the batch without an end
          token, where others end with their only one;
        - rows hold several samples (``position_ids`` begin again at 0) that attend to each other, because there is an
          attention mask, or keys and values were kept;
        - at least 4 sequences of each batch begin with the same 4 or more tokens, and these are labels;
        - all tokens are labels although the sequences hold the same four tokens in a row behind their beginnings (of a
          vocabulary of at least 512);
        - the beginning token of a model that was loaded from a file occurs in none of at least 8 sequences;
        - more than half of the positions are padding;
        - tokens of a batch, among the last 256 of the vocabulary, have equal rows in an embedding that is frozen, or
          rows that were added to it in this process.

        Of every run with several evaluations the outcome names the best one, by the loss that Keras shows, else the
        loss of validation that the trainer or the script logs under such a name (``eval_loss``), else the first
        validation loss that was captured, else the first metric whose direction is known:

        - its step, and its value, without batches beyond those of the evaluations before, such as a test at the end;
        - the noise, the standard deviation of an evaluation: the median absolute deviation of the differences between
          evaluations, divided by the square root of 2; from 5 evaluations on. It is at most this, where not more than
          half of two differences in a row are on different sides of their median: the evaluations follow a curve;
        - the value of the last one, and whether it is worse by more than 5 standard deviations;
        - which of several trainings it belongs to, the last.
    Not a number:
        NaN and infinity are left out; where a training loss was one of them, it does not advise to train for longer.
    Blind spots:
        Of several micro-batches of a step only the first has its tokens read. Another token may end a text than the one
        of the configuration. The labels of the validation may be distributed differently. Rounds of boosting are not
        counted as updates. Metrics that the script computes itself are known by their names (``val_acc``). A training
        that continues from a good start may move its weights but little.
    Args:
        updates: Train steps below which a training is short, >= 1.
    Source:
        Ours.
    """

    severity: ClassVar[Severity] = "advice"

    updates: PositiveInt = 100

    def needs(self) -> Needs:
        modes = ("train", "eval")
        return Needs(
            (
                TensorNeed("losses", statistics=("value",), modes=modes),
                TensorNeed("metrics", statistics=("value",), modes=modes, is_optional=True),
                TensorNeed("scalars", statistics=("value",), modes=("train",), is_optional=True),
                *LabelsByCall.needs(end=_LABEL_STEPS),
                update_sizes.NEED,
                *(replace(need, is_optional=True) for need in NEEDS.tensors),
                gradient_sizes.NEED,
                schedules.NEED,
                logged_norms.NEED,
                *(part.NEED for part in PARTS),
                watched_metrics.NEED,
                rollout_remarks.NEED,
                policy_remarks.NEED,
            )
        )

    def remember(self, memory: Any, window: Window) -> KnownRun:
        known: KnownRun = memory or KnownRun(is_later=window.begun > 0)
        LabelsByCall.note(known.labels, window)
        GradientSizes.note(known.gradients, window)
        update_sizes.note_ratios(known.ratios, window)
        RateSchedule.note(known.schedules, window)
        LoggedNorm.note(known.norms, window)
        for part, seen in zip(PARTS, known.by_part, strict=True):
            part.note(seen, window)
        watched_metrics.note(known.watched, window)
        ignored_classes.note(known.ignored, window)
        rollout_remarks.note(known.rollouts, window)
        policy_remarks.note(known.policies, window)
        known.with_values |= {loss.worker for loss in given_losses(window) if competing_losses.has_values_to_fit(loss)}
        GivenTokens.note(known.tokens, window)
        BestEvaluation.note(known.best, known.training, window)
        for reading in _metrics(window):
            role, _ = role_of(reading.tensor, reading.mode, reading.collections)
            if not math.isfinite(reading.value):
                known.has_broken |= role == "train" and "losses" in reading.collections
            elif role == "validation":
                self._note_validation(known, reading, window.step)
            elif reading.mode == "train" and "losses" in reading.collections and not is_from_booster(reading):
                known.updates = max(known.updates, reading.mode_step + 1 - window.begun)
                known.ends.setdefault(reading.worker, {}).setdefault(reading.tensor, EndsOfLoss()).add(
                    reading.value, window.step
                )
                if known.updates <= max(self.updates, MIN_VALUES):
                    known.losses.setdefault((reading.worker, reading.tensor), []).append(reading.value)
        return known

    def _note_validation(self, known: KnownRun, reading: TensorReading, train_step: int) -> None:
        key = (reading.worker, reading.tensor)
        evaluation = known.evaluations.get(key)
        if evaluation is None or evaluation.train_step != train_step:
            before = math.inf if evaluation is None else evaluation.resolution
            evaluation = known.evaluations[key] = LastEvaluation(train_step, resolution=before)
        evaluation.add(reading)
        known.still.setdefault(key, StillEvaluation()).add(train_step, reading.value)

    def evaluate(self, window: Window) -> Verdict:
        if not _metrics(window):
            return Undecided("no loss or metric was captured at this step")
        return Clear()

    def summarize(self, memory: Any) -> JsonObject:
        known: KnownRun = memory
        of_validation = [
            evaluation.remark(name, known.labels.get(worker, LabelsByCall()))
            for (worker, name), evaluation in known.evaluations.items()
        ]
        competing = [
            remark
            for worker, losses in known.ends.items()
            if worker not in known.with_values and (remark := competing_losses.remark(losses))
        ][:1]
        moving = [losses for worker, losses in known.ends.items() if known.moved(worker) >= _STANDSTILL]
        constant = [remark for losses in moving if (remark := constant_loss.remark(losses))][:1]
        of_losses = competing or constant or [self._of_length(known) or _of_updates(known) or _of_training(known)]
        causes = [
            *[remark for (_, name), schedule in known.schedules.items() if (remark := schedule.remark(name))][:1],
            *[part.remark(seen) for part, seen in zip(PARTS, known.by_part, strict=True)],
            ignored_classes.remark(known.ignored),
            *dict.fromkeys(rollout_remarks.remarks(known.rollouts)),
            *policy_remarks.remarks(known.policies),
            *[remark for key in known.still if (remark := _of_still_evaluations(known, key))][:1],
            *dict.fromkeys(remark for tokens in known.tokens.values() for remark in tokens.remarks()),
        ]
        remarks = [
            *of_losses,
            *causes,
            *known.watched,
            *[remark for (_, name), norm in known.norms.items() if (remark := norm.remark(name))][:1],
            *[remark for remark in of_validation if remark][-1:],  # a script's own metric says the same, and comes last
        ]
        best = best_evaluation(known.best)
        found = {
            "remarks": list(filter(None, remarks)),
            POSSIBLE_CAUSES: list(filter(None, causes)),
            BEST_EVALUATION: best,
        }
        return {key: value for key, value in found.items() if value or key == "remarks"}

    def _of_length(self, known: KnownRun) -> str:
        """Return the remark on a short training whose loss still falls; empty: none, or it follows another one."""
        if known.is_later:
            return ""
        is_falling = not known.has_broken and any(map(_is_falling, known.losses.values()))
        if not 0 < known.updates < self.updates or not is_falling:
            return ""
        return f"the loss was still falling after {known.updates:,} updates, so train for longer to judge the model"


def _of_still_evaluations(known: KnownRun, key: _Key) -> str:
    """Return the remark on evaluations that do not follow the weights; empty: none."""
    worker, name = key
    if is_upward(name) is not False or known.moved(worker) < _STANDSTILL:
        return ""
    return known.still[key].remark(name, known.evaluations[key].resolution)


def _of_updates(known: KnownRun) -> str:
    """Return the remark on weights that have hardly moved; empty: none."""
    for worker in known.ratios:
        losses = [values for (of, _), values in known.losses.items() if of == worker]
        moved = known.moved(worker)
        if not 0 < moved < _STANDSTILL or known.updates < _MIN_UPDATES or any(map(_is_falling, losses)):
            continue
        return (
            f"half of the weights moved by less than {moved:.2g} of their size in {known.updates:,} updates, and the "
            "loss did not fall: a higher learning rate, or a check of what limits the updates (clipping, the schedule)"
        )
    return ""


def _of_training(known: KnownRun) -> str:
    """Return the remark on a training loss that stayed at the level of guessing; empty: none."""
    if not _FEW_LOSSES <= known.updates < MIN_VALUES:
        return ""
    for (worker, name), values in known.losses.items():
        labels = known.labels.get(worker, LabelsByCall())
        trivial = labels.level(name) or labels.level_of_only_call()
        if trivial is None or 0 < labels.labels() < MIN_LABELS or len(values) < _FEW_LOSSES:
            continue
        others = [known.losses[key] for key in known.losses if key[0] == worker and key[1] != name]
        if any(map(_is_falling, others)):  # as of two networks that compete
            continue
        half = values[len(values) // 2 :]
        level, bound = sum(half) / len(half), trivial.value
        start = median(values[:_MIN_LOSSES])
        is_no_better = bound - trivial.margin(MARGIN) <= level and is_comparable(level, start, bound, trivial.perfect)
        if is_no_better and not _is_falling(values):
            vanished = known.gradients.get(worker, GradientSizes()).vanished()
            return (
                f"{name} stayed at {level:.4g} in the last {len(half):,} of {known.updates:,} updates, {NO_BETTER} "
                f"{trivial.predictor} ({bound:.4g})" + (f"; {vanished.description()}" if vanished is not None else "")
            )
    return ""


def _metrics(window: Window) -> list[TensorReading]:
    return [reading for reading in window.readings("value") if not _OTHERS & set(reading.collections)]


def _is_falling(losses: list[float]) -> bool:
    half = losses[len(losses) // 2 :]
    tested = half if len(losses) >= _MANY_LOSSES else losses
    if len(losses) < _MIN_LOSSES or mann_kendall(tested).p_of_falling() >= _P:
        return False
    quarter = len(half) // 2
    first, last = sum(half[:quarter]) / quarter, sum(half[-quarter:]) / quarter
    return first - last > _FALL * abs(first)
