"""The rule incomplete_state."""

from __future__ import annotations

from leadline.rules.checks.check_rule import CheckRule


class IncompleteState(CheckRule, frozen=True, kw_only=True):
    """Fires when something that the predictions depend on is not in state_dict, or a copy of the weights is none.

    Why it matters:
        A saved model that lacks a part is noticed when it is loaded, often weeks later. The best weights are lost if
        they were kept without a copy, and a target network that is the network itself gives no fixed targets. An
        average of the weights that is never written stays at the weights of the start.
    How it decides:
        Looks for modules with parameters in plain lists and dictionaries; for trained tensors that are no parameters;
        and for tensors and numbers outside of state_dict that predictions in evaluation mode depend on, and that a
        forward pass in training mode changes, or that look random: at least 32 elements, of which neighbours are not
        alike. So with numbers of Python and arrays of NumPy that the script itself changes between the step before and
        the one that is tested. A variable of the script, or an attribute of an object whose method runs, must hold no
        dictionary with trained weights if its name has a word such as ``best``, ``old`` or ``backup``; and must not be
        the trained model, which another variable beside it holds, too, if its name has one of these, or, where the
        model is also called without gradients, ``target``, ``teacher`` or ``ema``. If the step computes, without
        gradients, averages of trained weights and those of a copy that is not trained, for at least half of its
        weights, these must be in the copy afterwards, or something else must be made of them. The model and the
        optimizer must load their own state.
    Not a number:
        A prediction, loss or gradient that is not finite makes the probe not applicable.
    Blind spots:
        What is derived from the configuration of the model, such as a fixed mask, need not be saved. A compiled
        training or a sharded one is not copied, and a step that cannot be repeated on the copy with the same loss is
        not tested. A copy that is to follow the model, and that the step does not compute with at all, is taken as one
        that is to stay.
    Source:
        Ours.
    """
