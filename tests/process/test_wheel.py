"""The wheel, in an environment that has nothing but its dependencies; then the first example of the README."""

from __future__ import annotations

import email
import json
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from launching import PATIENCE, environment
from packaging.requirements import Requirement

pytestmark = pytest.mark.real_starts

ROOT = Path(__file__).parents[2]


def call(*words: str, folder: Path, status: int = 0) -> str:
    ended = subprocess.run(words, cwd=folder, env=environment(), capture_output=True, text=True, timeout=PATIENCE)
    assert ended.returncode == status, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


@pytest.mark.slow
def test_the_wheel_runs_the_first_example_of_the_readme(tmp_path: Path) -> None:
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    call(*pip, "wheel", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT), folder=tmp_path)
    (wheel,) = tmp_path.glob("leadline-*.whl")
    check_metadata(wheel)
    clean = tmp_path / "clean"
    call(sys.executable, "-m", "venv", "--without-pip", str(clean), folder=tmp_path)
    call(*pip, "--python", str(clean), "install", str(wheel), folder=tmp_path)
    leadline = str(clean / "bin" / "leadline")

    assert "vanishing_gradient" in call(leadline, "rules", folder=tmp_path)
    assert "pip install torch" in call(leadline, "demo", folder=tmp_path, status=2)
    hook = call(leadline, "run", str(clean / "bin" / "python"), "-c", HOOK, folder=tmp_path)
    assert "explains exploding_tensor (step 20)" in hook

    (site,) = clean.glob("lib/python*/site-packages")
    (site / "torch_of_the_tests.pth").write_text(sysconfig.get_path("purelib"))  # last: all else is the wheel's
    printed = call(leadline, "demo", folder=tmp_path, status=10)
    shown = json.loads(call(leadline, "show", "--json", folder=tmp_path))
    assert shown["stopped_by"] == "rule:exploding_tensor"
    promised = findings((ROOT / "README.md").read_text())
    assert findings(printed) & promised
    assert {rule for rule, _ in findings(printed)} <= {rule for rule, _ in promised}  # a slow judge finds more


def check_metadata(wheel: Path) -> None:
    """Check what the package index shows; each extra is documented, and has requirements that pip can read."""
    with zipfile.ZipFile(wheel) as files:
        (name,) = (name for name in files.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_string(files.read(name).decode())
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload() == (ROOT / "README.md").read_text()
    table = (ROOT / "docs" / "getting-started" / "install.md").read_text()
    documented = re.findall("`([a-z-]+)`", " ".join(re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE)))
    assert set(metadata.get_all("Provides-Extra")) == set(documented)
    needed = [Requirement(line) for line in metadata.get_all("Requires-Dist")]
    of_extras = {
        extra for need in needed for extra in documented if need.marker and need.marker.evaluate({"extra": extra})
    }
    assert of_extras == set(documented)


def findings(text: str) -> set[tuple[str, str]]:
    """Return rule and first words of each finding."""
    return {match.groups() for match in re.finditer(r"^leadline  step \d+  (\w+): (\S+ \S+)", text, re.MULTILINE)}


HOOK = """
import leadline

with leadline.Hook() as hook:
    for step in range(50):
        hook.log(loss=float("nan") if step == 20 else 1.0)
        hook.step()
"""
