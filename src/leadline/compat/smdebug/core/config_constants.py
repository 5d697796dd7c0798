"""Names of files, variables and keys of smdebug's configuration, as scripts import them."""

from __future__ import annotations

from typing import Final

from leadline.compat.smdebug.core.json_config import (
    CONFIG_FILE_PATH_ENV_STR,
    DEFAULT_RESOURCE_CONFIG_FILE,
    DEFAULT_SAGEMAKER_CONFIG,
    DEFAULT_SAGEMAKER_OUTDIR,
    DEFAULT_SAGEMAKER_TENSORBOARD_PATH,
    TENSORBOARD_CONFIG_FILE_PATH_ENV_STR,
)
from leadline.compat.smdebug.core.logger import LOG_DUPLICATION_THRESHOLD

__all__ = [
    "CONFIG_FILE_PATH_ENV_STR",
    "DEFAULT_RESOURCE_CONFIG_FILE",
    "DEFAULT_SAGEMAKER_OUTDIR",
    "DEFAULT_SAGEMAKER_TENSORBOARD_PATH",
    "LOG_DUPLICATION_THRESHOLD",
    "TENSORBOARD_CONFIG_FILE_PATH_ENV_STR",
]
DEFAULT_CONFIG_FILE_PATH: Final = DEFAULT_SAGEMAKER_CONFIG
DEFAULT_WORKER_NAME: Final = "worker_0"
DEFAULT_COLLECTIONS_FILE_NAME: Final = "worker_0_collections.json"
DEFAULT_SAGEMAKER_METRICS_PATH: Final = "SAGEMAKER_METRICS_DIRECTORY"
"""The variable that names the folder of SageMaker's metrics."""
CONFIG_OUTDIR_KEY: Final = "LocalPath"
CONFIG_HOOK_PARAMS_KEY: Final = "HookParameters"
CONFIG_COLLECTION_CONFIG_KEY: Final = "CollectionConfigurations"
CONFIG_COLLECTION_NAME_KEY: Final = "CollectionName"
CONFIG_COLLECTION_PARAMS_KEY: Final = "CollectionParameters"
CONFIG_INCLUDE_REGEX_KEY: Final = "include_regex"
CONFIG_INCLUDE_WORKERS_KEY: Final = "include_workers"
CONFIG_SAVE_ALL_KEY: Final = "save_all"
EXPORT_TENSORBOARD_KEY: Final = "export_tensorboard"
TENSORBOARD_DIR_KEY: Final = "tensorboard_dir"
INCOMPLETE_STEP_WAIT_WINDOW_KEY: Final = "SMDEBUG_INCOMPLETE_STEP_WAIT_WINDOW"
TRAINING_END_DELAY_REFRESH_KEY: Final = "SMDEBUG_TRAINING_END_DELAY_REFRESH"
MISSING_EVENT_FILE_RETRY_LIMIT_KEY: Final = "SMDEBUG_MISSING_EVENT_FILE_RETRY_LIMIT"
PAPERMILL_EXECUTION_ENV_VAR: Final = "PAPERMILL_EXECUTION"
"""Set where the notebook of the profiler report is run by Papermill."""
