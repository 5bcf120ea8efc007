"""Environments for executors: with the wheel of this checkout, with another version of it, and without it."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from functools import cached_property
from importlib.metadata import requires

import attrs
from package.unpack_wheel import build_wheel, copy_sources

import penstock

OTHER_VERSION = "0.0.1"


@attrs.define(slots=False)
class Environments:
    """Makes environments.

    Attributes:
      directory: where they are.
    """

    directory: pathlib.Path

    @cached_property
    def wheel(self) -> pathlib.Path:
        """The wheel of this checkout."""
        return self._built("wheel")

    @cached_property
    def installed(self) -> pathlib.Path:
        """The interpreter of an environment with the wheel."""
        return self._environment("installed", str(self.wheel))

    @cached_property
    def other_version(self) -> pathlib.Path:
        """The interpreter of an environment with another version of penstock."""
        return self._environment("other", str(self._built("other-wheel", OTHER_VERSION)))

    @cached_property
    def without_penstock(self) -> pathlib.Path:
        """The interpreter of an environment with the packages that penstock needs, and without penstock."""
        needed = [line for line in requires("penstock") or () if "extra ==" not in line]
        return self._environment("without", *needed)

    @cached_property
    def archive(self) -> pathlib.Path:
        """The environment with the wheel, packed for `--archives`."""
        archive = self.directory / "environment.tar.gz"
        prefix = self.installed.parents[1]
        _run(sys.executable, "-m", "venv_pack", "--quiet", "--prefix", str(prefix), "--output", str(archive))
        return archive

    @cached_property
    def zip(self) -> pathlib.Path:
        """The wheel, for `--py-files`."""
        copy = self.directory / "penstock.zip"
        copy.write_bytes(self.wheel.read_bytes())
        return copy

    def _built(self, name: str, version: str | None = None) -> pathlib.Path:
        sources, target = self.directory / f"{name}-sources", self.directory / name
        sources.mkdir()
        copy_sources(sources)
        if version is not None:
            for file in ("__init__.py", "pyproject.toml"):
                text = (sources / file).read_text()
                changed = text.replace(f'version__ = "{penstock.__version__}"', f'version__ = "{version}"')
                (sources / file).write_text(
                    changed.replace(f'\nversion = "{penstock.__version__}"', f'\nversion = "{version}"')
                )
        return build_wheel(sources, target)

    def _environment(self, name: str, *packages: str) -> pathlib.Path:
        prefix = self.directory / name
        _run(sys.executable, "-m", "venv", "--without-pip", str(prefix))
        interpreter = prefix / "bin" / "python"
        _run(sys.executable, "-m", "pip", "--python", str(interpreter), "--quiet", "install", *packages)
        return interpreter


def _run(*command: str) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert 0 == ran.returncode, f"{' '.join(command)}\n{ran.stdout}{ran.stderr}"
