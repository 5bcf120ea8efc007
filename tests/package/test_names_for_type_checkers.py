"""The files that type checkers read in place of namespaces, such as `penstock/window.py`."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
from types import ModuleType
from typing import Any

import pytest

import penstock
from penstock.sdk.names.namespaces import Namespace

ROOT = pathlib.Path(penstock.__file__).parent


def _files() -> list[str]:
    """The namespaces that have a file, by path."""
    loaded = [name for name, module in sys.modules.items() if isinstance(module, Namespace)]
    paths = [name.partition(".")[2] for name in loaded if name.startswith("penstock.")]
    files = [(path, ROOT / path.replace(".", "/")) for path in paths]
    return sorted(path for path, file in files if file.with_suffix(".py").exists() or (file / "__init__.py").exists())


def _module_of(path: str) -> ModuleType:
    file = ROOT / path.replace(".", "/")
    is_package = (file / "__init__.py").exists()
    spec = importlib.util.spec_from_file_location(
        f"penstock.{path}",
        file / "__init__.py" if is_package else file.with_suffix(".py"),
        submodule_search_locations=[str(file)] if is_package else None,
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_namespaces_of_the_documentation_have_files() -> None:
    """The list of these files is the one of the namespaces at these paths."""
    assert {
        "coders",
        "io.restriction_trackers",
        "io.watermark_estimators",
        "metrics",
        "options",
        "options.pipeline_options",
        "pvalue",
        "transforms.core",
        "transforms.userstate",
        "transforms.window",
        "trigger",
        "typehints",
        "utils.timestamp",
        "window",
    } <= set(_files())


@pytest.mark.parametrize("path", _files())
def test_a_name_for_type_checkers_is_the_one_of_the_namespace(path: str) -> None:
    """Each name of the file is the same object at run time."""
    imported: dict[str, Any] = {
        name: value
        for name, value in vars(_module_of(path)).items()
        if not name.startswith("_") and name not in ("TYPE_CHECKING", "Any") and not isinstance(value, ModuleType)
    }
    namespace = sys.modules[f"penstock.{path}"]
    assert {} == {name: value for name, value in imported.items() if getattr(namespace, name, None) is not value}
