"""How scripts/smdebug-conformance classes a test of smdebug by what became of it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from typing import NamedTuple

OUTCOMES = ("passed", "failed", "different", "inner", "framework", "data", "not run")
JUDGED = ("passed", "failed", "different")
"""Those that can run and test no inner part."""
INNER_PREFIX = "inner part of smdebug: "
DATA_PREFIX = "Amazon's own data: "
"""As ``smdebug_suite`` begins the reasons of skipped tests."""
AMAZONS = "s3://smdebug-testing/resources"
"""The folder that only Amazon's bucket has."""
IMPORT = ("ModuleNotFoundError", "ImportError")
INNER_MODULES = {
    "config_validator": "the check of framework versions: hooks work with every version that Leadline captures",
    "state_store": "the file that continues step numbers after a restart of a spot instance",
    "CHECKPOINT_CONFIG_FILE_PATH_ENV_VAR": "the file that continues step numbers after a restart of a spot instance",
    "ProfilerEvents": "the parsers of trace files below its readers",
    "system_profiler_file_parser": "the parsers of trace files below its readers",
    "tf_profiler_parser": "the parsers of trace files below its readers",
    "python_profiler": "what starts and stops its Python profilers",
    "TENSORBOARDTIMELINE_SUFFIX": "the parsers of trace files below its readers",
    "PROFILING_NUM_STEPS_DEFAULT": "the ranges of its profiler's configuration",
    "MetricsCategory": "the ranges of its profiler's configuration",
    "pytorch.utils": "checks of framework versions",
    "tensorflow.constants": "the names of its default collections",
    "tensorflow.utils": "what it reads from TF_CONFIG, and checks of framework versions",
    "tfevent.util": "the types of elements in its files",
}
"""Inner parts of smdebug, by a part of the error that their import raises."""
INNER_ERRORS = {
    "against an unsupported version": "the check of framework versions",
    "core.config_validator": "the check of framework versions: hooks work with every version that Leadline captures",
    "_prepare_collections": "a private method of the hook",
    "_increment_step": "a private method of the hook",
}
"""Inner parts of smdebug, by a part of the error of a test."""
SESSIONS = "sessions and estimators of TensorFlow 1; smdebug skips such tests itself from TensorFlow 2.12"
FRAMEWORK_ERRORS = {
    "has no attribute 'estimator'": "tf.estimator, which TensorFlow has not had since 2.16",
    "module 'tensorflow' has no attribute": "names of TensorFlow 1",
    "cannot import name 'SessionHook'": SESSIONS,
    "cannot import name 'EstimatorHook'": SESSIONS,
    "has no attribute 'SessionHook'": SESSIONS,
    "has no attribute 'add_tensor'": SESSIONS,
    "has no attribute 'fetches'": SESSIONS,
    "v2.train' has no attribute": "names of TensorFlow 1",
    "Mixing different tf.distribute.Strategy": "an optimizer made outside of its strategy, which Keras 3 refuses",
    "No module named 'smdebug.tensorflow.session'": SESSIONS,
    "there is no hook for 'session'": SESSIONS,
    "there is no hook for 'estimator'": SESSIONS,
    "`target` and `output` must have the same shape": "a loss of shapes that only Keras 2 takes",
    "fit_generator": "fit_generator of Keras 2",
    "write_grads": "write_grads of the TensorBoard callback of Keras 2",
    "mixed_precision' (": "keras.mixed_precision.experimental of Keras 2",
    "No module named 'horovod'": "Horovod",
    "No such file or directory: 'mpirun'": "Horovod",
    "No module named 'transformers'": "BERT for TensorFlow of transformers, which has no models for it any more",
    "No module named 'smdistributed'": "SageMaker's data parallel library",
}
"""What cannot be installed any more, by a part of the error of a test."""
OPTIMIZER = "counts the variables of Keras 2's optimizer, and of what smdebug can save of Keras 2.6 to 2.11"
FORK = "Amazon's build of the framework, which makes the hook and calls it"
GRAPH = "counts what Keras saves in the graph mode of TensorFlow 1"
SEED = "the script gives Keras 3's state of Dropout to the optimizer: a third weight"
FRAMEWORK_TESTS = {
    "tensorflow2.test_keras::test_keras_gradtape[True]": OPTIMIZER,
    "tensorflow2.test_keras::test_gradtape_persistent[True]": OPTIMIZER,
    "tensorflow2.test_keras::test_gradtape_include_regex": OPTIMIZER,
    "tensorflow2.test_keras::test_gradtape_include_collections": OPTIMIZER,
    "tensorflow2.test_keras::test_keras_fit[True]": OPTIMIZER,
    "tensorflow2.test_keras::test_include_regex": OPTIMIZER,
    "tensorflow2.test_keras::test_include_collections": OPTIMIZER,
    "tensorflow2.test_keras::test_include_only_custom_collection": OPTIMIZER,
    "tensorflow2.test_keras::test_keras_fit_pure_eager": OPTIMIZER,
    "zero_code_change.test_pytorch_error_handling_agent::test_pytorch_error_handling": FORK,
    "zero_code_change.test_pytorch_error_handling_agent::test_non_default_smdebug_configuration": FORK,
    "zero_code_change.test_mxnet_error_handling_agent::test_mxnet_error_handling": FORK,
    "zero_code_change.test_mxnet_error_handling_agent::test_non_default_smdebug_configuration": FORK,
    "zero_code_change.test_tensorflow2_error_handling_agent::test_tf2_callback_error_handling": FORK,
    "zero_code_change.test_tensorflow2_error_handling_agent::test_non_default_smdebug_configuration": FORK,
    "zero_code_change.test_mxnet_gluon_integration::test_integration_mxnet": FORK,
    "zero_code_change.test_training_with_no_grad_updates::test_training_with_no_grad_updates": FORK,
    "tensorflow.keras.test_keras::test_tf_keras": GRAPH,
    "tensorflow.keras.test_keras::test_save_all": GRAPH,
    "tensorflow.keras.test_keras::test_include_regex": GRAPH,
    "tensorflow2.test_grad_tape_tf_function::test_gradtape_tf_function": SEED,
    "tensorflow2.test_keras::test_gradtape_weights_collections": SEED,
    "tensorflow2.test_keras::test_gradtape_hook_from_json": SEED,
}
"""Tests of what a framework was, by the end of their names."""
INNER_TESTS = {
    "test_file_open_fail": "a private attribute of the thread of its trace writer",
    "test_collection_defaults_to_hook_config": "a private method of the hook",
}
"""Tests of inner parts of what is there."""
TRACES = "record_trace_events adds to the timeline of the run, without trace files"
LISTED = "a trial in S3 is listed at most once a second"
EVALUATION = "an evaluation is recognized without set_mode: its batches are eval steps, with a schedule of their own"
TRAIN_STEPS = "weights are saved in train steps only"
DIFFERENT = {
    "test_run_net_distributed_save_all_test_timeline": TRACES,
    "test_hook_timeline_file_write": TRACES,
    "test_non_default_smdebug_configuration": "an error of the hook never ends the training, whatever is configured",
    "test_setup_profiler_report": "Leadline reports nothing about its use",
    "test_refresh_s3": LISTED,
    "test_MetricsReader_TFProfiler_timeline": "TensorFlow's native traces are not read",
    "analysis.tensors.test_refresh::test_refresh_tensors": LISTED,
    "test_spot_hook": "each run counts its steps from 0; a resumed run continues",
    "tensorflow2.test_keras::test_save_tensors": "raw tensors are safetensors, which has no complex128",
    "mxnet.test_custom_tensor::test_hook": "a tensor may join a collection after the first step, too",
    "mxnet.test_hook_all_zero::test_hook_all_zero": EVALUATION,
    "mxnet.test_hook_all_zero::test_hook_all_zero_hook_from_json": EVALUATION,
    "mxnet.test_hook_loss_collection::test_loss_collection_default": EVALUATION,
    "mxnet.test_hook_loss_collection::test_loss_collection_with_no_other_collections": EVALUATION,
    "mxnet.test_hook_reduce_config::test_save_config": EVALUATION,
    "mxnet.test_hook_reduce_config::test_save_config_hook_from_json": EVALUATION,
    "mxnet.test_hook_save_all::test_save_all": EVALUATION,
    "mxnet.test_hook_save_all::test_save_all_hook_from_json": EVALUATION,
    "mxnet.test_modes::test_modes": TRAIN_STEPS,
    "mxnet.test_modes::test_modes_hook_from_json_config": TRAIN_STEPS,
}
"""Tests of behaviour that is meant to differ, with what is there instead, by the end of their names."""
ABORTED = "terminate called without an active exception"
"""What PyTorch says, also without any hook, when it aborts a process that ended before others of its process group."""


