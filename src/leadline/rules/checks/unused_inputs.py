"""The rule unused_inputs."""

from __future__ import annotations

from leadline.rules.checks.check_rule import CheckRule


class UnusedInputs(CheckRule, frozen=True, kw_only=True):
    """Fires when an input, a feature or a trained weight has no influence on the loss.

    Why it matters:
        What does not enter cannot be learned from: a branch that is computed and not added, an index that drops a
        channel, an adapter that was never called, a head that no optimizer holds, a term of the loss that compares the
        teacher with itself, or is computed of something detached.
    How it decides:
        On a copy half of the samples get each input of the other half: some digit of the loss or of a prediction must
        change. The gradient of a random projection of the predictions must be other than 0 for some element of every
        feature or channel. Every weight matrix that the optimizer holds and has not updated before must be in the
        graph of a loss of the step, and every parameter with a gradient in the optimizer, if it is the only one. A
        standard loss of PyTorch that is added to the loss must not be without a gradient because it is 0, or because
        ``detach``, ``no_grad`` or a function such as argmax cuts it off; and must not reach only weights of an
        optimizer that steps with another backward pass. What ``torch.autograd.grad`` returns and is added to the loss,
        as a gradient penalty, must have been computed with ``create_graph=True``. From step 100 on, none of several
        standard losses that are summed with the same weight must be more than 1000 times as large as the largest of
        the others.
    Not a number:
        A prediction, loss or gradient that is not finite makes the probe not applicable.
    Blind spots:
        Inputs that are equal in all samples are not tested, nor are masks, of which ``padding_influence`` tells more.
        Vectors, parameters of numbered experts, and the last positions of a sequence, which strided convolutions and
        pooling leave over, may be unused. A compiled training or a sharded one is not copied, and a step that cannot be
        repeated on the copy with the same loss is not tested.
    Source:
        Ours; A. Karpathy, A Recipe for Training Neural Networks.
    """
