"""Containers that hold one module several times."""

from __future__ import annotations

from torch import nn

from leadline.frameworks.torch.diagnose.repeated_modules import repeated_modules


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        block, activation = nn.Linear(4, 4), nn.ReLU()
        self.blocks = nn.ModuleList([block] * 3)
        self.body = nn.Sequential(nn.Linear(4, 4), activation, nn.Linear(4, 4), activation)
        self.named = nn.ModuleDict({"one": block, "other": nn.Linear(4, 4)})


def test_lists_of_one_module_are_found_and_shared_activations_are_not() -> None:
    assert repeated_modules({Model(): "net."}) == {"net.blocks/repeated_module": 3.0}


def test_a_model_that_is_such_a_container_has_the_name_of_its_class() -> None:
    layer = nn.Linear(2, 2)
    assert repeated_modules({nn.Sequential(layer, nn.Tanh(), layer): ""}) == {"Sequential/repeated_module": 2.0}
