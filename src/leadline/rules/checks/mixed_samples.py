"""The rule mixed_samples."""

from __future__ import annotations

from leadline.rules.checks.check_rule import CheckRule


class MixedSamples(CheckRule, frozen=True, kw_only=True):
    """Fires when the prediction of a sample depends on others of its batch, or its place; or a view mixes positions.

    Why it matters:
        Such a model is evaluated on batches that do not exist when it is used, and leaks information between samples:
        a view that swaps batch and time, a softmax over dimension 0, ``batch_first`` forgotten, a positional encoding
        along the samples.
    How it decides:
        On a copy in evaluation mode, some samples are replaced by others of the batch: the predictions of the
        remaining samples must not change by more than 1e-4 of the predictions' standard deviation (0.1 in reduced
        precision). Then all samples change their places: their predictions must move with them, as exactly. If they do
        not, the first module whose output mixes samples, or depends on the place, is named. No view within a model may
        take ``(batch, length, heads * size)`` for ``(batch, heads, length, size)``, nor the other way round. No
        recurrent layer may begin with the state, to the bit, that it returned in the step before, if the batch is one
        that a DataLoader has drawn at random.
    Not a number:
        A prediction, loss or gradient that is not finite makes the probe not applicable.
    Blind spots:
        A batch whose samples are the nodes of a graph, whose inputs have no common axis of samples, or whose
        predictions compare all samples with one another is not applicable. Places are not compared where the model
        draws random numbers in evaluation mode, may keep values of its samples (a tensor with the size of the batch
        that is no parameter), or has an input without samples. Batches that the script itself draws at random, and
        states that are reset where sequences go on, are not recognized. Batch statistics in training mode are not
        counted. A compiled training or a sharded one is not copied, and a step that cannot be repeated on the copy with
        the same loss is not tested.
    Source:
        A. Karpathy, A Recipe for Training Neural Networks: "use backprop to chart dependencies".
    """
