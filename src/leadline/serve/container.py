"""What a training script finds in a container of SageMaker: folders, files of configuration, variables, arguments."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any, Final, TypedDict

from leadline.process.interpreter import users_environment
from leadline.records.json_object import JsonObject
from leadline.serve.algorithms.images import PROGRAM, algorithm_of
from leadline.serve.job_folder import JobFolder, JobSpecification
from leadline.store.documents import make_folder, write_document

ROOT: Final = "/opt/ml"
"""The folder of a training in a container."""
SOURCE: Final = "sagemaker_submit_directory"
_OWN: Final = "sagemaker_"
_LOG_LEVEL: Final = "sagemaker_container_log_level"
_INFO: Final = "20"
_FOLDERS: Final = ("input/data", "model", "code", "checkpoints", "output/data", "output/tensorboard")
_SHARED: Final = frozenset({"code", "checkpoints"})
_LEADLINE: Final = "LEADLINE"
_GROUP: Final = "homogeneousCluster"
"""The name that SageMaker gives the instances of a job without groups."""
_NODE_NAME: Final = "LEADLINE_NODE_NAME"
_CONFIGURATIONS: Final = (
    ("DebugHookConfig", "debughookconfig.json", "SMDEBUG_CONFIG_FILE_PATH", "output/tensors"),
    ("ProfilerConfig", "profilerconfig.json", "SMPROFILER_CONFIG_PATH", "output/profiler"),
    ("TensorBoardOutputConfig", "tensorboardoutputconfig.json", "TENSORBOARD_CONFIG_FILE_PATH", "output/tensorboard"),
    ("CheckpointConfig", "checkpointconfig.json", "CHECKPOINT_CONFIG_FILE_PATH", "checkpoints"),
)
"""Members of the request, the files that they become, the variables with their paths, and the local folders."""


def hyperparameters(request: Mapping[str, Any]) -> JsonObject:
    """Return all hyperparameters; SDK v2 encodes each as JSON, and what is not JSON is a text."""
    return {name: _decoded(value) for name, value in request.get("HyperParameters", {}).items()}


def _decoded(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def command(request: Mapping[str, Any], container: str, python: str = sys.executable) -> list[str]:
    """Return the command line of the training.

    Args:
        container: The folder that is ``/opt/ml`` in a container; paths of an entrypoint lead there.
        python: The interpreter of programs in Python.
    """
    algorithm = request.get("AlgorithmSpecification", {})
    entrypoint = [*algorithm.get("ContainerEntrypoint", ()), *algorithm.get("ContainerArguments", ())]
    if entrypoint:
        return [word.replace(f"{ROOT}/", f"{container}/") for word in entrypoint]
    builtin = algorithm_of(request)
    if builtin is not None:
        return builtin.command()
    program = str(hyperparameters(request)[PROGRAM])
    interpreter = ["/bin/sh"] if program.endswith(".sh") else [python]
    return [*interpreter, os.path.join(container, "code", program), *arguments(request)]


def arguments(request: Mapping[str, Any]) -> list[str]:
    """Return the user's hyperparameters as arguments: ``--epochs 3``."""
    words: list[str] = []
    for name, value in sorted(_users(hyperparameters(request)).items()):
        words += [f"--{name}" if len(name) > 1 else f"-{name}", "" if value is None else str(value)]
    return words


def _users(values: Mapping[str, Any]) -> JsonObject:
    return {name: value for name, value in values.items() if not name.startswith(_OWN)}


def hosts(request: Mapping[str, Any]) -> list[str]:
    """Return the names of the hosts of a job: ``algo-1``, ``algo-2``, …"""
    return [f"algo-{number}" for number in range(1, request.get("ResourceConfig", {}).get("InstanceCount", 1) + 1)]


