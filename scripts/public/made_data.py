"""Small made data in place of what public programs download, and a seed for programs that set none.

The functions are called by name in front of a program (``made`` in ``programs.toml``); both of its runs have them.
They replace what a library loads, and no code of the program.
"""

from __future__ import annotations

import atexit
import gc
import gzip
import hashlib
import importlib.util
import json
import os
import random
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

TRAIN, TEST = 1024, 256
"""How many images a made data set has."""
_KEPT: list[Any] = []


def seed() -> None:
    """Seed every source of random numbers that is installed."""
    import numpy as np

    random.seed(0)
    np.random.seed(0)
    if importlib.util.find_spec("torch"):
        import torch

        torch.manual_seed(0)
        torch.use_deterministic_algorithms(True, warn_only=True)
        if importlib.util.find_spec("torchvision"):
            _declare_operators()
    if importlib.util.find_spec("tensorflow"):
        import tensorflow as tf

        tf.random.set_seed(0)
    if importlib.util.find_spec("mxnet"):
        import mxnet as mx

        mx.random.seed(0)


def _declare_operators() -> None:
    """Let torchvision be imported whose operators are built for another PyTorch; no program here computes them."""
    import torch

    spec = importlib.util.find_spec("torchvision")
    try:
        torch.ops.load_library(str(Path(str(spec and spec.origin)).with_name("_C.so")))
    except OSError:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _KEPT.append(library)