class Result(NamedTuple):
    """What became of a test, or of all tests of a file that cannot be imported."""

    name: str
    outcome: str
    """One of ``OUTCOMES``."""
    reason: str
    """Why it did not pass."""
    tests: int = 1


def outcome(case: ElementTree.Element) -> Result:
    """Return how a test ended, and why it did not pass."""
    name = "::".join(filter(None, (case.get("classname", ""), case.get("name", ""))))
    for kind in ("failure", "error", "skipped"):
        found = case.find(kind)
        if found is not None:
            text = found.text or ""
            errors = [line.removeprefix("E").strip() for line in text.splitlines() if line.startswith("E  ")]
            error = errors[-1] if kind == "error" and errors else errors[0] if errors else found.get("message", "")
            return Result(name, *classified(case, name, kind, error))
    return Result(name, "passed", "")


def classified(case: ElementTree.Element, name: str, kind: str, error: str) -> tuple[str, str]:
    """Return the class of a test that did not pass, and the reason."""
    for prefix, how in ((INNER_PREFIX, "inner"), (DATA_PREFIX, "data")):
        if prefix in error:
            return how, error.partition(prefix)[2]
    if AMAZONS in error:
        return "data", AMAZONS
    if kind == "skipped":
        return "not run", f"skipped by smdebug: {error or 'no reason given'}"[:200]
    if ABORTED in (case.findtext("system-err") or ""):
        return "not run", "PyTorch aborted a process that had not left its process group"
    for known, how in ((INNER_TESTS, "inner"), (FRAMEWORK_TESTS, "framework"), (DIFFERENT, "different")):
        part = next((part for part in known if names(part, name)), None)
        if part is not None:
            return how, known[part]
    if any(each in error for each in IMPORT):
        module = next((part for part in INNER_MODULES if part in error), None)
        if module is not None:
            return "inner", INNER_MODULES[module]
    for errors, how in ((FRAMEWORK_ERRORS, "framework"), (INNER_ERRORS, "inner")):
        part = next((part for part in errors if part in error), None)
        if part is not None:
            return how, errors[part]
    return "failed", error[:200]


def names(part: str, name: str) -> bool:
    """Return whether a part names a test, or with all its parameters."""
    return re.search(rf"(?:^|[.:]){re.escape(part)}(?:\[|$)", name) is not None
