"""Waiting for modules: told once, whoever imports them, and no trace is left."""

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
    for name in [each for each in sys.modules if each.partition(".")[0] in ("waited", "packed")]:
        del sys.modules[name]


class Told:
    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, name: str, module: ModuleType) -> None:
        assert sys.modules[name] is module
        assert module.value == 1  # it has been executed
        self.names.append(name)


def test_a_module_is_told_of_when_it_has_been_executed_and_only_once(folder: Path) -> None:
    told = Told()
    watch = ImportWatch(["waited.inner"], told)
    before = list(sys.meta_path)
    watch.install()
    import waited.inner  # type: ignore[import-not-found]

    assert told.names == ["waited.inner"]
    assert "exec_module" not in vars(waited.inner.__loader__)
    assert importlib.reload(waited.inner)
    assert told.names == ["waited.inner"]
    watch.uninstall()
    assert sys.meta_path == before


def test_one_that_is_there_already_is_told_of_at_once(folder: Path) -> None:
    importlib.import_module("waited.inner")
    told = Told()
    watch = ImportWatch(["waited.inner", "waited.absent"], told)
    watch.install()
    assert told.names == ["waited.inner"]
    watch.uninstall()


def test_to_ask_whether_there_is_a_module_is_not_to_import_it(folder: Path) -> None:
    told = Told()
    watch = ImportWatch(["waited.inner"], told)
    watch.install()
    assert importlib.util.find_spec("waited.inner") is not None
    assert told.names == []
    importlib.import_module("waited.inner")
    assert told.names == ["waited.inner"]
    watch.uninstall()


def test_a_failed_import_is_the_modules_own(folder: Path) -> None:
    told = Told()
    watch = ImportWatch(["waited.broken", "waited.absent"], told)
    watch.install()
    with pytest.raises(ValueError, match="its own"):
        importlib.import_module("waited.broken")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("waited.absent")
    assert told.names == []
    watch.uninstall()


def test_nobody_is_told_after_the_end(folder: Path) -> None:
    told = Told()
    watch = ImportWatch(["waited.inner"], told)
    watch.install()
    spec = importlib.util.find_spec("waited.inner")
    assert spec is not None
    watch.uninstall()
    importlib.import_module("waited.inner")
    assert told.names == []


def test_another_finder_that_asks_all_finders_does_not_go_in_circles(folder: Path) -> None:
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

    asking, told = Asking(), Told()
    watch = ImportWatch(["waited.inner"], told)
    watch.install()
    sys.meta_path.insert(0, asking)  # type: ignore[arg-type]
    try:
        importlib.import_module("waited.inner")
        assert told.names == ["waited.inner"]
        assert importlib.util.find_spec("waited.broken") is not None
    finally:
        sys.meta_path.remove(asking)  # type: ignore[arg-type]
        watch.uninstall()


def test_a_module_out_of_an_archive(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its loader is that of all modules of the archive."""
    with zipfile.ZipFile(folder / "archive.zip", "w") as archive:
        archive.writestr("packed/__init__.py", "")
        archive.writestr("packed/inner.py", "from packed import other\nvalue = 1\n")
        archive.writestr("packed/other.py", "value = 2\n")
    monkeypatch.syspath_prepend(str(folder / "archive.zip"))
    told = Told()
    watch = ImportWatch(["packed.inner"], told)
    watch.install()
    module = importlib.import_module("packed.inner")
    assert told.names == ["packed.inner"]
    assert "exec_module" not in vars(module.__loader__)
    watch.uninstall()


def test_a_module_that_is_being_executed_is_told_of_when_we_look_again(folder: Path) -> None:
    (folder / "waited" / "slow.py").write_text("import waiting_for_it\nwaiting_for_it.begin()\nvalue = 1\n")
    told = Told()
    watch = ImportWatch(["waited.slow"], told)
    helper = ModuleType("waiting_for_it")
    helper.begin = watch.install
    sys.modules["waiting_for_it"] = helper
    importlib.import_module("waited.slow")
    assert told.names == []
    watch.look_again()
    watch.look_again()
    assert told.names == ["waited.slow"]
    watch.uninstall()
    del sys.modules["waiting_for_it"]
