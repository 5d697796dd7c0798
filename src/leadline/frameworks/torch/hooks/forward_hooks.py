"""What modules and functions take and give: global hooks, which exist only while somebody looks at a forward pass."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

import torch
from torch.nn.modules import module as torch_module

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.torch.capture.captured_tensors import CapturedTensors
from leadline.frameworks.torch.capture.device_copy import LateNumber, number_of
from leadline.frameworks.torch.hooks.dynamo import hide
from leadline.frameworks.torch.hooks.function_mode import LOSS_KINDS, FunctionMode
from leadline.frameworks.torch.hooks.tracing import is_transformed
from leadline.frameworks.torch.naming.loss_calls import LossCalls, correct_and_total, eval_mean
from leadline.frameworks.torch.naming.module_names import ModelModules, ModuleNames
from leadline.frameworks.torch.timing.flops import FlopCount
from leadline.records.names import ACCURACY
from leadline.records.plan import CaptureItem
from leadline.training.guard import Guard

_DEEPEST: Final = 4
"""How deep containers within containers are followed."""
_MOST_MISTAKEN: Final = 3
"""So many supposed eval steps in a row that a backward pass followed, and the model is trained in eval mode."""


class _Place(threading.local):
    """Where in the modules' calls a thread is."""

    depth = 0
    is_seen = False
    """Whether the outermost call under way is captured."""
    home: ModelModules | None = None
    mode: FunctionMode | None = None

    def __init__(self) -> None:
        self.within: list[tuple[str, str]] = []
        """Name and kind of each captured module under way, the innermost last."""


