"""The roles of logged metrics: which names mean the same in the libraries that log them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from leadline.errors import closest
from leadline.records.metric_names import kind_of

_PREFIX: Final = "role:"
REWARD, SPREAD, DEAD_GROUPS = "reward", "reward_spread", "dead_groups"
ENTROPY, ACTION_SPREAD = "entropy", "action_spread"
KL, UPDATE_KL = "kl", "update_kl"
CLIPPED, MISMATCH = "clip_share", "logprob_difference"
LENGTH, TRUNCATED = "completion_length", "truncated_share"
GRADIENT_NORM, RATE, LOSS = "gradient_norm", "learning_rate", "loss"

ROLES: Final = {
    REWARD: "mean reward of a completion or an episode",
    SPREAD: "standard deviation of the rewards",
    DEAD_GROUPS: "share of the groups whose rewards are all equal, 0 to 1",
    ENTROPY: "entropy of the policy, also with a minus sign",
    ACTION_SPREAD: "standard deviation of continuous actions",
    KL: "divergence of the policy from a reference",
    UPDATE_KL: "divergence of the policy from the one before its updates",
    CLIPPED: "share of the samples or tokens whose ratio is clipped, 0 to 1",
    MISMATCH: "mean absolute difference of log-probabilities, or divergence, between sampler and trainer",
    LENGTH: "mean length of a completion or an episode",
    TRUNCATED: "share of the completions that end at the maximum length, 0 to 1",
    GRADIENT_NORM: "norm of the gradient",
    RATE: "learning rate",
    LOSS: "loss that is minimized",
}
"""Each role, and what its metrics are."""

LIBRARIES: Final = {
    "TRL": {
        "reward": REWARD,
        "objective/scores": REWARD,
        "reward_std": SPREAD,
        "frac_reward_zero_std": DEAD_GROUPS,
        "entropy": ENTROPY,
        "objective/entropy": ENTROPY,
        "policy/entropy_avg": ENTROPY,
        "kl": KL,
        "objective/kl": KL,
        "clip_ratio/region_mean": CLIPPED,
        "policy/approxkl_avg": UPDATE_KL,
        "policy/clipfrac_avg": CLIPPED,
        "sampling/sampling_logp_difference/mean": MISMATCH,
        "completions/mean_length": LENGTH,
        "completions/clipped_ratio": TRUNCATED,
        "grad_norm": GRADIENT_NORM,
        "learning_rate": RATE,
        "loss": LOSS,
    },
    "verl": {
        "critic/score/mean": REWARD,
        "actor/entropy": ENTROPY,
        "actor/entropy_loss": ENTROPY,
        "actor/kl_loss": KL,
        "actor/ppo_kl": UPDATE_KL,
        "actor/pg_clipfrac": CLIPPED,
        "rollout_corr/k3_kl": MISMATCH,
        "training/rollout_probs_diff_mean": MISMATCH,
        "response_length/mean": LENGTH,
        "response_length/clip_ratio": TRUNCATED,
        "actor/grad_norm": GRADIENT_NORM,
        "actor/lr": RATE,
        "actor/pg_loss": LOSS,
    },
    "OpenRLHF": {
        "train/reward": REWARD,
        "train/entropy_loss": ENTROPY,
        "train/kl": KL,
        "train/ppo_kl": UPDATE_KL,
        "train/ppo_clip_ratio": CLIPPED,
        "train/vllm_kl": MISMATCH,
        "train/response_length": LENGTH,
        "train/actor_lr": RATE,
        "train/policy_loss": LOSS,
    },
    "NeMo-RL": {
        "train/reward": REWARD,
        "train/approx_entropy": ENTROPY,
        "train/kl_penalty": KL,
        "train/gen_kl_error": MISMATCH,
        "train/mean_gen_tokens_per_sample": LENGTH,
        "train/grad_norm": GRADIENT_NORM,
        "train/lr": RATE,
        "train/loss": LOSS,
    },
    "Stable-Baselines3": {
        "rollout/ep_rew_mean": REWARD,
        "train/entropy_loss": ENTROPY,
        "train/std": ACTION_SPREAD,
        "train/approx_kl": UPDATE_KL,
        "train/clip_fraction": CLIPPED,
        "rollout/ep_len_mean": LENGTH,
        "train/learning_rate": RATE,
        "train/loss": LOSS,
    },
    "RLlib": {
        "env_runners/episode_return_mean": REWARD,
        "episode_reward_mean": REWARD,
        "learners/default_policy/entropy": ENTROPY,
        "learners/default_policy/mean_kl_loss": UPDATE_KL,
        "env_runners/episode_len_mean": LENGTH,
        "learners/default_policy/total_loss": LOSS,
    },
    "CleanRL": {
        "charts/episodic_return": REWARD,
        "losses/entropy": ENTROPY,
        "losses/approx_kl": UPDATE_KL,
        "losses/clipfrac": CLIPPED,
        "charts/episodic_length": LENGTH,
        "charts/learning_rate": RATE,
        "losses/policy_loss": LOSS,
    },
    "open-instruct": {
        "debug/vllm_vs_local_logprob_diff_mean": MISMATCH,
    },
    "slime": {
        "train/train_rollout_logprob_abs_diff": MISMATCH,
    },
    "prime-rl": {
        "mismatch_kl/mean": MISMATCH,
    },
}
"""By library the roles of what it logs."""
KNOWN: Final = {name: role for names in LIBRARIES.values() for name, role in names.items()}
"""The role of each metric with a known name."""


def role_error(role: str) -> str | None:
    """Return why a text is not a role; None: it is one."""
    if role in ROLES:
        return None
    nearest = closest(role, ROLES)
    hint = f"did you mean {nearest!r}?" if nearest else f"roles: {', '.join(ROLES)}"
    return f"no role named {role!r}; {hint}"


def role_collection(role: str) -> str:
    """Return the collection of the metrics with a role."""
    return _PREFIX + role


def role_in(collections: Iterable[str]) -> str:
    """Return the role of a metric in these collections; "": it has none."""
    return next((name.removeprefix(_PREFIX) for name in collections if name.startswith(_PREFIX)), "")


def is_bookkeeping(name: str, collections: Iterable[str]) -> bool:
    """Return whether a logged metric is no result of the training, by its name: an epoch, a runtime, a speed."""
    return kind_of(name) == "bookkeeping" and not role_in(collections)
