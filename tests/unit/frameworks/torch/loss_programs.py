"""Losses as people write them: with a mistake in what they are given, with an unfitting loss, and without."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import torch
from torch import nn
from torch.nn import functional as F

Loss = Callable[[], torch.Tensor]

X = torch.randn(32, 8, generator=torch.Generator().manual_seed(0))
NUMBERS = 3 * torch.randn(32, 1, generator=torch.Generator().manual_seed(1))
CLASSES = torch.arange(32) % 4
ONE_HOT = F.one_hot(CLASSES, 4).float()
BINARY = (torch.arange(32) % 2).float()[:, None]
TWO_COLUMNS = F.one_hot(torch.arange(32) % 2, 2).float()
SEVERAL = ((torch.arange(128) % 3) < 2).float().reshape(32, 4)


def out(size: int, *more: nn.Module) -> torch.Tensor:
    """Return the output of a model: one layer, and activations behind it."""
    return nn.Sequential(nn.Linear(8, size), *more)(X)


def bce_by_hand(p: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return -(y * torch.log(p + 1e-7) + (1 - y) * torch.log(1 - p + 1e-7)).mean()


def log_cosh(error: torch.Tensor) -> torch.Tensor:
    return (error + F.softplus(-2 * error) - math.log(2)).mean()


def quantile_error(error: torch.Tensor) -> torch.Tensor:
    return torch.where(error > 0, 0.9 * error, -0.1 * error).mean()


def squared_by_product(difference: torch.Tensor) -> torch.Tensor:
    return (difference * difference).mean()


def ctc(scores: torch.Tensor, labels: torch.Tensor | None = None, lengths: tuple[int, int] = (3, 3)) -> torch.Tensor:
    labels = torch.ones(2, 3, dtype=torch.long) if labels is None else labels
    return F.ctc_loss(scores, labels, torch.tensor([9, 9]), torch.tensor(lengths))


def of_frames(*more: nn.Module) -> torch.Tensor:
    return nn.Sequential(nn.Linear(8, 5), *more)(X[:18].reshape(9, 2, 8))


def of_sequences() -> torch.Tensor:
    scores = nn.Linear(8, 4)(X.reshape(4, 8, 8)).softmax(-1)
    return F.cross_entropy(scores.transpose(1, 2), CLASSES.reshape(4, 8))


def keras_cross_entropy(p: torch.Tensor, labels: torch.Tensor = ONE_HOT) -> torch.Tensor:
    """Return the categorical cross entropy as Keras computes it."""
    p = (p / p.sum(1, keepdim=True)).clamp(1e-7, 1 - 1e-7)
    return -(labels * torch.log(p)).sum(1).mean()


def keras_sparse_cross_entropy(p: torch.Tensor) -> torch.Tensor:
    return F.nll_loss(torch.log((p / p.sum(1, keepdim=True)).clamp(1e-7, 1 - 1e-7)), CLASSES)


MISTAKES: Final[dict[str, tuple[str, Loss]]] = {
    "normalized sigmoid": ("not_probabilities", lambda: keras_cross_entropy(out(4, nn.Sigmoid()))),
    "normalized scores": ("not_probabilities", lambda: keras_cross_entropy(out(4))),
    "normalized ReLU": ("not_probabilities", lambda: keras_cross_entropy(out(4, nn.ReLU()))),
    "normalized sigmoid, classes": ("not_probabilities", lambda: keras_sparse_cross_entropy(out(4, nn.Sigmoid()))),
    "rate for its logarithm": ("rate", lambda: F.poisson_nll_loss(out(1, nn.Softplus()), BINARY)),
    "softmax of one unit": ("softmax_of_one", lambda: F.binary_cross_entropy(out(1, nn.Softmax(1)), BINARY)),
    "softmax of one unit, mse": ("softmax_of_one", lambda: F.mse_loss(out(1, nn.Softmax(-1)), NUMBERS)),
    "softmax of one unit, by hand": ("softmax_of_one", lambda: bce_by_hand(out(1, nn.Softmax(1)), BINARY)),
    "softmax of one unit, own loss": ("softmax_of_one", lambda: 1 - (out(1, nn.Softmax(1)) * BINARY).sum() / 32),
    "cross entropy of one class": ("softmax_of_one", lambda: F.cross_entropy(out(1), 0 * CLASSES)),
    "softmax": ("not_logits", lambda: F.cross_entropy(out(4, nn.Softmax(1)), CLASSES)),
    "softmax, smoothed": ("not_logits", lambda: F.cross_entropy(out(4, nn.Softmax(1)), CLASSES, label_smoothing=0.1)),
    "softmax, one-hot": ("not_logits", lambda: F.cross_entropy(out(4, nn.Softmax(1)), ONE_HOT)),
    "softmax of sequences": ("not_logits", of_sequences),
    "softmax, log_softmax": ("not_logits", lambda: F.nll_loss(out(4, nn.Softmax(1), nn.LogSoftmax(1)), CLASSES)),
    "sigmoid": ("not_logits", lambda: F.cross_entropy(out(4, nn.Sigmoid()), CLASSES)),
    "relu": ("not_logits", lambda: F.cross_entropy(out(4, nn.ReLU()), CLASSES)),
    "relu, dropout": ("not_logits", lambda: F.cross_entropy(out(4, nn.ReLU(), nn.Dropout()), CLASSES)),
    "tanh": ("not_logits", lambda: F.cross_entropy(out(4, nn.Tanh()), CLASSES)),
    "sigmoid, logits": ("not_logits", lambda: F.binary_cross_entropy_with_logits(out(1, nn.Sigmoid()), BINARY)),
    "sigmoid, multilabel": ("not_logits", lambda: F.multilabel_soft_margin_loss(out(4, nn.Sigmoid()), SEVERAL)),
    "relu, logits": (
        "not_logits",
        lambda: F.binary_cross_entropy_with_logits(out(1, nn.ReLU()).squeeze(1), BINARY[:, 0]),
    ),
    "relu, sigmoid": (
        "double_activation",
        lambda: F.binary_cross_entropy(out(1, nn.ReLU(), nn.Sigmoid()), BINARY),
    ),
    "softmax twice, by hand": (
        "double_activation",
        lambda: -(ONE_HOT * torch.log(out(4, nn.Softmax(1), nn.Softmax(1)))).sum(1).mean(),
    ),
    "clamped layer": ("not_probabilities", lambda: F.binary_cross_entropy(out(1).clamp(0, 1), BINARY)),
    "nll of a layer": ("not_log_probabilities", lambda: F.nll_loss(out(4), CLASSES)),
    "nll of a softmax": ("not_log_probabilities", lambda: F.nll_loss(out(4, nn.Softmax(1)), CLASSES)),
    "nll of a sigmoid": ("not_log_probabilities", lambda: F.nll_loss(out(4, nn.Sigmoid()), CLASSES)),
    "nll of log sigmoid": ("not_log_probabilities", lambda: F.nll_loss(out(4, nn.Sigmoid()).log(), CLASSES)),
    "nll of logsigmoid": ("not_log_probabilities", lambda: F.nll_loss(F.logsigmoid(out(4)), CLASSES)),
    "CTC of a layer": ("not_log_probabilities", lambda: ctc(of_frames())),
    "CTC of a softmax": ("not_log_probabilities", lambda: ctc(of_frames(nn.Softmax(2)))),
    "CTC of its blank": ("blank", lambda: ctc(of_frames(nn.LogSoftmax(2)), torch.tensor([[1, 0, 2], [1, 3, 2]]))),
    "CTC of its blank, in one row": (
        "blank",
        lambda: ctc(of_frames(nn.LogSoftmax(2)), torch.tensor([1, 2, 3, 0]), (2, 2)),
    ),
    "log sigmoid, by hand": (
        "sigmoid_likelihood",
        lambda: -(ONE_HOT * torch.log(out(4, nn.Sigmoid()))).sum(1).mean(),
    ),
    "log_softmax of the batch": ("softmax_over_batch", lambda: F.nll_loss(out(4, nn.LogSoftmax(0)), CLASSES)),
    "log of softmax of the batch": ("softmax_over_batch", lambda: F.nll_loss(out(4, nn.Softmax(0)).log(), CLASSES)),
    "two columns": ("two_columns", lambda: F.binary_cross_entropy_with_logits(out(2), TWO_COLUMNS)),
    "two columns of a softmax": ("two_columns", lambda: F.binary_cross_entropy(out(2, nn.Softmax(1)), TWO_COLUMNS)),
    "several of a softmax": ("several_classes", lambda: F.binary_cross_entropy(out(4, nn.Softmax(1)), SEVERAL)),
    "labels beyond a sigmoid": ("labels_out_of_reach", lambda: F.mse_loss(out(1, nn.Sigmoid()), NUMBERS)),
    "labels beyond a sigmoid, rmse": (
        "labels_out_of_reach",
        lambda: F.mse_loss(out(1, nn.Sigmoid()), NUMBERS).sqrt(),
    ),
    "labels beyond a tanh, by hand": ("labels_out_of_reach", lambda: ((out(1, nn.Tanh()) - NUMBERS) ** 2).mean()),
    "labels beyond a relu, l1": ("labels_out_of_reach", lambda: F.l1_loss(out(1, nn.ReLU()), NUMBERS)),
    "labels beyond a relu, minuend": (
        "labels_out_of_reach",
        lambda: (NUMBERS - out(1, nn.ReLU())).pow(2).mean(),
    ),
    "labels beyond a relu, huber": ("labels_out_of_reach", lambda: F.huber_loss(NUMBERS, out(1, nn.ReLU()))),
    "broadcast, l1": ("broadcast", lambda: F.l1_loss(out(1), NUMBERS[:, 0])),
    "broadcast, smooth l1": ("broadcast", lambda: F.smooth_l1_loss(out(1).squeeze(), NUMBERS)),
    "broadcast, three dimensions": ("broadcast", lambda: F.smooth_l1_loss(nn.Linear(8, 1)(X[:, None]), NUMBERS)),
    "broadcast, mse": ("broadcast", lambda: F.mse_loss(out(1), NUMBERS[:, 0])),
    "broadcast, by hand": ("broadcast", lambda: ((out(1) - NUMBERS[:, 0]) ** 2).mean()),
    "broadcast, by hand, product": ("broadcast", lambda: squared_by_product(out(1) - NUMBERS[:, 0])),
    "broadcast, by hand, abs": ("broadcast", lambda: (NUMBERS[:, 0] - out(1)).abs().mean()),
    "broadcast, log-cosh by hand": ("broadcast", lambda: log_cosh(out(1) - NUMBERS[:, 0])),
    "broadcast, quantile by hand": ("broadcast", lambda: quantile_error(NUMBERS[:, 0] - out(1))),
    "broadcast, gathered": ("broadcast", lambda: F.mse_loss(out(4).gather(1, CLASSES[:, None]), NUMBERS[:, 0])),
    "dropout": ("dropout", lambda: F.cross_entropy(out(4, nn.Dropout()), CLASSES)),
    "dropout, sigmoid": ("dropout", lambda: F.binary_cross_entropy(out(1, nn.Dropout(0.3), nn.Sigmoid()), BINARY)),
    "labels of -1 and 1": (
        "impossible_labels",
        lambda: F.binary_cross_entropy_with_logits(out(1), 2 * BINARY - 1),
    ),
    "class indices": (
        "impossible_labels",
        lambda: F.binary_cross_entropy_with_logits(out(1), CLASSES[:, None].float()),
    ),
    "class indices, by hand": ("impossible_labels", lambda: bce_by_hand(out(1, nn.Sigmoid()), CLASSES[:, None])),
    "soft margin of 0 and 1": ("impossible_labels", lambda: F.soft_margin_loss(out(1), BINARY)),
    "swapped": ("swapped", lambda: F.binary_cross_entropy(BINARY, out(1, nn.Sigmoid()))),
}
"""Mistakes by the name of the mistake that is found."""


def focal(loss: torch.Tensor, gamma: float = 2.0) -> torch.Tensor:
    """Return losses, or their mean, with the factor of a focal loss."""
    return ((1 - torch.exp(-loss)) ** gamma * loss).mean()


def focal_of_log_probability(log_probability: torch.Tensor) -> torch.Tensor:
    return -0.25 * (1 - log_probability.exp()) ** 1.5 * log_probability


UNFITTING: Final[dict[str, tuple[str, Loss]]] = {
    "mse": ("regression_of_classes", lambda: F.mse_loss(out(1), BINARY)),
    "mse of one-hot": ("regression_of_classes", lambda: F.mse_loss(out(4, nn.Softmax(1)), ONE_HOT)),
    "l1, by hand": ("regression_of_classes", lambda: (out(1, nn.Sigmoid()) - BINARY).abs().mean()),
    "focal loss of a mean": ("weighted_by_its_mean", lambda: focal(F.cross_entropy(out(4), CLASSES))),
    "focal loss of the log of a mean": (
        "weighted_by_its_mean",
        lambda: focal_of_log_probability(-F.cross_entropy(out(4), CLASSES)),
    ),
    "binary focal loss of a mean": (
        "weighted_by_its_mean",
        lambda: focal(F.binary_cross_entropy_with_logits(out(1), BINARY), gamma=1.0),
    ),
    "focal loss of a mean, by hand": (
        "weighted_by_its_mean",
        lambda: focal(-F.log_softmax(out(4), 1)[range(32), CLASSES].mean()),
    ),
    "bce of a softmax": ("binary_loss_of_softmax", lambda: F.binary_cross_entropy(out(4, nn.Softmax(1)), ONE_HOT)),
}


def gan_by_hand() -> torch.Tensor:
    real, fake = out(1, nn.Sigmoid()), out(1, nn.Sigmoid())
    return -(torch.log(real).mean() + torch.log(1 - fake).mean())


def vae() -> torch.Tensor:
    hidden = out(16, nn.ReLU())
    mean, log_variance = nn.Linear(16, 4)(hidden), nn.Linear(16, 4)(hidden)
    latent = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
    images = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8), nn.Sigmoid())(latent)
    divergence = -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
    return F.binary_cross_entropy(images, torch.rand(32, 8), reduction="sum") + divergence


def attention_of_length_1() -> torch.Tensor:
    tokens = nn.Linear(8, 8)(X[:, None])
    weights = torch.softmax(tokens @ tokens.transpose(1, 2), -1)
    return F.cross_entropy(nn.Linear(8, 4)((weights @ tokens)[:, 0]), CLASSES)


def multihead_attention() -> torch.Tensor:
    attended, _ = nn.MultiheadAttention(8, 2, batch_first=True)(X[:, None], X[:, None], X[:, None])
    return F.cross_entropy(nn.Linear(8, 4)(attended[:, 0]), CLASSES)


def policy_gradient() -> torch.Tensor:
    actions = torch.distributions.Categorical(logits=out(4))
    return -(actions.log_prob(CLASSES) * NUMBERS[:, 0]).mean() - 0.01 * actions.entropy().mean()


def policy_of_a_softmax() -> torch.Tensor:
    actions = torch.distributions.Categorical(out(4, nn.Softmax(-1)))
    return -(actions.log_prob(CLASSES) * NUMBERS[:, 0]).sum()


def ppo() -> torch.Tensor:
    actions, value = torch.distributions.Categorical(logits=out(4)), out(1).squeeze(-1)
    ratio = (actions.log_prob(CLASSES) - actions.log_prob(CLASSES).detach()).exp()
    gain = torch.min(ratio * NUMBERS[:, 0], ratio.clamp(0.8, 1.2) * NUMBERS[:, 0])
    return -gain.mean() + 0.5 * F.mse_loss(value, NUMBERS[:, 0]) - 0.01 * actions.entropy().mean()


def distillation() -> torch.Tensor:
    scores, temperature = out(4), 4.0
    teacher = F.softmax(torch.randn(32, 4) / temperature, 1)
    student = F.log_softmax(scores / temperature, 1)
    soft = F.kl_div(student, teacher, reduction="batchmean")
    return 0.7 * temperature**2 * soft + 0.3 * F.cross_entropy(scores, CLASSES)


def contrastive() -> torch.Tensor:
    one, other = F.normalize(out(16)), F.normalize(out(16))
    scores, pairs = 10 * one @ other.t(), torch.arange(32)
    return (F.cross_entropy(scores, pairs) + F.cross_entropy(scores.t(), pairs)) / 2


def quantiles() -> torch.Tensor:
    errors, levels = NUMBERS - out(3), torch.tensor([0.1, 0.5, 0.9])
    return torch.max(levels * errors, (levels - 1) * errors).mean()


def flow() -> torch.Tensor:
    log_scale = out(8)
    return (0.5 * (out(8) * torch.exp(log_scale)).pow(2).sum(1) - log_scale.sum(1)).mean()


def squeezenet() -> torch.Tensor:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return F.cross_entropy(model(torch.randn(8, 3, 8, 8)), CLASSES[:8])


def ranking_by_list() -> torch.Tensor:
    return -(torch.softmax(NUMBERS, 0) * torch.log_softmax(out(1), 0)).sum()


def ranking_by_pairs() -> torch.Tensor:
    scores = out(1).squeeze(1)
    return F.softplus(scores[None] - scores[:, None]).mean()


def all_pairs_on_purpose() -> torch.Tensor:
    return ((out(1).squeeze(1)[:, None] - NUMBERS[:, 0][None]) ** 2).mean()


def centres() -> torch.Tensor:
    return ((out(8)[:, None] - torch.randn(5, 8)) ** 2).sum(-1).min(1)[0].mean()


def dice() -> torch.Tensor:
    p = out(1, nn.Sigmoid())
    return 1 - 2 * (p * BINARY).sum() / (p.sum() + BINARY.sum())


def masked() -> torch.Tensor:
    losses = F.cross_entropy(out(4), CLASSES, reduction="none")
    return (losses * (CLASSES > 0)).sum() / (CLASSES > 0).sum()


def least_squares_gan() -> torch.Tensor:
    return 0.5 * (F.mse_loss(out(1), torch.ones(32, 1)) + F.mse_loss(out(1), torch.zeros(32, 1)))


HEALTHY: Final[dict[str, Loss]] = {
    "cross entropy": lambda: F.cross_entropy(out(4), CLASSES),
    "focal loss": lambda: focal(F.cross_entropy(out(4), CLASSES, reduction="none")),
    "focal loss of one sample": lambda: focal(F.cross_entropy(nn.Linear(8, 4)(X[:1]), CLASSES[:1])),
    "perplexity": lambda: F.cross_entropy(out(4), CLASSES).exp(),
    "power of a mean": lambda: F.cross_entropy(out(4), CLASSES) ** 1.5,
    "logarithm of a mean": lambda: F.cross_entropy(out(4), CLASSES).log(),
    "uncertainty as a weight": lambda: F.cross_entropy(out(4), CLASSES) * torch.exp(-nn.Parameter(torch.zeros(()))),
    "loss with the mean of another one as a factor": lambda: (
        F.cross_entropy(out(4), CLASSES) * torch.exp(-F.cross_entropy(out(4), CLASSES))
    ),
    "cross entropy of smoothed labels": lambda: F.cross_entropy(out(4), 0.9 * ONE_HOT + 0.025),
    "mixup": lambda: F.cross_entropy(out(4), 0.7 * ONE_HOT + 0.3 * ONE_HOT.roll(1, 0)),
    "log_softmax": lambda: F.nll_loss(out(4, nn.LogSoftmax(1)), CLASSES),
    "log of a softmax": lambda: F.nll_loss(torch.log(out(4, nn.Softmax(1)) + 1e-8), CLASSES),
    "log_softmax into cross entropy": lambda: F.cross_entropy(out(4, nn.LogSoftmax(1)), CLASSES),
    "cross entropy by hand": lambda: -(ONE_HOT * torch.log(out(4, nn.Softmax(1)))).sum(1).mean(),
    "cross entropy by index": lambda: -F.log_softmax(out(4), 1)[range(32), CLASSES].mean(),
    "scaled tanh as logits": lambda: F.cross_entropy(10 * out(4, nn.Tanh()), CLASSES),
    "sigmoid": lambda: F.binary_cross_entropy(out(1, nn.Sigmoid()), BINARY),
    "sigmoid, by hand": lambda: bce_by_hand(out(1, nn.Sigmoid()), BINARY),
    "clamped sigmoid": lambda: F.binary_cross_entropy(out(1, nn.Sigmoid()).clamp(1e-6, 1 - 1e-6), BINARY),
    "logits": lambda: F.binary_cross_entropy_with_logits(out(1), BINARY),
    "smoothed logits": lambda: F.binary_cross_entropy_with_logits(out(1), 0.9 * BINARY + 0.05),
    "several labels": lambda: F.binary_cross_entropy_with_logits(out(4), SEVERAL),
    "one column of a softmax": lambda: F.binary_cross_entropy(out(2, nn.Softmax(1))[:, 1], BINARY[:, 0]),
    "rescaled tanh": lambda: F.binary_cross_entropy((out(1, nn.Tanh()) + 1) / 2, BINARY),
    "autoencoder, bce": lambda: F.binary_cross_entropy(out(8, nn.ReLU(), nn.Linear(8, 8), nn.Sigmoid()), X.sigmoid()),
    "autoencoder, mse": lambda: F.mse_loss(out(8, nn.ReLU(), nn.Linear(8, 8), nn.Sigmoid()), X.sigmoid()),
    "regression": lambda: F.mse_loss(out(1), NUMBERS),
    "regression by hand": lambda: ((out(1) - NUMBERS) ** 2).mean(),
    "regression with weights": lambda: (torch.rand(32, 1) * (out(1) - NUMBERS) ** 2).mean(),
    "regression with penalty": lambda: F.mse_loss(out(1), NUMBERS) + 1e-3 * nn.Linear(8, 8).weight.pow(2).sum(),
    "clipped labels": lambda: F.mse_loss(out(1, nn.Tanh()), NUMBERS.clamp(-1, 1)),
    "scaled tanh": lambda: F.mse_loss(5 * out(1, nn.Tanh()), NUMBERS),
    "labels above 0": lambda: F.mse_loss(out(1, nn.ReLU()), NUMBERS.abs()),
    "recurrent": lambda: F.mse_loss(nn.RNN(8, 1)(X[None])[0][0], NUMBERS.clamp(-1, 1)),
    "log-cosh by hand": lambda: log_cosh(out(1) - NUMBERS),
    "all pairs of predictions": lambda: log_cosh((scores := out(1)) - scores.T),
    "distances to as many centers": lambda: log_cosh(out(1)[:, :, None] - NUMBERS),
    "broadcast number": lambda: F.mse_loss(out(4), torch.zeros(1)),
    "gaussian": lambda: F.gaussian_nll_loss(out(1), NUMBERS, out(1, nn.Softplus())),
    "poisson": lambda: F.poisson_nll_loss(out(1), NUMBERS.abs().round()),
    "soft margin": lambda: F.soft_margin_loss(out(1), 2 * BINARY - 1),
    "dropout before the last layer": lambda: F.cross_entropy(out(4, nn.Dropout(), nn.Linear(4, 4)), CLASSES),
    "mask of weights": lambda: F.cross_entropy(out(4) * torch.ones(32, 4), CLASSES),
    "least-squares GAN": least_squares_gan,
    "least-squares GAN by hand": lambda: ((out(1) - 1) ** 2).mean() + (out(1) ** 2).mean(),
    "hinge GAN": lambda: F.relu(1 - out(1)).mean() + F.relu(1 + out(1)).mean(),
    "Wasserstein GAN": lambda: out(1).mean() - out(1).mean(),
    "DQN": lambda: F.smooth_l1_loss(out(4).gather(1, CLASSES[:, None]).squeeze(1), NUMBERS[:, 0]),
    "triplets": lambda: F.triplet_margin_loss(out(8), X, X.roll(1, 0)),
    "one label that counts": lambda: F.cross_entropy(out(4), torch.tensor([2, *[-100] * 31])),
    "CTC": lambda: ctc(of_frames(nn.LogSoftmax(2))),
    "CTC with padding": lambda: ctc(of_frames(nn.LogSoftmax(2)), torch.tensor([[1, 2, 0], [1, 3, 2]]), (2, 3)),
    "CTC in one row": lambda: ctc(of_frames(nn.LogSoftmax(2)), torch.tensor([1, 2, 3]), (2, 1)),
    "GAN by hand": gan_by_hand,
    "variational autoencoder": vae,
    "attention of length 1": attention_of_length_1,
    "multihead attention": multihead_attention,
    "policy gradient": policy_gradient,
    "policy of a softmax": policy_of_a_softmax,
    "PPO": ppo,
    "distillation": distillation,
    "contrastive": contrastive,
    "quantiles": quantiles,
    "normalizing flow": flow,
    "pooling behind ReLU": squeezenet,
    "dice": dice,
    "mask": masked,
    "ranking by list": ranking_by_list,
    "ranking by pairs": ranking_by_pairs,
    "all pairs on purpose": all_pairs_on_purpose,
    "centres": centres,
}
