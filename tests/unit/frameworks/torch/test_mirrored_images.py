"""Data sets whose images are mirrored at random, and their masks with them or not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from leadline.frameworks.torch.check import mirrored_images as module
from leadline.frameworks.torch.check import script_data
from leadline.frameworks.torch.check.mirrored_images import mirrored_images

Pair = tuple[torch.Tensor, torch.Tensor]
IMAGES = torch.randn(6, 3, 8, 8, generator=torch.Generator().manual_seed(0))
MASKS = (IMAGES[:, :1] > 0.3).long()


class Data(Dataset[Any]):
    def __init__(self, augment: Callable[[torch.Tensor, torch.Tensor], Any], masks: torch.Tensor = MASKS) -> None:
        self.augment, self.masks = augment, masks

    def __len__(self) -> int:
        return len(IMAGES)

    def __getitem__(self, index: int) -> Any:
        return self.augment(IMAGES[index], self.masks[index])


def is_mirrored() -> bool:
    return bool(torch.rand(()) < 0.5)


def image_alone(image: torch.Tensor, mask: torch.Tensor) -> Pair:
    return (image.flip(-1) if is_mirrored() else image), mask


def upside_down(image: torch.Tensor, mask: torch.Tensor) -> dict[str, Any]:
    image = image.flip(-2) if is_mirrored() else image
    return {"image": image.permute(1, 2, 0).numpy(), "mask": mask[0].numpy(), "name": "river"}


def both(image: torch.Tensor, mask: torch.Tensor) -> Pair:
    return (image.flip(-1), mask.flip(-1)) if is_mirrored() else (image, mask)


def neither(image: torch.Tensor, mask: torch.Tensor) -> Pair:
    return image, mask


def two_views(image: torch.Tensor, mask: torch.Tensor) -> Pair:
    return image_alone(image, mask)[0], image_alone(image, mask)[0]


def view_and_original(image: torch.Tensor, mask: torch.Tensor) -> Pair:
    return image_alone(image, mask)[0], (255 * image).round()


def of_a_class(image: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, int]:
    return image_alone(image, mask)[0], 3


def raises(image: torch.Tensor, mask: torch.Tensor) -> Pair:
    raise KeyError("no such file")


def message(augment: Callable[[torch.Tensor, torch.Tensor], Any], masks: torch.Tensor = MASKS) -> str:
    torch.manual_seed(0)
    loader = DataLoader(Data(augment, masks), batch_size=2)
    assert len(loader) == 3
    tested = mirrored_images()
    return tested.message if tested is not None else ""


def test_a_mask_that_stays_as_it_is_is_named() -> None:
    assert message(image_alone) == "Data mirrors images at random, left to right, and not their masks"
    assert message(upside_down) == "Data mirrors images at random, top to bottom, and not their masks"


@pytest.mark.parametrize("augment", [both, neither, two_views, view_and_original, of_a_class])
def test_other_data_are_not_named(augment: Callable[[torch.Tensor, torch.Tensor], Any]) -> None:
    assert message(augment) == ""


def test_masks_that_are_even_are_not_named() -> None:
    assert message(image_alone, MASKS | MASKS.flip(-1)) == ""
    assert message(image_alone, torch.ones_like(MASKS)) == ""


def test_a_stream_has_no_samples_to_be_read_again() -> None:
    class Stream(IterableDataset[Any]):
        def __iter__(self) -> Any:
            raise AssertionError

    loader = DataLoader(Stream())
    assert mirrored_images() is None
    del loader


def test_a_data_set_that_fails_or_never_returns_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert message(raises) == ""
    monkeypatch.setattr(script_data, "_SECONDS", 0.05)
    released = threading.Event()

    def waits(image: torch.Tensor, mask: torch.Tensor) -> Pair:
        released.wait()
        return image, mask

    assert message(waits) == ""
    released.set()


def test_a_data_set_in_memory_that_processes_share_is_left_alone() -> None:
    assert message(image_alone, MASKS.clone().share_memory_()) == ""


def test_pictures_of_arrays_have_their_channels_first() -> None:
    assert module._planes(np.zeros((8, 9, 3))).shape == (3, 8, 9)  # type: ignore[union-attr]
    assert module._planes(torch.zeros(1, 8, 9)).shape == (1, 8, 9)  # type: ignore[union-attr]
    assert module._planes(torch.zeros(7)) is None
