"""The version ranges of the extras: versions that their packages support."""

from __future__ import annotations

import pathlib
import re
import sys
import tomllib
import warnings
from operator import attrgetter
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement

import penstock
from penstock.sdk.extras import EXTRAS

# A call that names a module or a package, and its extra.
CALL = re.compile(r'(?:missing_extra|optional_package)\(\s*"(?P<module>[\w.-]+)",\s*(?:extra=)?"(?P<extra>[\w-]+)"')

# Modules with other names than the packages that have them.
DISTRIBUTIONS = {
    "confluent_kafka": {"confluent-kafka"},
    "google": {"google-crc32c"},
    "json": {"pyarrow"},
    "nats": {"nats-py"},
    "paho": {"paho-mqtt"},
    "prometheus_client": {"prometheus-client"},
}

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


def installed(extras: dict[str, list[str]], name: str) -> set[str]:
    """The packages of an extra, and those of the extras that it includes."""
    found = set()
    for requirement in map(Requirement, extras[name]):
        others = [installed(extras, other) for other in requirement.extras] if requirement.name == "penstock" else []
        found |= {requirement.name}.union(*others)
    return found


def test_the_table_of_extras_is_that_of_the_package() -> None:
    """Each with the packages that errors name; names that need one are public."""
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    assert set(extras) - {"all", "dev", "docs"} == {extra.name for extra in EXTRAS}
    assert [] == [extra.name for extra in EXTRAS if not set(extra.packages) <= installed(extras, extra.name)]
    assert all(attrgetter(name)(penstock) is not None for extra in EXTRAS for name in extra.names)


def test_every_error_about_a_missing_package_names_one_that_its_extra_installs() -> None:
    """As far as the code has both as text."""
    packages = {extra.name: set(extra.packages) for extra in EXTRAS}
    named = set()
    for path in PYPROJECT.parent.glob("*/**/*.py"):
        if path.relative_to(PYPROJECT.parent).parts[0] in ("tests", "build", "benchmarks", ".venv"):
            continue
        for found in CALL.finditer(path.read_text()):
            named.add((found["module"].partition(".")[0], found["extra"]))
    assert len(named) > 15
    assert set() == {
        (module, extra) for module, extra in named if not DISTRIBUTIONS.get(module, {module}) & packages[extra]
    }
