"""The built-in algorithms that run here, by the repositories of their images."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from leadline.errors import ConfigurationError
from leadline.process.interpreter import own_command
from leadline.serve.algorithms.errors import USER_STATUS

PROGRAM: Final = "sagemaker_program"
_REPOSITORY: Final = re.compile(r"(?:.*/)?([^/:@]+)(?:[:@].*)?")


@dataclass(frozen=True, slots=True)
class Algorithm:
    """An algorithm, and the library that trains it."""

    name: str
    library: str

    @property
    def is_installed(self) -> bool:
        """Whether the Python that runs this process has the library."""
        return importlib.util.find_spec(self.library) is not None

    def command(self) -> list[str]:
        """Return the command line of the training."""
        return own_command("leadline.serve.algorithms", self.name)


XGBOOST: Final = Algorithm("xgboost", "xgboost")
LIGHTGBM: Final = Algorithm("lightgbm", "lightgbm")
_BY_REPOSITORY: Final = {
    "xgboost": XGBOOST,
    "sagemaker-xgboost": XGBOOST,
    "lightgbm": LIGHTGBM,
    "sagemaker-lightgbm": LIGHTGBM,
}


def algorithm_of(request: Mapping[str, Any]) -> Algorithm | None:
    """Return the algorithm of a request that has an image and no program; None: it has a program.

    Raises:
        ConfigurationError: There is neither a program nor an algorithm that runs here.
    """
    specification = request.get("AlgorithmSpecification", {})
    if PROGRAM in request.get("HyperParameters", {}) or specification.get("ContainerEntrypoint"):
        return None
    image = str(specification.get("TrainingImage") or specification.get("AlgorithmName") or "")
    match = _REPOSITORY.fullmatch(image)
    algorithm = _BY_REPOSITORY.get(match[1]) if match else None
    if algorithm is None:
        known = ", ".join(_BY_REPOSITORY)
        raise ConfigurationError(
            f"there is no program, and the image {image!r} has no algorithm that leadline serve runs ({known}): set "
            f"the hyperparameters {PROGRAM} and sagemaker_submit_directory, or "
            "AlgorithmSpecification.ContainerEntrypoint"
        )
    return algorithm


def check_algorithm(request: Mapping[str, Any]) -> None:
    """Check that the algorithm of a request can run here; nothing if the request has a program.

    Raises:
        ConfigurationError: It cannot.
    """
    algorithm = algorithm_of(request)
    if algorithm is None:
        return
    if not algorithm.is_installed:
        raise ConfigurationError(
            f"the image of {algorithm.name} needs the library in the Python that runs leadline serve: "
            f"pip install {algorithm.library}"
        )
    if request.get("ResourceConfig", {}).get("InstanceCount", 1) > 1:
        raise ConfigurationError(f"leadline serve trains the image of {algorithm.name} on one instance only")


def is_user_error(request: Mapping[str, Any], status: int) -> bool:
    """Return whether a training has failed because its data or a hyperparameter is to be corrected."""
    return status == USER_STATUS and algorithm_of(request) is not None
