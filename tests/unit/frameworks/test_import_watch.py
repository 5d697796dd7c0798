"""Import watches report each module once, whoever imports it, and leave no trace."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from leadline.frameworks.import_watch import ImportWatch


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path with a package ``waited``."""
    (tmp_path / "waited").mkdir()
    (tmp_path / "waited" / "__init__.py").write_text("")
    (tmp_path / "waited" / "inner.py").write_text("value = 1\n")
    (tmp_path / "waited" / "broken.py").write_text("raise ValueError('its own')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield tmp_path
    for name in [module_name for module_name in sys.modules if module_name.partition(".")[0] in ("waited", "packed")]:
        del sys.modules[name]


class Reported:
    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, name: str, module: ModuleType) -> None:
        assert sys.modules[name] is module
        assert module.value == 1  # it has been executed
        self.names.append(name)


def test_a_module_is_reported_once_after_its_execution(folder: Path) -> None:
    reported = Reported()
    watch = ImportWatch(["waited.inner"], reported)
    before = list(sys.meta_path)
    watch.install()
    import waited.inner  # type: ignore[import-not-found]

    assert reported.names == ["waited.inner"]
    assert "exec_module" not in vars(waited.inner.__loader__)
    assert importlib.reload(waited.inner)
    assert reported.names == ["waited.inner"]
    watch.uninstall()
    assert sys.meta_path == before


def test_an_imported_module_is_reported_at_once(folder: Path) -> None:
    importlib.import_module("waited.inner")
    reported = Reported()
    watch = ImportWatch(["waited.inner", "waited.absent"], reported)
    watch.install()
    assert reported.names == ["waited.inner"]
    watch.uninstall()


def test_looking_up_a_module_does_not_import_it(folder: Path) -> None:
    reported = Reported()
    watch = ImportWatch(["waited.inner"], reported)
    watch.install()
    assert importlib.util.find_spec("waited.inner") is not None
    assert reported.names == []
    importlib.import_module("waited.inner")
    assert reported.names == ["waited.inner"]
    watch.uninstall()


def test_a_failed_import_raises_the_errors_of_the_module(folder: Path) -> None:
    reported = Reported()
    watch = ImportWatch(["waited.broken", "waited.absent"], reported)
    watch.install()
    with pytest.raises(ValueError, match="its own"):
        importlib.import_module("waited.broken")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("waited.absent")
    assert reported.names == []
    watch.uninstall()


def test_nothing_is_reported_after_uninstall(folder: Path) -> None:
    reported = Reported()
    watch = ImportWatch(["waited.inner"], reported)
    watch.install()
    spec = importlib.util.find_spec("waited.inner")
    assert spec is not None
    watch.uninstall()
    importlib.import_module("waited.inner")
    assert reported.names == []


def test_another_finder_that_asks_all_finders_causes_no_recursion(folder: Path) -> None:
    class Asking:
        is_asking = False

        def find_spec(self, name: str, path: object = None, target: object = None) -> object:
            if self.is_asking or not name.startswith("waited"):
                return None
            self.is_asking = True
            try:
                return importlib.util.find_spec(name)
            finally:
                self.is_asking = False

    asking, reported = Asking(), Reported()
    watch = ImportWatch(["waited.inner"], reported)
    watch.install()
    sys.meta_path.insert(0, asking)  # type: ignore[arg-type]
    try:
        importlib.import_module("waited.inner")
        assert reported.names == ["waited.inner"]
        assert importlib.util.find_spec("waited.broken") is not None
    finally:
        sys.meta_path.remove(asking)  # type: ignore[arg-type]
        watch.uninstall()


def test_a_module_from_an_archive(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its loader is that of all modules of the archive."""
    with zipfile.ZipFile(folder / "archive.zip", "w") as archive:
        archive.writestr("packed/__init__.py", "")
        archive.writestr("packed/inner.py", "from packed import other\nvalue = 1\n")
        archive.writestr("packed/other.py", "value = 2\n")
    monkeypatch.syspath_prepend(str(folder / "archive.zip"))
    reported = Reported()
    watch = ImportWatch(["packed.inner"], reported)
    watch.install()
    module = importlib.import_module("packed.inner")
    assert reported.names == ["packed.inner"]
    assert "exec_module" not in vars(module.__loader__)
    watch.uninstall()


def test_a_module_in_execution_is_reported_by_look_again(folder: Path) -> None:
    (folder / "waited" / "slow.py").write_text("import waiting_for_it\nwaiting_for_it.begin()\nvalue = 1\n")
    reported = Reported()
    watch = ImportWatch(["waited.slow"], reported)
    helper = ModuleType("waiting_for_it")
    helper.begin = watch.install
    sys.modules["waiting_for_it"] = helper
    importlib.import_module("waited.slow")
    assert reported.names == []
    watch.look_again()
    watch.look_again()
    assert reported.names == ["waited.slow"]
    watch.uninstall()
    del sys.modules["waiting_for_it"]
