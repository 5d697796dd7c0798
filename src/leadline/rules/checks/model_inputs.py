"""The rule model_inputs."""

from __future__ import annotations

from leadline.rules.checks.check_rule import CheckRule


class ModelInputs(CheckRule, frozen=True, kw_only=True):
    """Fires when what a model is given is damaged, constant or repeated.

    Why it matters:
        Data are wrong more often than models. Only what enters the network counts, not what the file has.
    How it decides:
        At the checked step, fires on elements that are NaN or infinite; on inputs that are one value everywhere; on
        whole numbers that are all equal because fractions that vary were converted to them; on batches of which less
        than one sample in eight differs; on features whose spread is below 1e-4 of their mean, or half of which have
        one value that is neither 0 nor 1; on a feature that is the label, or, of sequences and images, an element at
        one place that is it, bit for bit, if not all labels are whole numbers; on at least 1000 values that are whole
        levels from 0 to 255, all in the lowest and highest quarter, at least 5 % and three levels in each, as
        differences of unsigned bytes that were to be below 0; on images with a channel of one value; on images with
        values beyond 50; and, of PyTorch's loaders among the script's variables, whose samples are read again on the
        copy: if a data set mirrors images at random, of which at least two samples were read both ways, and never their
        masks (whole numbers of at most 64 levels for the same pixels); and if at least half of the windows of a series
        that a loader reads in order, at least 32 and twice their length, share half of their steps, at another place,
        with windows that another loader shuffles, and less than a tenth of them are among those.
    Not a number:
        A prediction, loss or gradient that is not finite makes the probe not applicable.
    Blind spots:
        One batch is looked at, and loaders in no variable are not read. Its first samples are shown on the page of the
        check; whether they look right is for you to say. A compiled training or a sharded one is not copied, and a step
        that cannot be repeated on the copy with the same loss is not tested.
    Source:
        A. Karpathy, A Recipe for Training Neural Networks: "visualize just before the net".
    """
