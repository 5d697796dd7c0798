"""Reading of the losses that backward passes begin at."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from types import CodeType, FrameType
from typing import Any, Final, TypeAlias

import torch

from leadline.frameworks.call_site import CallSite
from leadline.frameworks.torch.capture.device_copy import DeviceScalar, is_read_at_once, number_of, scale_of
from leadline.frameworks.torch.naming.loss_calls import LossCalls
from leadline.instrumentation.guard import Facts

ReadLoss: TypeAlias = tuple[object, "DeviceScalar | float", "str | None"]
"""Place in the script, value and name of a loss."""
_INTERNAL_FOLDERS: Final = (torch.__file__.rsplit("/", 1)[0] + "/", __file__.removesuffix("hooks/loss_reader.py"))
"""Those of PyTorch and of its adapter, whose hooks wrap the engine, too."""
_MAX_SCALED: Final = 64


@dataclass(frozen=True, slots=True)
class _Last:
    """The place of the last backward pass, if it began at one loss as its loss call had returned it."""

    codes: tuple[CodeType, ...]
    """The code of each frame, from the innermost to that of the script."""
    site: CallSite
    name: str | None


class LossReader:
    """Reads losses at the beginning of backward passes, and divides them by the factors of gradient scalers."""

    def __init__(self, calls: LossCalls, facts: Facts) -> None:
        """
        Args:
            calls: The observed loss calls, which name the losses.
        """
        self._calls = calls
        self._losses, self._names = facts.of("losses are", is_vital=True), facts.of("names of losses are")
        self._scaled: dict[int, tuple[weakref.ref[torch.Tensor], weakref.ref[Any]]] = {}
        self._last: _Last | None = None

    def note_scaled(self, loss: torch.Tensor, scaler: Any) -> None:
        """Note that a gradient scaler has scaled a loss."""
        if len(self._scaled) > _MAX_SCALED:
            self._scaled.clear()
        self._scaled[id(loss)] = (weakref.ref(loss), weakref.ref(scaler))

    def read_plain(self, outputs: Sequence[Any], frame: FrameType) -> list[ReadLoss] | None:
        """Return the losses that a backward pass begins at; None if one is 0 or no finite number on the host.

        Where the pass begins at the same place as the last one, as little as possible is looked at: between two steps
        of a training, what this needs has left the processor's caches.
        """
        last: _Last | None = self._last
        if last is not None and len(outputs) == 1 and not self._scaled:
            output, instruction = outputs[0], -1
            place: FrameType | None = frame
            if not output.dim() and is_read_at_once(output):
                for code in last.codes:
                    if place is None or place.f_code is not code:
                        break
                    instruction, place = place.f_lasti, place.f_back
                else:
                    value = output.item()
                    if instruction == last.site.instruction and type(value) is float and isfinite(value) and value:
                        return [(last.site, value, last.name)]
        losses = self.read(outputs, frame)
        return losses if all(type(loss[1]) is float and isfinite(loss[1]) and loss[1] for loss in losses) else None

    def read(self, outputs: Sequence[Any], frame: FrameType) -> list[ReadLoss]:
        """Return the losses that a backward pass begins at."""
        site = call_site(frame)
        losses: list[ReadLoss] = []
        for output in outputs:
            loss = self._losses.call(self._read_one, output, site)
            if loss is not None:
                losses.append(loss)
        is_direct = len(losses) == len(outputs) == 1 and self._calls.is_direct(site)
        self._last = _Last(tuple(_codes(frame, site)), site, losses[0][2]) if is_direct and site is not None else None
        return losses

    def _read_one(self, output: Any, site: CallSite | None) -> ReadLoss | None:
        """Return the loss that an output is; None: it is none, or has no value."""
        if not isinstance(output, torch.Tensor) or output.numel() != 1 or output.is_meta:
            return None
        scaler = self._pop_scaler(output) if self._scaled else None
        name, factor = self._names.call(self._calls.resolve, site, partial(_loss_node, output, scaler)) or (None, 1.0)
        value = number_of(output)
        if value is None:
            return None
        value = value / factor if factor != 1.0 else value  # on a device, each division is a kernel
        return site, value / scale_of(scaler) if scaler is not None else value, name

    def _pop_scaler(self, output: torch.Tensor) -> Any:
        """Return the gradient scaler that has scaled a loss; None: none has."""
        known = self._scaled.pop(id(output), None)
        return known[1]() if known is not None and known[0]() is output else None


def is_of_nothing(loss: object) -> bool:
    """Return whether a loss that is on the host is NaN or exactly 0, as the mean or the sum of no label is."""
    return isinstance(loss, float) and (loss != loss or not loss)


def _codes(frame: FrameType | None, site: CallSite | None) -> Iterator[CodeType]:
    """Iterate over the code of each frame up to that of a place."""
    while frame is not None and site is not None:
        yield frame.f_code
        frame = None if frame.f_code is site.code else frame.f_back


def _loss_node(output: torch.Tensor, scaler: Any) -> Any:
    """Return the graph node of a loss as it was before it was scaled."""
    node = output.grad_fn
    return node.next_functions[0][0] if scaler is not None and node is not None else node


_KNOWN: Final[dict[int, tuple[CodeType, dict[int, CallSite] | None]]] = {}
"""Each code object that was seen above a backward pass, by its id, and the places in it; None: it is no script's.

The hash of a code object is that of all its constants, which takes microseconds.
"""
_MAX_KNOWN: Final = 1024
_SITES: Final[dict[CodeType, dict[int, CallSite]]] = {}
"""The places in each code object of a script; equal ones, such as those of a notebook's cell, have the same."""


def _sites(code: CodeType) -> dict[int, CallSite] | None:
    """Return the places in a code object; None for one of PyTorch, Leadline or a function mode."""
    if len(_KNOWN) > _MAX_KNOWN:
        _KNOWN.clear()  # code that is generated again and again
    is_internal = code.co_name == "__torch_function__" or code.co_filename.startswith(_INTERNAL_FOLDERS)
    sites = None if is_internal else _SITES.setdefault(code, {})
    _KNOWN[id(code)] = code, sites
    return sites


def call_site(frame: FrameType | None) -> CallSite | None:
    """Return the place in the script's innermost frame, outside PyTorch, Leadline and function modes."""
    known = _KNOWN
    while frame is not None:
        code = frame.f_code
        seen = known.get(id(code))
        sites = seen[1] if seen is not None and seen[0] is code else _sites(code)
        if sites is not None:
            instruction = frame.f_lasti
            return sites.get(instruction) or sites.setdefault(instruction, CallSite(code, instruction))
        frame = frame.f_back
    return None
