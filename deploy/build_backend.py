"""Build of penstock by setuptools.  An editable installation also leads type checkers to the package.

The repository's root is the package, so setuptools installs a hook of Python's import system, which type checkers don't
run.  They read the paths of an environment, so the editable wheel adds one: a folder with a link to the root that has
the package's name.  Python skips it, and so imports the files themselves, by the hook.
"""

from __future__ import annotations

import base64
import hashlib
import os
import pathlib
import zipfile
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".editable"

# An importer of None makes Python skip a path.
PATH = f"{FOLDER}\nimport sys; sys.path_importer_cache[{str(FOLDER)!r}] = None\n"


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """Build the editable wheel of setuptools, with a path for type checkers."""
    FOLDER.mkdir(exist_ok=True)
    link = FOLDER / "penstock"
    if not link.is_symlink():
        link.symlink_to(os.pardir, target_is_directory=True)
    name: str = build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
    _add_path(pathlib.Path(wheel_directory, name))
    return name


def _add_path(wheel: pathlib.Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        files = {info.filename: archive.read(info) for info in archive.infolist()}
    files["__editable_path__.penstock.pth"] = PATH.encode()
    (record,) = (path for path in files if path.endswith(".dist-info/RECORD"))
    files[record] = "".join(
        [*(_line(path, data) for path, data in files.items() if path != record), f"{record},,\n"]
    ).encode()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            archive.writestr(path, data)


def _line(path: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(data)}\n"
