"""The version ranges of the extras: versions that their packages support."""

from __future__ import annotations

import pathlib
import sys
import tomllib
import warnings
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement

PYPROJECT = pathlib.Path(__file__).parents[2] / "pyproject.toml"


def bounds(extra: str, package: str) -> Requirement:
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    return next(r for r in map(Requirement, extras[extra]) if r.name == package)


@pytest.mark.parametrize("version", ["2.1.4", "2.2.0", "2.3.3", "3.0.0", "3.1.1"])
def test_dataframes_asks_for_a_pandas_that_pyspark_converts_without_a_warning(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PySpark's own check, for each version, agrees with the bounds."""
    from pyspark.sql.pandas.utils import require_minimum_pandas_version

    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(__version__=version))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            require_minimum_pandas_version()
            is_supported = not warned
        except Exception:  # PySpark's error for one that is too old
            is_supported = False

    assert bounds("dataframes", "pandas").specifier.contains(version) == is_supported


@pytest.mark.parametrize("version", ["17.0.0", "18.0.0", "19.0.0", "26.0.1"])
def test_dataframes_asks_for_a_pyarrow_that_pyspark_takes(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark's own check takes each version within the bounds.  Columns need a newer one than PySpark."""
    from pyspark.sql.pandas.utils import require_minimum_pyarrow_version

    monkeypatch.setitem(sys.modules, "pyarrow", SimpleNamespace(__version__=version))
    try:
        require_minimum_pyarrow_version()
        is_supported = True
    except Exception:  # PySpark's error for one that is too old
        is_supported = False

    assert is_supported or not bounds("dataframes", "pyarrow").specifier.contains(version)


def test_all_asks_for_every_other_extra() -> None:
    """Of those that users need; the tools for development are apart."""
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    (everything,) = map(Requirement, extras["all"])
    assert set(extras) - {"all", "dev", "docs"} == set(everything.extras)
