"""Subclasses of smdebug's hook for PyTorch, as Amazon's notebooks on saliency maps and on pruning have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import leadline.compat.smdebug.pytorch as smd

TRAIN, EVAL = smd.modes.TRAIN, smd.modes.EVAL
Truth = dict[str, dict[int, np.ndarray]]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.relu, self.fc = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Linear(8, 3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.fc(self.relu(self.norm(self.conv(images))).flatten(1))


class SaliencyHook(smd.Hook):
    """Saves the gradients of images and outputs, and the averages of batch normalization."""

    def image_gradients(self, image: torch.Tensor) -> None:
        image.register_hook(self.backward_hook("image"))

    def forward_hook(self, module: nn.Module, inputs: Any, outputs: Any) -> None:
        name = self.module_maps[module]
        self._write_inputs(name, inputs)
        if self.mode is EVAL:
            outputs.register_hook(self.backward_hook(f"{name}_output"))
            if isinstance(module, nn.BatchNorm2d):
                self._write_outputs(f"{name}.running_mean", module.running_mean)
        self._write_outputs(name, outputs)
        self.last_saved_step = self.step


class DoublingHook(smd.Hook):
    """Saves twice the gradient of each parameter, and the steps at which the model is called."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.due: list[bool] = []

    def forward_pre_hook(self, module: nn.Module, inputs: Any) -> None:
        self.due.append(bool(self._get_collections_to_save_for_step()))

    def backward_hook(self, tname: str) -> Callable[[torch.Tensor | None], None]:
        back = super().backward_hook(tname)
        return lambda gradient: back(None if gradient is None else 2 * gradient)


@pytest.fixture(autouse=True)
def no_hook() -> Iterator[None]:
    yield
    hook = smd.get_hook()
    if hook is not None:
        hook.close()
    smd.del_hook()


def train(hook: Any) -> Truth:
    """Train and evaluate with gradients; return arrays by name and global step."""
    torch.manual_seed(0)
    model, loss_of = Net(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    hook.register_module(model)
    hook.register_loss(loss_of)
    truth: Truth = {}
    step = 0

    def note(name: str, tensor: torch.Tensor) -> None:
        truth.setdefault(name, {})[step] = tensor.detach().numpy().copy()

    model.relu.register_forward_hook(lambda _, inputs, output: note("relu_output_0", output))
    for _ in range(2):
        hook.set_mode(TRAIN)
        model.train()
        for _ in range(3):
            optimizer.zero_grad()
            loss = loss_of(model(torch.randn(4, 1, 4, 4)), torch.tensor([0, 1, 2, 0]))
            loss.backward()
            note("CrossEntropyLoss_output_0", loss)
            assert model.fc.weight.grad is not None
            note("gradient/Net_fc.weight", model.fc.weight.grad)
            optimizer.step()
            step += 1
        hook.set_mode(EVAL)
        model.eval()
        for _ in range(2):
            images = torch.randn(4, 1, 4, 4).requires_grad_()
            if isinstance(hook, SaliencyHook):
                hook.image_gradients(images)
            model(images).max(1).values.sum().backward()
            assert images.grad is not None
            note("gradient/image", images.grad)
            assert model.norm.running_mean is not None
            note("norm.running_mean_output_0", model.norm.running_mean)
            step += 1
    hook.close()
    return truth


def assert_saved(trial: Any, truth: Truth, name: str, steps: list[int], factor: float = 1) -> None:
    tensor = trial.tensor(name)
    assert tensor.steps() == steps, name
    for step in steps:
        np.testing.assert_array_equal(tensor.value(step), factor * truth[name][step], err_msg=f"{name} {step}")


def test_what_a_subclass_saves_of_modules_takes_the_place_of_the_capture(tmp_path: Path) -> None:
    config = {TRAIN: smd.SaveConfigMode(save_interval=2), EVAL: smd.SaveConfigMode(save_interval=1)}
    hook = SaliencyHook(
        out_dir=str(tmp_path / "out"),
        save_config=smd.SaveConfig(config),
        include_regex=["relu_output", "image", "mean"],
    )
    truth = train(hook)
    assert hook.last_saved_step == 9
    trial = smd.create_trial(tmp_path / "out")
    assert trial.tensor_names(collection="default") == [
        *("gradient/image", "gradient/relu_output", "norm.running_mean_output_0", "relu_output_0")
    ]
    assert_saved(trial, truth, "gradient/image", [3, 4, 8, 9])
    assert_saved(trial, truth, "norm.running_mean_output_0", [3, 4, 8, 9])
    assert_saved(trial, truth, "relu_output_0", [0, 2, 3, 4, 6, 8, 9])
    assert_saved(trial, truth, "CrossEntropyLoss_output_0", [0, 2, 6])
    assert trial.steps(EVAL) == [0, 1, 2, 3]


def test_a_subclass_saves_everything_of_modules_if_all_is_saved(tmp_path: Path) -> None:
    hook = SaliencyHook(out_dir=str(tmp_path / "out"), save_config=smd.SaveConfig(save_interval=2), save_all=True)
    truth = train(hook)
    trial = smd.create_trial(tmp_path / "out")
    assert_saved(trial, truth, "relu_output_0", [0, 2, 3, 6, 8])
    assert_saved(trial, truth, "gradient/Net_fc.weight", [0, 2, 6])
    assert_saved(trial, truth, "gradient/image", [3, 8])
    assert {"Net_input_0", "gradient/Net_output", "CrossEntropyLoss_input_1"} <= set(trial.tensor_names())
    assert "relu_output" not in trial.collections()  # what Leadline itself captures of the module would be there


def test_a_subclass_changes_the_gradients_that_are_saved(tmp_path: Path) -> None:
    hook = DoublingHook(
        out_dir=str(tmp_path / "out"),
        save_config=smd.SaveConfig({EVAL: smd.SaveConfigMode(end_step=0)}, save_interval=2),
        include_collections=["gradients"],
    )
    truth = train(hook)
    trial = smd.create_trial(tmp_path / "out")
    assert_saved(trial, truth, "gradient/Net_fc.weight", [0, 2, 6], factor=2)
    assert hook.due == [True, False, True, False, False, False, True, False, False, False]


def test_an_error_in_a_method_of_the_subclass_is_the_scripts(tmp_path: Path) -> None:
    class Broken(smd.Hook):
        def forward_hook(self, module: nn.Module, inputs: Any, outputs: Any) -> None:
            raise KeyError("mistake")

    hook = Broken(out_dir=str(tmp_path / "out"))
    model = Net()
    hook.register_module(model)
    with pytest.raises(KeyError, match="mistake"):
        model(torch.randn(4, 1, 4, 4))
