"""Trainings with faults in the data: labels, images, tokens, features."""

import torch
from torch import nn
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