def prepare(folder: JobFolder, specification: JobSpecification, host: str) -> dict[str, str]:
    """Create the folders and files of configuration of a host; return the environment of the training there.

    Source and checkpoints are those of the first host.

    Raises:
        OSError: They could not be written.
    """
    request = specification.request
    for name in _FOLDERS:
        path, shared = folder.in_container(*name.split("/"), host=host), folder.in_container(*name.split("/"))
        if name in _SHARED and path != shared:
            make_folder(os.path.dirname(path))
            os.symlink(shared, path)
        else:
            make_folder(path)
    config = folder.in_container("input", "config", host=host)
    channels = {channel["ChannelName"]: channel for channel in request.get("InputDataConfig", ())}
    resources = _resources(request, host)
    documents: dict[str, object] = {
        "hyperparameters.json": request.get("HyperParameters", {}),
        "inputdataconfig.json": {name: _channel(channel) for name, channel in channels.items()},
        "resourceconfig.json": resources,
    }
    variables = _variables(folder, specification, list(channels), resources)
    variables[_NODE_NAME] = host
    for member, name, variable, local in _CONFIGURATIONS:
        if member in request:
            documents[name] = request[member] | {"LocalPath": folder.in_container(*local.split("/"), host=host)}
            variables[variable] = os.path.join(config, name)
    make_folder(config)
    for name, document in documents.items():
        write_document(os.path.join(config, name), document)
    inherited = {name: value for name, value in users_environment().items() if not name.startswith(_LEADLINE)}
    return inherited | variables | dict(request.get("Environment", {}))


def with_python(environment: Mapping[str, str], python: str) -> dict[str, str]:
    """Return an environment in which what calls itself ``python3`` is an interpreter."""
    return {**environment, "PATH": os.pathsep.join((os.path.dirname(python), environment.get("PATH", os.defpath)))}


class InstanceGroup(TypedDict):
    """The instances of a job, which are one group."""

    instance_group_name: str
    instance_type: str
    hosts: list[str]


class ResourceConfig(TypedDict):
    """``resourceconfig.json``: the hosts of a job, and which one this is."""

    current_host: str
    current_instance_type: str
    current_group_name: str
    hosts: list[str]
    instance_groups: list[InstanceGroup]
    network_interface_name: str


def _resources(request: Mapping[str, Any], host: str) -> ResourceConfig:
    kind = request.get("ResourceConfig", {}).get("InstanceType", "")
    group: InstanceGroup = {"instance_group_name": _GROUP, "instance_type": kind, "hosts": hosts(request)}
    return {
        "current_host": host,
        "current_instance_type": kind,
        "current_group_name": _GROUP,
        "hosts": hosts(request),
        "instance_groups": [group],
        "network_interface_name": "lo",
    }


def _channel(channel: Mapping[str, Any]) -> dict[str, str]:
    source = channel.get("DataSource", {}).get("S3DataSource", {})
    return {
        "TrainingInputMode": "File",
        "S3DistributionType": source.get("S3DataDistributionType", "FullyReplicated"),
        "RecordWrapperType": channel.get("RecordWrapperType", "None"),
        **({"ContentType": channel["ContentType"]} if "ContentType" in channel else {}),
    }


def _variables(
    folder: JobFolder, specification: JobSpecification, channels: list[str], resources: ResourceConfig
) -> dict[str, str]:
    """Return the variables that SageMaker's training toolkit sets."""
    host = resources["current_host"]

    def within(*names: str) -> str:
        return folder.in_container(*names, host=host)

    everything = hyperparameters(specification.request)
    users = _users(everything)
    program = str(everything.get(PROGRAM, ""))
    values: dict[str, object] = {
        "SM_MODEL_DIR": within("model"),
        "SM_INPUT_DIR": within("input"),
        "SM_INPUT_CONFIG_DIR": within("input", "config"),
        "SM_OUTPUT_DIR": within("output"),
        "SM_OUTPUT_DATA_DIR": within("output", "data"),
        "SM_OUTPUT_INTERMEDIATE_DIR": within("output", "intermediate"),
        "SM_CHANNELS": channels,
        "SM_HPS": users,
        "SM_USER_ARGS": arguments(specification.request),
        "SM_USER_ENTRY_POINT": program,
        "SM_MODULE_NAME": program.removesuffix(".py"),
        "SM_MODULE_DIR": str(everything.get(SOURCE, "")),
        "SM_FRAMEWORK_PARAMS": {name: value for name, value in everything.items() if name not in users},
        "SM_RESOURCE_CONFIG": resources,
        "SM_HOSTS": resources["hosts"],
        "SM_CURRENT_HOST": host,
        "SM_NUM_CPUS": os.cpu_count() or 1,
        "SM_LOG_LEVEL": everything.get(_LOG_LEVEL, _INFO),
        "TRAINING_JOB_NAME": specification.name,
        "TRAINING_JOB_ARN": specification.arn,
        "AWS_REGION": specification.region,
        "USE_SMDEBUG": "DebugHookConfig" in specification.request,
        **{f"SM_CHANNEL_{name.upper()}": within("input", "data", name) for name in channels},
        **{f"SM_HP_{name.upper()}": value for name, value in users.items() if "=" not in name},
    }
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in values.items()}
