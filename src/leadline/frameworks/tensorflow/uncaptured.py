"""Ways to train with TensorFlow that are not captured."""

from __future__ import annotations

from typing import Final

from tensorflow.python.client.session import BaseSession
from tensorflow.python.distribute.parameter_server_strategy_v2 import ParameterServerStrategyV2

_SESSIONS: Final = "sessions of TensorFlow 1"
_SERVERS: Final = "ParameterServerStrategy"
KERAS_2: Final = "tf_keras"
REASONS: Final = {
    _SESSIONS: "they are not captured; remove disable_v2_behavior(), and compute in a tf.function",
    _SERVERS: "its steps run in other processes and are not captured; MirroredStrategy is",
    KERAS_2: "Keras 2 is not captured, at most its functions are; use Keras 3",
}
CALLS: Final = ((BaseSession, "__init__", _SESSIONS), (ParameterServerStrategyV2, "__init__", _SERVERS))
