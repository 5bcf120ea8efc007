"""A release: one version, changes that the changelog takes, and a smoke test for every extra."""

from __future__ import annotations

import re
import tomllib

from package.unpack_wheel import ROOT
from release.smoke import BY_EXTRA

import penstock

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_package_has_the_version_of_the_project() -> None:
    """Which `make release` builds."""
    assert PROJECT["project"]["version"] == penstock.__version__


def test_every_change_has_a_kind_that_the_changelog_has() -> None:
    """Or towncrier would leave it out."""
    kinds = {kind["directory"] for kind in PROJECT["tool"]["towncrier"]["type"]}
    changes = [path.name for path in (ROOT / "changes").glob("*.md") if path.name != "README.md"]

    wrong = [name for name in changes if not re.fullmatch(rf"[\w.-]+\.({'|'.join(kinds)})\.md", name)]
    assert [] == wrong


def test_every_extra_has_a_smoke_test() -> None:
    """Except for those that are tried with others, and the tools."""
    extras = set(PROJECT["project"]["optional-dependencies"])

    assert extras - {"all", "dev", "docs", "jre"} == set(BY_EXTRA)