def images(count: int, height: int = 28, width: int = 28, channels: int = 0, classes: int = 10) -> tuple[Any, Any]:
    """Return images of bytes, one bright patch for each class on noise, and their classes."""
    import numpy as np

    generator = np.random.default_rng(count)
    labels = generator.integers(0, classes, count)
    shape = (count, height, width, channels) if channels else (count, height, width)
    values = generator.integers(0, 64, shape)
    for image, label in zip(values, labels, strict=True):
        row, column = divmod(int(label) % 16, 4)
        image[row * height // 4 :, column * width // 4 :][: height // 4, : width // 4] += 160
    return values.astype(np.uint8), labels.astype(np.int64)


def torchvision() -> None:
    """Made images in place of MNIST, Fashion-MNIST and CIFAR-10."""
    import torch
    from PIL import Image
    from torchvision import datasets

    def maker(channels: int, side: int) -> type:
        class Made(datasets.VisionDataset):
            classes = tuple(str(number) for number in range(10))

            def __init__(
                self,
                root: str = ".",
                train: bool = True,
                transform: Callable[..., Any] | None = None,
                target_transform: Callable[..., Any] | None = None,
                download: bool = False,
            ) -> None:
                super().__init__(root, transform=transform, target_transform=target_transform)
                self.train = train
                values, labels = images(TRAIN if train else TEST, side, side, channels)
                self.data = values if channels else torch.from_numpy(values)
                self.targets = labels.tolist() if channels else torch.from_numpy(labels)

            def __getitem__(self, index: int) -> tuple[Any, Any]:
                image: Any = Image.fromarray(self.data[index] if channels else self.data[index].numpy())
                label: Any = int(self.targets[index])
                image = self.transform(image) if self.transform else image
                return image, self.target_transform(label) if self.target_transform else label

            def __len__(self) -> int:
                return len(self.data)

        return Made

    datasets.MNIST = datasets.FashionMNIST = maker(0, 28)
    datasets.mnist.MNIST = datasets.mnist.FashionMNIST = datasets.MNIST
    datasets.CIFAR10 = maker(3, 32)


def lightning_mnist() -> None:
    """The made images of `torchvision` in place of Lightning's own MNIST."""
    from lightning.pytorch.demos import mnist_datamodule
    from torchvision import datasets

    mnist_datamodule.MNIST = datasets.MNIST


def plots() -> None:
    """Stand-ins for libraries of plots that are not installed."""
    from unittest.mock import MagicMock

    for name in ("plotnine", "seaborn"):
        if importlib.util.find_spec(name) is None:
            sys.modules[name] = MagicMock()


def keras() -> None:
    """Made images in place of what ``keras.datasets.mnist`` and ``fashion_mnist`` load."""
    from keras.src.datasets import fashion_mnist, mnist

    def made(*_: Any, **__: Any) -> str:
        import numpy as np

        (x, y), (x_test, y_test) = images(TRAIN), images(TEST)
        np.savez("made.npz", x_train=x, y_train=y, x_test=x_test, y_test=y_test)
        return "made.npz"

    mnist.get_file = made

    def made_file(fname: str, **_: Any) -> str:
        return str(idx_file(Path(fname)))

    fashion_mnist.get_file = made_file


def idx_file(path: Path) -> Path:
    """Write a file of MNIST's format: images or labels, for training unless its name begins in *t10k*."""
    values, labels = images(TEST if path.name.startswith("t10k") else TRAIN)
    has_images = "idx3" in path.name
    head = struct.pack(">IIII", 2051, len(values), 28, 28) if has_images else struct.pack(">II", 2049, len(labels))
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wb") as file:
        file.write(head + (values if has_images else labels.astype("uint8")).tobytes())
    return path


def jax_mnist() -> None:
    """Made images where the examples of JAX keep MNIST, in front of the download."""
    for kind in ("train", "t10k"):
        for what in ("images-idx3", "labels-idx1"):
            idx_file(Path("/tmp/jax_example_data", f"{kind}-{what}-ubyte.gz"))


def gluon() -> None:
    """Made images in place of Gluon's MNIST."""
    import mxnet as mx

    def made(self: Any) -> None:
        values, labels = images(TRAIN if self._train else TEST)
        self._data, self._label = mx.nd.array(values[..., None], dtype="uint8"), labels.astype("int32")

    mx.gluon.data.vision.datasets.MNIST._get_data = made


def planetoid() -> None:
    """A made graph of 400 nodes with seven communities in place of Cora, CiteSeer and PubMed."""
    import torch
    from torch_geometric import datasets
    from torch_geometric.data import Data, InMemoryDataset

    class Made(InMemoryDataset):
        def __init__(self, root: str, name: str = "", split: str = "public", transform: Any = None, **_: Any) -> None:
            super().__init__(None, transform)
            generator = torch.Generator().manual_seed(0)
            labels = torch.arange(400) % 7
            pairs = torch.randint(0, 400, (2, 6000), generator=generator)
            same = labels[pairs[0]] == labels[pairs[1]]
            pairs = pairs[:, same | (torch.rand(6000, generator=generator) < 0.05)]
            values = (torch.rand(400, 32, generator=generator) < 0.1).float()
            values[torch.arange(400), labels] = 1.0
            data = Data(x=values, y=labels, edge_index=torch.cat([pairs, pairs.flip(0)], 1))
            place = torch.arange(400)
            data.train_mask, data.val_mask, data.test_mask = place < 140, (place >= 140) & (place < 250), place >= 250
            self.data, self.slices = self.collate([data])

    datasets.Planetoid = Made


def hub() -> None:
    """A small BERT and a small GPT-2 with tokenizers in the folders ``bert-base-cased`` and ``gpt2``, and texts.

    Libraries look for a folder of this name before they ask a hub. ``glue`` has pairs of sentences, ``texts`` has
    a file for language modelling, ``chats`` has conversations and ``preferences`` has pairs of answers.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import (
        BertConfig,
        BertForSequenceClassification,
        GPT2Config,
        GPT2LMHeadModel,
        PreTrainedTokenizerFast,
    )

    os.environ["HF_HUB_OFFLINE"] = "1"
    sys.modules["evaluate"] = _metrics()
    if Path("gpt2").is_dir():
        return
    choose = random.Random(0)
    words = [f"{first}{second}{last}" for first in "bdfgk" for second in "aeiou" for last in "lmnrst"]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<|endoftext|>"]
    tokenizer = Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(special + words)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()

    def sentence(beginning: str = "") -> str:
        return " ".join([beginning, *choose.choices(words, k=12)]).strip()

    size = len(special) + len(words)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=64,
    )
    fast.save_pretrained("bert-base-cased")
    config = BertConfig(
        vocab_size=size,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    BertForSequenceClassification(config).save_pretrained("bert-base-cased")
    end = "<|endoftext|>"
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=end, eos_token=end, pad_token="[PAD]")
    fast.chat_template = "{% for message in messages %}{{ message['content'] }} {% endfor %}" + end
    fast.model_max_length = 64
    fast.save_pretrained("gpt2")
    small = GPT2Config(
        vocab_size=size, n_positions=64, n_embd=32, n_layer=2, n_head=2, bos_token_id=5, eos_token_id=5, pad_token_id=0
    )
    GPT2LMHeadModel(small).save_pretrained("gpt2")

    def rows(count: int, row: Callable[[int], dict[str, Any]]) -> str:
        return "".join(f"{json.dumps(row(number))}\n" for number in range(count))

    def pair(number: int) -> dict[str, Any]:
        label = number % 2
        return {"idx": number, "label": label, "sentence1": sentence(words[label]), "sentence2": sentence()}

    def chat(_: int) -> dict[str, Any]:
        asked, answered = ({"role": role, "content": sentence()} for role in ("user", "assistant"))
        return {"messages": [asked, answered]}

    def preference(_: int) -> dict[str, Any]:
        asked = [{"role": "user", "content": sentence()}]
        good, bad = ([{"role": "assistant", "content": sentence(words[at])}] for at in (0, 1))
        return {"prompt": asked, "chosen": good, "rejected": bad}

    for folder, row in (("glue", pair), ("chats", chat), ("preferences", preference)):
        Path(folder).mkdir()
        for split, count in (("train", 256), ("validation", 64), ("test", 64)):
            (Path(folder) / f"{split}.jsonl").write_text(rows(count, row))
    (Path("glue") / "README.md").write_text(
        "---\nconfigs:\n- config_name: mrpc\n  data_files:\n"
        + "".join(f"  - split: {name}\n    path: {name}.jsonl\n" for name in ("train", "validation", "test"))
        + "---\n"
    )
    Path("texts.txt").write_text("\n".join(sentence() for _ in range(2000)))


def _metrics() -> Any:
    """Return a stand-in for the library ``evaluate``, whose metrics come from a hub: the share of right answers."""
    from types import ModuleType

    class Accuracy:
        def __init__(self) -> None:
            self.right: list[bool] = []

        def add_batch(self, predictions: Any, references: Any) -> None:
            self.right += (predictions == references).tolist()

        def compute(self, predictions: Any = None, references: Any = None) -> dict[str, float]:
            if predictions is not None:
                self.add_batch(predictions, references)
            right, self.right = self.right, []
            return {"accuracy": sum(right) / len(right)}

    module: Any = ModuleType("evaluate")
    module.load = lambda *_: Accuracy()
    return module


def hashes() -> None:
    """At the exit write a hash of every trained array that is alive to ``$MADE_HASHES``, a file for each process."""
    if path := os.environ.get("MADE_HASHES"):
        file = Path(f"{path}.{os.getpid()}")
        atexit.register(lambda: file.write_text("\n".join(sorted(_hashes(gc.get_objects())))))


def _local(tensor: Any) -> Any:
    """Return the part of a sharded tensor that this process has."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _hashes(objects: list[Any]) -> list[str]:
    found: list[bytes] = []
    modules = sys.modules
    kinds: list[tuple[type, Callable[[Any], bytes]]] = []
    if (torch := modules.get("torch")) is not None:
        kinds.append(
            (torch.nn.Parameter, lambda it: _local(it.detach()).contiguous().view(torch.uint8).numpy().tobytes())
        )
    if (keras_module := modules.get("keras")) is not None:
        kinds.append((keras_module.Variable, lambda it: keras_module.ops.convert_to_numpy(it.value).tobytes()))
    if (tf := modules.get("tensorflow")) is not None:
        kinds.append((tf.Variable, lambda it: it.numpy().tobytes()))
    if (mx := modules.get("mxnet")) is not None:
        kinds.append((mx.gluon.Parameter, lambda it: it.data(it.list_ctx()[0]).asnumpy().tobytes()))
    if (xgboost := modules.get("xgboost")) is not None:
        kinds.append((xgboost.Booster, lambda it: bytes(it.save_raw())))
    if (lightgbm := modules.get("lightgbm")) is not None:
        kinds.append((lightgbm.Booster, lambda it: it.model_to_string().encode()))
    for it in objects:
        for kind, contents in kinds:
            try:
                if issubclass(type(it), kind):
                    found.append(contents(it))
            except (RuntimeError, ValueError, TypeError, AttributeError, ReferenceError):
                continue  # without a value: deleted, on another device, or of an ended session
    if (jax := modules.get("jax")) is not None:
        import numpy as np

        numbers = (array for array in jax.live_arrays() if jax.dtypes.issubdtype(array.dtype, np.number))
        found += [np.asarray(array).tobytes() for array in numbers if array.size > 1]
    return [hashlib.sha256(contents).hexdigest()[:16] for contents in found]
