"""A complete notification for tests of actions."""

from __future__ import annotations

from leadline.actions.action import ActionContext
from leadline.records.notification import Notification, RuleState, TensorSnapshot

RUN = "/home/me/leadline runs/demo-1120"
FINDING = Notification(
    id="loud/opened/1313",
    kind="finding",
    run="demo-1120",
    uri=RUN,
    status="IssuesFound",
    time_ns=1_795_190_000_123_456_789,
    started_ns=1_795_189_000_000_000_000,
    rule="loud",
    kind_of_rule="exploding_tensor",
    previous="InProgress",
    verdict="fired",
    step=1313,
    worker="rank0-12",
    message="loss is NaN, and 28 more tensors",
    suggestion="the advice of nonfinite_origin first; this usually follows from it",
    evidence={"nan_count": 3, "limit": float("inf"), "share": 0.123456, "names": ["a"]},
    tensors=(
        TensorSnapshot("loss", (), "float32", {"mean": float("nan")}, (float("nan"),)),
        TensorSnapshot(
            "gradient/fc.weight",
            (8, 4),
            "bfloat16",
            {"min": -1.23456, "max": 3e10},
            (0.1, 0.2, 0.3, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0),
            "file:///runs/demo/000001.safetensors#train/1313/fc.weight",
        ),
    ),
    tensor_count=29,
    rules=(
        RuleState("loud", "exploding_tensor", "IssuesFound", "fired", is_open=True, updated_ns=1_795_190_000),
        RuleState("dead_relu", "dead_relu", "InProgress", "clear"),
        RuleState("overfit", "overfit", "InProgress", "undecided", why="no eval steps yet"),
    ),
)


def make_context(notification: Notification = FINDING) -> ActionContext:
    """Return the context of an action for a notification."""
    return ActionContext(notification.uri, notification, (), notification.time_ns)
