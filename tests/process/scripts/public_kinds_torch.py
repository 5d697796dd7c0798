"""Small trainings in PyTorch of the kinds that public programs have; ``public_kinds.py`` runs them."""

from __future__ import annotations

from typing import Any

from trainings_in_turn import Training, X, Y, of


def network(outputs: int = 2) -> Any:
    from torch import nn

    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, outputs))


@of("torch")
def polynomial_by_hand() -> Training:
    """A regression whose update is written into ``.data``."""
    import torch
    from torch import nn

    line, target = nn.Linear(3, 1), torch.tensor([[1.0, -2.0, 0.5]])
    for _ in range(30):
        points = torch.randn(16, 1)
        powers = torch.cat([points, points**2, points**3], 1)
        line.zero_grad()
        nn.functional.smooth_l1_loss(line(powers), powers @ target.T).backward()
        for parameter in line.parameters():
            parameter.data.add_(-0.05 * parameter.grad)
        yield
    return list(line.parameters())


@of("torch")
def two_opponents() -> Training:
    """A generator and a discriminator with an optimizer for each; a step is an update of both."""
    import torch
    from torch import nn

    x = torch.from_numpy(X)
    maker, judge = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8)), network(1)
    of_maker, of_judge = (torch.optim.Adam(model.parameters(), 2e-3) for model in (maker, judge))
    loss, real, made = nn.BCEWithLogitsLoss(), torch.ones(64, 1), torch.zeros(64, 1)
    for _ in range(30):
        fakes = maker(torch.randn(64, 4))
        of_judge.zero_grad()
        (loss(judge(x), real) + loss(judge(fakes.detach()), made)).backward()
        of_judge.step()
        of_maker.zero_grad()
        loss(judge(fakes), real).backward()
        of_maker.step()
        yield
    return [*maker.parameters(), *judge.parameters()]


@of("torch")
def layer_by_layer() -> Training:
    """Layers that are trained in turn by a loss and an optimizer of their own."""
    import torch
    from torch import nn

    x, y = torch.from_numpy(X), torch.from_numpy(Y)
    inputs, trained = x, []
    for _ in range(2):
        layer = nn.Linear(inputs.shape[1], 8)
        optimizer = torch.optim.Adam(layer.parameters(), 0.03)
        for _ in range(20):
            activity = layer(inputs).relu().square().mean(1)
            loss = nn.functional.softplus(torch.where(y == 1, 2 - activity, activity - 2)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield
        inputs = layer(inputs).relu().detach()
        trained += layer.parameters()
    return trained


@of("torch")
def inner_and_outer() -> Training:
    """MAML: an optimizer of the weights with which one step by hand starts, for tasks of sines."""
    import torch
    from torch import nn
    from torch.func import functional_call

    model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(30):
        outer = torch.zeros(())
        for _ in range(2):
            phase, points = torch.rand(()) * 3, torch.rand(2, 10, 1) * 6 - 3
            weights = dict(model.named_parameters())
            inner = (functional_call(model, weights, points[0]) - torch.sin(points[0] + phase)).square().mean()
            slopes = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
            moved = {name: at - 0.1 * by for (name, at), by in zip(weights.items(), slopes, strict=True)}
            outer = outer + (functional_call(model, moved, points[1]) - torch.sin(points[1] + phase)).square().mean()
        optimizer.zero_grad()
        outer.backward()
        optimizer.step()
        yield
    return list(model.parameters())


@of("torch")
def episodes() -> Training:
    """REINFORCE: a policy walks along a line towards its end, and learns after every episode."""
    import torch
    from torch import nn

    policy = nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(policy.parameters(), 1e-2)
    for _ in range(30):
        place, said, rewards = 0.0, [], []
        for _ in range(12):
            choice = torch.distributions.Categorical(logits=policy(torch.tensor([place])))
            move = choice.sample()
            said.append(choice.log_prob(move))
            place += 0.2 * (2 * int(move) - 1)
            rewards.append(place)
        returns = torch.tensor(rewards).flip(0).cumsum(0).flip(0)
        returns = (returns - returns.mean()) / (returns.std() + 1e-6)
        optimizer.zero_grad()
        (-torch.stack(said) * returns).sum().backward()
        optimizer.step()
        yield
    return list(policy.parameters())


@of("torch")
def private() -> Training:
    """Gradients of every sample, clipped and with noise, as differentially private training has them."""
    import torch
    from torch import nn
    from torch.func import functional_call, grad, vmap

    x, y = torch.from_numpy(X), torch.from_numpy(Y)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.2)

    def loss(weights: dict[str, Any], one: Any, label: Any) -> Any:
        return nn.functional.cross_entropy(functional_call(model, weights, one[None]), label[None])

    for _ in range(30):
        weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
        each = vmap(grad(loss), in_dims=(None, 0, 0))(weights, x, y)
        length = sum(one.flatten(1).square().sum(1) for one in each.values()).sqrt()
        share = (1 / length.clamp(min=1)).to(x)
        optimizer.zero_grad()
        for name, parameter in model.named_parameters():
            total = torch.einsum("n,n...->...", share, each[name])
            parameter.grad = (total + 0.1 * torch.randn_like(parameter)) / len(x)
        optimizer.step()
        yield
    return list(model.parameters())


@of("torch")
def averaged() -> Training:
    """An optimizer of its own that has weights for training and, as an average, weights for evaluation."""
    import torch
    from torch import nn

    x, y = torch.from_numpy(X), torch.from_numpy(Y)

    class Averaging(torch.optim.Optimizer):
        def __init__(self, parameters: Any, lr: float) -> None:
            super().__init__(parameters, {"lr": lr})
            self.count = 0

        @torch.no_grad()
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            self.count += 1
            for parameter in self.param_groups[0]["params"]:
                kept = self.state[parameter].setdefault("mean", parameter.clone())
                parameter.sub_(self.param_groups[0]["lr"] * parameter.grad)
                kept.lerp_(parameter, 1 / self.count)

        @torch.no_grad()
        def swap(self) -> None:
            for parameter in self.param_groups[0]["params"]:
                kept = self.state[parameter]["mean"].clone()
                self.state[parameter]["mean"].copy_(parameter)
                parameter.copy_(kept)

    model = network()
    optimizer = Averaging(model.parameters(), 0.2)
    for _ in range(3):
        model.train()
        for at in range(0, 64, 8):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[at : at + 8]), y[at : at + 8]).backward()
            optimizer.step()
            yield
        model.eval()
        optimizer.swap()
        with torch.no_grad():
            nn.functional.cross_entropy(model(x), y)
        optimizer.swap()
    return list(model.parameters())
