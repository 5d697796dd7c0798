"""What ModelTrainer of SDK v3 needs of a job: drivers and commands that lead to the folders of each host."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from api_caller import MANIFEST

from leadline.serve import container
from leadline.serve.instances import share_channels
from leadline.serve.job_folder import JobFolder, JobSpecification
from leadline.serve.sdk_drivers import place_drivers

REQUEST: dict[str, Any] = {
    "AlgorithmSpecification": {
        "ContainerEntrypoint": ["/bin/bash"],
        "ContainerArguments": ["-c", "chmod +x /opt/ml/input/data/sm_drivers/sm_train.sh && /opt/ml/input/x"],
    },
    "InputDataConfig": [{"ChannelName": "sm_drivers", "DataSource": {"S3DataSource": {}}}],
    "ResourceConfig": {"InstanceCount": 2, "InstanceType": "ml.m5.xlarge"},
    "HyperParameters": {"steps": "5"},
}


def test_each_host_has_drivers_for_its_own_folder(tmp_path: Path) -> None:
    folder = JobFolder(str(tmp_path), "job")
    specification = JobSpecification("job", "arn", "eu-west-1", REQUEST, MANIFEST, {})
    environments = {host: container.prepare(folder, specification, host) for host in ("algo-1", "algo-2")}
    drivers = Path(folder.in_container("input", "data", "sm_drivers"))
    (drivers / "scripts").mkdir(parents=True)
    (drivers / "scripts" / "environment.py").write_text('MODEL = "/opt/ml/model"; OTHER = "/opt/mlx"')
    (drivers / "data.bin").write_bytes(b"/opt/ml/\xff")
    share_channels(folder, REQUEST, ["algo-1", "algo-2"])
    place_drivers(folder, ["algo-1", "algo-2"])
    for host in ("algo-1", "algo-2"):
        root = folder.container_of(host)
        placed = Path(root, "input", "data", "sm_drivers")
        assert (placed / "scripts" / "environment.py").read_text() == f'MODEL = "{root}/model"; OTHER = "/opt/mlx"'
        assert (placed / "data.bin").read_bytes() == b"/opt/ml/\xff"
        assert container.command(REQUEST, root)[:2] == ["/bin/bash", "-c"]
        assert f"{root}/input/data/sm_drivers/sm_train.sh && {root}/input/x" in container.command(REQUEST, root)[2]
        resources = json.loads(Path(root, "input", "config", "resourceconfig.json").read_text())
        assert (resources["current_host"], resources["current_instance_type"]) == (host, "ml.m5.xlarge")
        assert resources["instance_groups"][0]["hosts"] == ["algo-1", "algo-2"]
        path = container.with_python(environments[host], "/opt/job/bin/python")["PATH"]
        assert path.split(os.pathsep)[0] == "/opt/job/bin"


def test_a_job_without_drivers_is_left_alone(tmp_path: Path) -> None:
    folder = JobFolder(str(tmp_path), "job")
    place_drivers(folder, ["algo-1"])
    assert not os.path.exists(folder.container)
