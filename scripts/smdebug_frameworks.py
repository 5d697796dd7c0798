"""What smdebug's tests expect of frameworks: data sets without a download, and Keras 2's names of what Keras 3 has.

Imported by each process of scripts/smdebug-conformance whose suite needs it. The images are random: no test of smdebug
depends on what is on them.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np

IMAGES = 4_000
"""Of the training; fewer than the real data sets have, so that loops over all of them are short."""
CLASSES = 10


def images(count: int = IMAGES, shape: tuple[int, ...] = (28, 28)) -> tuple[Any, Any]:
    """Return random images of bytes, and labels."""
    generator = np.random.default_rng(count)
    pictures = generator.integers(0, 256, (count, *shape), dtype=np.uint8)
    return pictures, generator.integers(0, CLASSES, count).astype(np.uint8)


def prepare() -> None:
    """Give the frameworks that are installed what the tests expect of them."""
    if find_spec("mxnet") is not None:
        _prepare_mxnet()
    if find_spec("tensorflow") is not None:
        _prepare_keras()
        sys.modules["tensorflow_datasets"] = _tensorflow_datasets()
        sys.modules["sklearn"], sys.modules["sklearn.preprocessing"] = _sklearn()
    elif find_spec("torch") is not None:
        _prepare_torchvision()


def _prepare_mxnet() -> None:
    import mxnet as mx
    from mxnet.gluon.data.vision import datasets

    def _get_data(self: Any) -> None:
        pictures, labels = images(IMAGES if self._train else IMAGES // 6, (28, 28, 1))
        self._data, self._label = mx.nd.array(pictures, dtype=np.uint8), labels.astype(np.int32)

    datasets.MNIST._get_data = _get_data


def _prepare_keras() -> None:
    import keras

    def load_data(*_: object) -> Any:
        return images(), images(IMAGES // 6)

    keras.datasets.mnist.load_data = load_data
    keras.datasets.fashion_mnist.load_data = load_data
    keras.datasets.cifar10.load_data = lambda: tuple(
        (pictures, labels.reshape(-1, 1))
        for pictures, labels in (images(5_000, (32, 32, 3)), images(1_000, (32, 32, 3)))
    )
    legacy = sys.modules["tensorflow.keras.optimizers.legacy"] = ModuleType("tensorflow.keras.optimizers.legacy")
    for name in ("Adadelta", "Adam", "RMSprop", "SGD"):
        setattr(legacy, name, getattr(keras.optimizers, name))
    keras.Metric.reset_states = keras.Metric.reset_state
    save = keras.Model.save

    def save_model(self: Any, path: Any, *given: Any, save_format: str | None = None, **named: Any) -> Any:
        """Save in the one format that Keras 3 has, in place of a folder of TensorFlow's."""
        if save_format == "tf":
            os.makedirs(path, exist_ok=True)
            path = f"{path}/model.keras"
        return save(self, path, *given, **named)

    keras.Model.save = save_model


def _tensorflow_datasets() -> ModuleType:
    import tensorflow as tf

    def load(name: str, *_: object, with_info: bool = False, **__: object) -> Any:
        if name == "iris":
            generator = np.random.default_rng(0)
            flowers = generator.random((150, 4), dtype=np.float32), generator.integers(0, 3, 150)
            return tf.data.Dataset.from_tensor_slices(flowers)
        if name != "mnist":
            raise NotImplementedError(f"no stand-in for the data set {name}")
        parts = {"train": images(IMAGES, (28, 28, 1)), "test": images(IMAGES // 6, (28, 28, 1))}
        info = ModuleType("info")
        info.splits = {}  # type: ignore[attr-defined]
        for part, (pictures, _labels) in parts.items():
            split = info.splits[part] = ModuleType(part)  # type: ignore[attr-defined]
            split.num_examples = len(pictures)  # type: ignore[attr-defined]
        found = {part: tf.data.Dataset.from_tensor_slices(arrays) for part, arrays in parts.items()}
        return (found, info) if with_info else found

    module = ModuleType("tensorflow_datasets")
    module.load, module.disable_progress_bar = load, lambda: None  # type: ignore[attr-defined]
    module.Split = ModuleType("Split")  # type: ignore[attr-defined]
    module.Split.TRAIN = "train"
    return module


def _sklearn() -> tuple[ModuleType, ModuleType]:
    class LabelEncoder:
        def fit(self, labels: Any) -> None:
            self._classes = np.unique(labels)

        def transform(self, labels: Any) -> Any:
            return np.searchsorted(self._classes, np.ravel(labels))

    preprocessing = ModuleType("sklearn.preprocessing")
    preprocessing.LabelEncoder = LabelEncoder  # type: ignore[attr-defined]
    return ModuleType("sklearn"), preprocessing


def _prepare_torchvision() -> None:
    """Stand for torchvision with generated tensors, whatever the transformation is."""
    import torch

    class Pictures(torch.utils.data.Dataset):
        def __init__(self, *_: object, train: bool = True, **__: object) -> None:
            pictures, labels = images(4_000 if train else 400, self.shape)
            self.pictures, self.labels = torch.from_numpy(pictures) / 255.0, labels.astype(int).tolist()

        def __getitem__(self, index: int) -> Any:
            return self.pictures[index], self.labels[index]

        def __len__(self) -> int:
            return len(self.labels)

    vision = {name: ModuleType(f"torchvision{name}") for name in ("", ".datasets", ".transforms")}
    datasets, transforms = vision[".datasets"], vision[".transforms"]
    for name, shape in {"CIFAR10": (3, 32, 32), "MNIST": (1, 28, 28), "FashionMNIST": (1, 28, 28)}.items():
        setattr(datasets, name, type(name, (Pictures,), {"shape": shape}))
    for name in ("Compose", "ToTensor", "Normalize"):
        setattr(transforms, name, lambda *_: None)
    vision[""].datasets, vision[""].transforms = datasets, transforms  # type: ignore[attr-defined]
    sys.modules |= {module.__name__: module for module in vision.values()}


prepare()
