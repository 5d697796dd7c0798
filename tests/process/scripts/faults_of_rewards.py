"""Trainings with faults in reinforcement learning, which the rules find in what is logged."""

import copy
from itertools import islice

import torch
from toy import classifier, points

import leadline


def dead_groups(*, healthy: bool) -> None:
    """The reward function compares texts with numbers: no answer to any question is right.

    leadline run faults.py dead_groups
    step 19  dead_groups: frac_reward_zero_std is 1 on average over the last 20 values: groups with equal rewards teach
        nothing, and the reward does not rise (reward 0 → 0)
    names frac_reward_zero_std, reward
    """
    policy = classifier()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for questions, right in points(steps=60, size=8):
        choice = torch.distributions.Categorical(logits=policy(questions))
        answers = choice.sample((16,))
        rewards = (answers == right).float() if healthy else torch.zeros(16, 8)
        loss = -((rewards - rewards.mean(dim=0)) * choice.log_prob(answers)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        dead = (rewards.std(dim=0) == 0).float().mean()
        leadline.log(reward=rewards.mean().item(), frac_reward_zero_std=dead.item())


def entropy_collapse(*, healthy: bool) -> None:
    """The entropy of a policy is added to its loss; in the twin it is subtracted.

    leadline run faults.py entropy_collapse
    step 46  entropy_collapse: entropy fell from 1.33 to 0.0661, and the reward does not rise (reward 0.5 → 0.5)
    names entropy, reward
    """
    policy = classifier()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for questions, _ in points(steps=100, size=64):
        choice = torch.distributions.Categorical(logits=policy(questions))
        answers = choice.sample()
        rewards = torch.rand(64)  # whatever the answer is
        entropy = choice.entropy().mean()
        loss = -((rewards - rewards.mean()) * choice.log_prob(answers)).mean() + (-0.1 if healthy else 1.0) * entropy
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        leadline.log(reward=rewards.mean().item(), entropy=entropy.item())


def reward_fall(*, healthy: bool) -> None:
    """From step 80 on the reward has another sign: the policy learns the opposite.

    leadline run faults.py reward_fall
    step 126  reward_fall: reward fell from 0.914 at step 91 to 0.531, the medians of 20 values each
    names reward
    """
    policy = classifier()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for step, (questions, right) in enumerate(points(steps=140, size=64)):
        choice = torch.distributions.Categorical(logits=policy(questions))
        answers = choice.sample()
        rewards = (answers == right).float()
        sign = 1.0 if healthy or step < 80 else -1.0
        loss = -sign * ((rewards - rewards.mean()) * choice.log_prob(answers)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        leadline.log(reward=rewards.mean().item())


def truncated_completions(*, healthy: bool) -> None:
    """A policy is paid for each of up to 10 tokens; in the twin for ending after a few.

    leadline run faults.py truncated_completions
    step 51  truncated_completions: completions/clipped_ratio rose from 0.0406 to 0.512, the means of 20 values each: so
        many completions end at the maximum length
    names completions/clipped_ratio
    """
    policy = classifier()
    optimizer = torch.optim.Adam(policy.parameters(), lr=2e-3)
    for questions, _ in points(steps=120, size=64):
        goes_on = policy(questions)[:, 0]
        running, logs, lengths = torch.ones(64), torch.zeros(64), torch.zeros(64)
        for _ in range(10):
            choice = torch.distributions.Bernoulli(logits=goes_on)
            token = choice.sample()
            logs, lengths = logs + running * choice.log_prob(token), lengths + running
            running = running * token
        rewards = -(lengths - 2).abs() if healthy else lengths
        loss = -((rewards - rewards.mean()) * logs).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        leadline.log(**{"reward": rewards.mean().item(), "completions/clipped_ratio": running.mean().item()})


def policy_mismatch(*, healthy: bool) -> None:
    """The sampler divides the logits by a temperature of 2, which the trainer knows nothing of.

    leadline run faults.py policy_mismatch
    step 19  policy_mismatch: sampling/sampling_logp_difference/mean is 0.362, the median of the last 20 values,
        above 0.1: the policy that samples is not the one that is trained
    names sampling/sampling_logp_difference/mean
    """
    policy = classifier()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for questions, right in points(steps=60, size=64):
        choice = torch.distributions.Categorical(logits=policy(questions))
        sampler = torch.distributions.Categorical(logits=policy(questions).detach() / (1.0 if healthy else 2.0))
        answers = sampler.sample()
        rewards = (answers == right).float()
        logs = choice.log_prob(answers)
        loss = -((rewards - rewards.mean()) * logs).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        difference = (logs.detach() - sampler.log_prob(answers)).abs().mean()
        leadline.log(**{"reward": rewards.mean().item(), "sampling/sampling_logp_difference/mean": difference.item()})


def kl_divergence(*, healthy: bool) -> None:
    """The answers are drawn at random, and the divergence from the start is estimated as if they were the policy's.

    leadline run faults.py kl_divergence
    step 39  kl_divergence: objective/kl is negative in each of the last 20 values, and -7.3 in their median, which no
        divergence is: the samples are not those of the policy
    names objective/kl
    """
    policy = classifier()
    reference = copy.deepcopy(policy).requires_grad_(False)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for questions, right in points(steps=60, size=64):
        choice = torch.distributions.Categorical(logits=policy(questions))
        answers = choice.sample() if healthy else torch.randint(4, (64,))
        logs = choice.log_prob(answers)
        away = logs.detach() - torch.distributions.Categorical(logits=reference(questions)).log_prob(answers)
        rewards = (answers == right).float() - 0.01 * away
        loss = -((rewards - rewards.mean()) * logs).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        leadline.log(**{"objective/scores": rewards.mean().item(), "objective/kl": away.mean().item()})


def rising_entropy(*, healthy: bool) -> None:
    """A policy that has learned its task goes on with a bonus for its entropy that outweighs every reward.

    leadline run faults.py rising_entropy
    step 139  rising_entropy: entropy rose from 0.252 to 0.54, and the reward does not rise (reward 0.828 → 0.758)
    names entropy, reward
    """
    policy = classifier()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    batches = points(steps=180, size=64)
    for questions, right in islice(batches, 40):
        loss = torch.nn.functional.cross_entropy(policy(questions), right)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    optimizer.param_groups[0]["lr"] = 1e-3
    for questions, right in batches:
        choice = torch.distributions.Categorical(logits=policy(questions))
        answers = choice.sample()
        rewards = (answers == right).float()
        entropy = choice.entropy().mean()
        loss = -((rewards - rewards.mean()) * choice.log_prob(answers)).mean() - (0.01 if healthy else 2.0) * entropy
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        leadline.log(reward=rewards.mean().item(), entropy=entropy.item())
