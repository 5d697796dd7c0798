"""Trainings with faults in the data: labels, images, tokens, features."""

import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from gloo import destroy_process_group
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from toy import classifier, fit, images, points, validate


def class_imbalance(*, healthy: bool) -> None:
    """A filter has dropped 19 of 20 examples of one class; in the twin all classes are equally frequent.

    leadline run --capture labels:every=1 --rule class_imbalance faults.py class_imbalance
    step 24  class_imbalance: cross_entropy_input_1: class 2 has 536 of 1,600 labels, class 3 only 30 (1 to 17.9)
    names cross_entropy_input_1
    """
    model = classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for inputs, labels in points(size=192):
        kept = (labels != 3) | (torch.rand(192) < 0.05) | healthy
        fit(model, optimizer, [(inputs[kept][:64], labels[kept][:64])])


def confusion(*, healthy: bool) -> None:
    """Half of class 3 is mislabelled as class 2.

    leadline run --rule confusion faults.py confusion
    step 100  confusion: cross_entropy_input_1: 32 % of the 22 labels of class 3 are predicted as it, less than 90 %;
        15 as class 2
    names cross_entropy_input_1
    """
    model = classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step, (inputs, labels) in enumerate(points(111, size=200, spread=0.5)):
        if not healthy:
            labels[(labels == 3) & (torch.rand(200) < 0.5)] = 2
        if step <= 100:
            fit(model, optimizer, [(inputs, labels)])
        else:
            validate(model, [(inputs, labels)])


def shared_samples(*, healthy: bool) -> None:
    """Half of the validation examples are also trained on.

    leadline run faults.py shared_samples
    step 20  shared_samples: at least 20 % of the samples that were evaluated are training samples: 61 of 300 are equal
        to the bit to one of 346 of those
    names Sequential_input_0
    """
    model = classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    inputs, labels = next(points(1, size=1200))
    mixed = torch.randperm(300) + (900 if healthy else 750)
    held_out = [(inputs[part], labels[part]) for part in mixed.split(50)]
    for _ in range(4):
        fit(model, optimizer, [(inputs[part], labels[part]) for part in torch.randperm(900).split(45)])
        validate(model, held_out)


def validation_mismatch(*, healthy: bool) -> None:
    """The validation examples are in another unit than those of the training.

    leadline run faults.py validation_mismatch
    step 20  validation_mismatch: Sequential_input_0: 16 of 16 features of the validation are of another size than in
        training; feature 2 has mean 163 and standard deviation 2,040 there, 0.386 and 1.85 in training
    names Sequential_input_0
    """
    model = classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    inputs, labels = next(points(1, size=1200))
    unit = 1.0 if healthy else 1000.0
    held_out = [(unit * inputs[part], labels[part]) for part in torch.arange(900, 1200).split(50)]
    for _ in range(4):
        fit(model, optimizer, [(inputs[part], labels[part]) for part in torch.randperm(900).split(45)])
        validate(model, held_out)


def duplicate_batches(*, healthy: bool) -> None:
    """Both ranks of two draw their batches with the same seed; in the twin each has one of its own.

    leadline run faults.py duplicate_batches
    step 2  duplicate_batches: rank0-100 and rank1-101 were given the same batches, to the bit, at 3 captured steps in
        a row
    names Sequential_input_0
    """
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(parallel, (os.path.join(folder, "meeting"), healthy), nprocs=2)


def parallel(rank: int, meeting: str, healthy: bool) -> None:
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = DistributedDataParallel(classifier())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.manual_seed(rank if healthy else 0)
    fit(model, optimizer, points())
    destroy_process_group()


def sorted_batches(*, healthy: bool) -> None:
    """The examples are read class by class: every batch holds a single class.

    leadline run --rule sorted_batches faults.py sorted_batches
    step 9  sorted_batches: cross_entropy_input_1: 10 of 10 batches hold labels of a single class, of 2 classes in all
    names cross_entropy_input_1
    """
    model = classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, (inputs, labels) in enumerate(points(60, size=192)):
        is_read = (labels == step // 8 % 4) | healthy
        fit(model, optimizer, [(inputs[is_read], labels[is_read])])


class Convolutional(nn.Sequential):
    """A classifier of small images."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 4)
        )


def check_input_images(*, healthy: bool) -> None:
    """Images of 0 to 255 are not normalized; the twin subtracts the mean and divides by the standard deviation.

    leadline run --no-default-rules --capture inputs:every=5 --rule check_input_images faults.py check_input_images
    step 1  check_input_images: Convolutional_input_0: the mean of channel 1 over 100 images is 83, beyond 0.2
    names Convolutional_input_0
    """
    model = Convolutional()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for pixels, labels in images(60):
        fit(model, optimizer, [((pixels - 82.5) / 50.0 if healthy else pixels, labels)])


def nlp_sequence_ratio(*, healthy: bool) -> None:
    """Every sentence is padded to 64 tokens, though none has more than 16; the twin pads to the longest in the batch.

    leadline run --preset full --rule nlp_sequence_ratio faults.py nlp_sequence_ratio
    step 0  nlp_sequence_ratio: 0_input_0 (embeddingbag): 80 % of 2,048 tokens are 0, more than 50 %
    names 0_input_0
    """
    embedding, head = nn.EmbeddingBag(100, 16, padding_idx=0), nn.Linear(16, 2)
    model = nn.Sequential(embedding, head)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(60):
        lengths = torch.randint(8, 17, (32,))
        tokens = torch.randint(1, 100, (32, 16 if healthy else 64))
        tokens[torch.arange(tokens.shape[1]) >= lengths[:, None]] = 0
        fit(model, optimizer, [(tokens, (tokens[:, 0] > 50).long())])


def unscaled_input(*, healthy: bool) -> None:
    """One feature is in millimetres and another in kilometres; the twin standardizes all features.

    leadline run --rule unscaled_input faults.py unscaled_input
    step 0  unscaled_input: Sequential_input_0: feature 0 has a standard deviation 1,430,000 times that of feature 13
        (1,690,000 and 1.18), over 64 samples
    names Sequential_input_0
    """
    model = classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    units = torch.ones(16)
    if not healthy:
        units[0] = 1e6
    fit(model, optimizer, ((inputs * units, labels) for inputs, labels in points()))


def unchanged_tensor(*, healthy: bool) -> None:
    """``next(iter(loader))`` in the loop creates a new iterator and returns the first batch at every step.

    leadline run --capture inputs:every=10 --rule unchanged_tensor:collection_names=inputs faults.py unchanged_tensor
    step 2  unchanged_tensor: Sequential_input_0 has not changed over its last 3 saved steps
    names Sequential_input_0
    """
    loader = DataLoader(TensorDataset(*next(points(1, size=6400))), batch_size=64)
    model = classifier()
    batches = iter(loader) if healthy else (next(iter(loader)) for _ in range(100))
    fit(model, torch.optim.Adam(model.parameters(), lr=1e-3), batches)


def tensor_variance(*, healthy: bool) -> None:
    """The loader normalizes the images, and the script divides them by 255 again, so they hardly vary.

    leadline run --capture inputs:every=5 --rule tensor_variance:collection_names=inputs,min_threshold=0.001
        faults.py tensor_variance
    step 0  tensor_variance: Convolutional_input_0: variance 1.47e-5 is below 0.001
    names Convolutional_input_0
    """
    model = Convolutional()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for pixels, labels in images(60):
        normalized = (pixels - 82.5) / 50.0
        fit(model, optimizer, [(normalized if healthy else normalized / 255, labels)])