class ForwardHooks:
    """Captures what modules, and activations and losses called as functions, take and give.

    Of a training step its first forward pass is captured, of an eval step the whole. Names: ``<module>_input_<i>`` and
    ``<module>_output_<i>``, for functions ``<module in which it is called>.relu_output_<i>``; of the root and of loss
    modules their class stands for the module. What is called again within the pass goes on counting. Recomputations
    inside a backward pass are nobody's forward pass. What is captured is read at once, before somebody can change it
    in place.

    **Eval steps** - while a model that is trained stands in eval mode (``open_zone``), each outermost forward without
    gradients begins one; the losses called until the next are its own. One with gradients is taken back when a
    backward pass follows.

    **Functions** are seen in forward passes with gradients and between forward passes, never inside an eval pass: a
    function mode would switch off PyTorch's fast paths, and with them change its results.
    """

    def __init__(self, homes: ModuleNames, probes: StepCallbacks, guard: Guard, tell: Callable[[str], None]) -> None:
        self.captured = CapturedTensors(tell)
        self.losses = LossCalls()
        self.flops = FlopCount()
        self._homes, self._probes, self._guard = homes, probes, guard
        self._place = _Place()
        self._modes: list[FunctionMode] = []
        """One for each thread that was watched."""
        self._handles: list[Any] = []
        self._is_training_watched = self._is_zone = self._is_named = False
        self._seen_roots: set[int] = set()
        self._eval_roots: set[int] | None = None
        """The outermost modules that were called in the eval step under way; None: there is none."""
        self._is_eval_sure = False
        self._mistaken = 0
        self.on_call_without_gradients: Callable[[torch.nn.Module], None] = _nobody
        """Called with each outermost module that is called without gradients while somebody looks."""
        self._is_past_backward = False
        self._wants_accuracy = False
        self._right: dict[str, list[tuple[torch.Tensor, torch.Tensor]]] = {}

    # --- when to watch ------------------------------------------------------------------------------------

    def begin(self, items: Sequence[CaptureItem]) -> None:
        """Watch the training step that begins, until ``end``."""
        self._is_training_watched = True
        self.flops.clear()
        self._begin_pass(items, "train")
        self._hook()

    def end(self) -> None:
        """The training step is over; what was captured waits in ``captured``."""
        if self._is_training_watched:
            self.captured.accuracy = self._accuracy()
        self._is_training_watched = False
        if self._place.mode is not None:
            self._place.mode.leave_soon()  # the step may end within a backward pass, where modes stand aside
        self.losses.clear()
        self._unhook()

    def open_zone(self, *, is_named: bool = False) -> None:
        """A model that is trained went into eval mode.

        Args:
            is_named: The script said so in words: every model counts, whatever its ``training`` says.
        """
        self._is_zone, self._is_named, self._mistaken = True, is_named, 0
        self._hook()

    def close_zone(self) -> None:
        """All models that are trained are in training mode again."""
        self._is_zone = self._is_named = False
        self.end_eval_step()
        self.leave_functions()
        self._unhook()

    def stop(self) -> None:
        """Watch nothing any more."""
        self._is_zone, self._eval_roots = False, None
        for mode in self._modes:
            mode.leave_soon()
        self.end()

    def at_backward(self) -> None:
        """A backward pass begins: what was taken for an eval step with gradients was none."""
        self.leave_functions()
        self._is_past_backward = True
        if self._eval_roots is None or self._is_eval_sure:
            return
        self._eval_roots = None
        self._right = {}
        self._probes.eval_step_was_training()
        self._mistaken += 1
        if self._mistaken >= _MOST_MISTAKEN:
            self._is_zone = False
            self._unhook()

    def seen_ns(self) -> tuple[int, int]:
        """Of the training step's forward pass, where it is watched: what that took so far, and when it began."""
        return (self.captured.own_ns, self.captured.begun_ns) if self._is_training_watched else (0, 0)

    def leave_functions(self) -> None:
        """See no functions any more, until the next forward pass."""
        if self._place.mode is not None:
            self._place.mode.leave()

    def _begin_pass(self, items: Sequence[CaptureItem], mode: str) -> None:
        self.captured.begin(items, mode)
        self._seen_roots, self._right, self._is_past_backward = set(), {}, False
        self._wants_accuracy = any(item.selects(ACCURACY, frozenset({"metrics"})) for item in items)

    def _accuracy(self) -> dict[str, LateNumber | float]:
        """The share of samples that were predicted right since the pass began, of each kind of loss call."""
        right, self._right = self._right, {}
        found: dict[str, LateNumber | float] = {}
        for pairs in right.values():
            total = sum(number_of(each) or 0.0 for _, each in pairs)
            if total:
                name = f"{ACCURACY}_{len(found)}" if found else ACCURACY
                found[name] = sum(number_of(each) or 0.0 for each, _ in pairs) / total
        return found

    def _hook(self) -> None:
        if not self._handles:
            self._handles = [
                torch_module.register_module_forward_pre_hook(self._make_before()),
                torch_module.register_module_forward_hook(self._make_after(), with_kwargs=True, always_call=True),
            ]

    def _unhook(self) -> None:
        if self._is_zone or self._is_training_watched:
            return
        for handle in self._handles:
            handle.remove()
            torch_module._global_forward_hooks_with_kwargs.pop(handle.id, None)  # which the handle forgets
        self._handles = []

    # --- inside the user's forward pass -------------------------------------------------------------------

    def _make_before(self) -> Callable[..., None]:
        place, guard, enter, take, captured = self._place, self._guard, self._enter, self._take_inputs, self.captured

        def before(module: torch.nn.Module, args: tuple[Any, ...]) -> None:
            if torch._C._current_graph_task_id() != -1 or is_transformed():
                return
            if place.depth == 0:
                guard.run(enter, module)
            place.depth += 1
            if place.is_seen:
                begun_ns = time.perf_counter_ns()
                guard.run(take, module, args)
                captured.own_ns += time.perf_counter_ns() - begun_ns

        return hide(before)

    def _make_after(self) -> Callable[..., None]:
        place, guard, take, leave, captured = self._place, self._guard, self._take_outputs, self._leave, self.captured

        def after(module: torch.nn.Module, args: tuple[Any, ...], *rest: Any) -> None:
            # After an error in the forward pass PyTorch calls without the keyword arguments that it promised.
            kwargs, output = rest if len(rest) == 2 else ({}, None)
            if torch._C._current_graph_task_id() != -1 or is_transformed():
                return
            place.depth = max(place.depth - 1, 0)
            if place.is_seen:
                begun_ns = time.perf_counter_ns()
                guard.run(take, module, args, kwargs, output)
                captured.own_ns += time.perf_counter_ns() - begun_ns
            if place.depth == 0:
                guard.run(leave, module)

        return hide(after)

    def _enter(self, outermost: torch.nn.Module) -> None:
        """An outermost call begins: of a model in training, of one in evaluation, or of a loss?"""
        place = self._place
        self.captured.begun_ns = self.captured.begun_ns or time.perf_counter_ns()
        place.within.clear()
        place.home = self._homes.home(outermost)
        is_grad = torch.is_grad_enabled()
        if not is_grad:
            self.leave_functions()
            self.on_call_without_gradients(outermost)
        if isinstance(outermost, torch.nn.modules.loss._Loss):
            place.is_seen = self._is_training_watched or self._eval_roots is not None
        elif self._is_eval_pass(outermost, place.home, is_grad):
            place.is_seen = self._enter_eval(outermost, is_grad)
        elif self._is_training_watched and (is_grad or outermost.training):
            place.is_seen = id(outermost) not in self._seen_roots
            self._seen_roots.add(id(outermost))
            if place.is_seen and is_grad:
                self._enter_functions()
        else:
            place.is_seen = False

    def _is_eval_pass(self, outermost: torch.nn.Module, home: ModelModules, is_grad: bool) -> bool:
        if not self._is_zone or (is_grad and self._is_training_watched):
            return False
        return self._is_named or (home.is_trained and not outermost.training)

    def _enter_eval(self, outermost: torch.nn.Module, is_grad: bool) -> bool:
        """Whether the pass is captured; the same module again is the next step."""
        if self._eval_roots is None or id(outermost) in self._eval_roots:
            self.end_eval_step()
            items = self._probes.eval_step_begins()
            self._eval_roots, self._is_eval_sure = set(), False
            self._begin_pass(items, self._probes.evaluation_mode())
        self._is_eval_sure = self._is_eval_sure or not is_grad
        self._eval_roots.add(id(outermost))
        return True

    def end_eval_step(self) -> None:
        """The eval step under way, if there is one, is over."""
        if self._eval_roots is not None:
            self._eval_roots = None
            self._mistaken = 0
            self.captured.accuracy = self._accuracy()
            self._probes.eval_step_ends(self.captured)

    def _leave(self, outermost: torch.nn.Module) -> None:
        """An outermost call has returned: losses may be called as functions now."""
        place = self._place
        if place.is_seen and (self._is_training_watched or self._eval_roots is not None):
            self._enter_functions()
        place.is_seen = False
        place.within.clear()

    def _enter_functions(self) -> None:
        place = self._place
        if place.mode is None:
            place.mode = FunctionMode(self, self._guard)
            self._modes.append(place.mode)
        place.mode.enter()

    def _take_inputs(self, module: torch.nn.Module, args: tuple[Any, ...]) -> None:
        home = self._place.home
        name = home.names.get(id(module)) if home is not None else None
        if name is None:
            self._place.within.append(("", ""))
            return
        kind = _kind(module)
        self._place.within.append((name, kind))
        self._keep_all(name, "input", self._roles(module, kind, "input"), args)

    def _take_outputs(
        self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any
    ) -> None:
        name, kind = self._place.within.pop() if self._place.within else ("", "")
        if not name or output is None:
            return
        if kwargs:
            self._keep_all(name, "input", self._roles(module, kind, "input"), tuple(kwargs.values()))
        kept = self._keep_all(name, "output", self._roles(module, kind, "output"), output)
        is_loss = isinstance(module, torch.nn.modules.loss._Loss)
        if is_loss:
            self._note_loss(kept, args, kwargs, getattr(module, "reduction", "mean"))
            given = (*args, *kwargs.values())
            self._note_accuracy(_LOSS_FUNCTIONS.get(kind, ""), name, given, {**vars(module), **kwargs})
        elif self._place.depth == 0:
            self._note_own_loss(kept, output)

    def _roles(self, module: torch.nn.Module, kind: str, side: str) -> Callable[[int], tuple[str, ...]]:
        """The collections of what a module takes or gives, by its place in the order."""
        own = ("layers", f"{kind}_{side}")
        if isinstance(module, torch.nn.modules.loss._Loss):
            return _roles_of_loss(own, side)
        if self._place.depth == (1 if side == "input" else 0):
            return lambda index: (f"{side}s", *own)
        return lambda index: own

    def _keep_all(
        self, stem: str, side: str, roles: Callable[[int], tuple[str, ...]], values: Any
    ) -> list[tuple[str, torch.Tensor]]:
        kept = []
        with torch._C.DisableTorchFunction(), torch.no_grad(), torch.autocast("cpu", enabled=False):
            for index, tensor in enumerate(_tensors(values)):
                name = self.captured.name(f"{stem}_{side}")
                if not self._is_past_backward:
                    self.captured.keep(name, roles(index), tensor)
                kept.append((name, tensor))
            if len(kept) > 1 and "labels" in roles(1) and not self._is_past_backward:
                (_, predictions), (name, labels) = kept[:2]
                self.captured.keep_confusion(name, roles(1), labels, predictions)
        return kept

    # --- functions: see leadline.frameworks.torch.hooks.function_mode.Calls -----------------------------------------

    def before_call(self, kind: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
        begun_ns = time.perf_counter_ns()
        stem = self._stem(kind)
        if stem is not None:
            own = ("layers", f"{kind.replace('_', '')}_input")
            roles = _roles_of_loss(own, "input") if kind in LOSS_KINDS else lambda index: own
            self._keep_all(stem, "input", roles, (*args, *_tensors_only(kwargs)))
        self.captured.own_ns += time.perf_counter_ns() - begun_ns
        return stem

    def after_call(
        self, kind: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any, token: object
    ) -> None:
        if not isinstance(token, str):
            return
        begun_ns = time.perf_counter_ns()
        own = ("layers", f"{kind.replace('_', '')}_output")
        kept = self._keep_all(token, "output", lambda index: own, output)
        if kind in LOSS_KINDS:
            self._note_loss(kept, args, kwargs, kwargs.get("reduction", "mean"))
            self._note_accuracy(kind, token, (*args, *kwargs.values()), kwargs)
        self.captured.own_ns += time.perf_counter_ns() - begun_ns

    def count(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any) -> None:
        if self._is_training_watched:
            with torch._C.DisableTorchFunction():
                self.flops.note(function, args, kwargs, output)

    @property
    def models_seen(self) -> int:
        """How many outermost modules the pass went through."""
        return len(self._seen_roots)

    def _stem(self, kind: str) -> str | None:
        """What a function's tensors are called; None where its module tells of them, or nobody looks."""
        place = self._place
        if place.depth == 0:
            return kind
        if not place.is_seen or not place.within or place.home is None:
            return None
        name, module_kind = place.within[-1]
        if not name or module_kind.removesuffix("loss") == kind.replace("_", "").removesuffix("loss"):
            return None
        if _LOSS_FUNCTIONS.get(module_kind) == kind:
            return None
        if len(place.within) == 1 and name == place.home.root_name:
            return f"{place.home.prefix}{kind}"
        return f"{name}.{kind}"

    # --- losses -------------------------------------------------------------------------------------------

    def _note_loss(
        self, kept: list[tuple[str, torch.Tensor]], args: tuple[Any, ...], kwargs: Mapping[str, Any], reduction: Any
    ) -> None:
        for name, output in kept:
            self.losses.note(name, output)
            if self._eval_roots is not None:
                target = args[1] if len(args) > 1 else kwargs.get("target")
                self._tell_eval_loss(name, eval_mean(output, target, str(reduction)))

    def _note_own_loss(self, kept: list[tuple[str, torch.Tensor]], output: Any) -> None:
        """A model that gives its loss itself: a single number, or ``loss`` of what it gives."""
        found = output.get("loss") if isinstance(output, Mapping) else output
        if not isinstance(found, torch.Tensor) or found.numel() != 1 or not found.is_floating_point():
            return
        name = next((name for name, tensor in kept if tensor is found), None)
        if name is None:
            return
        self.losses.note(name, found)
        if self._eval_roots is not None and self._place.home is not None and self._place.home.is_trained:
            self._tell_eval_loss(None, eval_mean(found, None, "mean"))

    def _tell_eval_loss(self, name: str | None, value: LateNumber | float | None) -> None:
        if value is not None:
            self._probes.eval_loss(name, value)

    def _note_accuracy(self, kind: str, stem: str, given: tuple[Any, ...], options: Mapping[str, Any]) -> None:
        tensors = [each for each in given if isinstance(each, torch.Tensor)]
        if not self._wants_accuracy or len(tensors) < 2:
            return
        with torch._C.DisableTorchFunction(), torch.no_grad():
            found = correct_and_total(kind, tensors[0].detach(), tensors[1].detach(), options)
        if found is not None:
            self._right.setdefault(stem, []).append(found)


_LOSS_FUNCTIONS: Final = {
    "crossentropyloss": "cross_entropy",
    "nllloss": "nll_loss",
    "bceloss": "binary_cross_entropy",
    "bcewithlogitsloss": "binary_cross_entropy_with_logits",
}


def _roles_of_loss(own: tuple[str, ...], side: str) -> Callable[[int], tuple[str, ...]]:
    if side == "output":
        return lambda index: own
    return lambda index: ("predictions", *own) if index == 0 else ("labels", *own) if index == 1 else own


def _kind(module: torch.nn.Module) -> str:
    """What a module is called among its like: ``relu``, ``tanh``, ``batchnorm2d`` …"""
    return type(module).__name__.lower()


def _tensors_only(values: Mapping[str, Any]) -> list[torch.Tensor]:
    return [each for each in values.values() if isinstance(each, torch.Tensor)]


def _tensors(values: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    """The tensors in what a module takes or gives: tuples, lists, mappings and dataclasses are followed."""
    if isinstance(values, torch.Tensor):
        yield values
    elif depth >= _DEEPEST:
        return
    elif isinstance(values, Mapping):
        for each in values.values():
            yield from _tensors(each, depth + 1)
    elif isinstance(values, (tuple, list)):
        for each in values:
            yield from _tensors(each, depth + 1)
    elif is_dataclass(values) and not isinstance(values, type):
        for field in fields(values):
            yield from _tensors(getattr(values, field.name), depth + 1)


def _nobody(called: torch.nn.Module) -> None:
    return None
