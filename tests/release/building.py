"""Builds of the last commit: reproducible sdists and wheels."""

from __future__ import annotations

import datetime
import gzip
import hashlib
import io
import os
import pathlib
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Mapping, Sequence

from support.programs.archives import unpack

ROOT = pathlib.Path(__file__).resolve().parents[2]


def version() -> str:
    """The version that pyproject.toml says."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        return str(tomllib.load(file)["project"]["version"])


def run(command: Sequence[str], cwd: pathlib.Path = ROOT, env: Mapping[str, str] | None = None) -> str:
    """Run a command; what it prints is shown if it fails, which ends the program."""
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)}\nexited with status {done.returncode}:\n{done.stdout}")
    return done.stdout


def build(directory: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """Build the sdist of the last commit, and the wheel from the sdist.  Returns their paths."""
    sources, built = directory / "sources", directory / "dist"
    sources.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        unpack(tar, sources)
    epoch = run(["git", "log", "-1", "--format=%ct"]).strip()
    date = datetime.datetime.fromtimestamp(int(epoch), datetime.UTC).date().isoformat()
    changelog = ["towncrier", "build", "--yes", "--version", version(), "--date", date]
    run([sys.executable, "-m", *changelog], sources)
    # What a wheel takes from the files around it: their permissions depend on the umask.
    for path in sources.rglob("*"):
        path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
    run([sys.executable, "-m", "build", "--outdir", str(built), str(sources)], env={"SOURCE_DATE_EPOCH": epoch})
    (sdist,), (wheel,) = built.glob("*.tar.gz"), built.glob("*.whl")
    _normalize(sdist, int(epoch))
    return sdist, wheel


def _normalize(sdist: pathlib.Path, epoch: int) -> None:
    """Give all files of an sdist one time and no owner; setuptools has the time of the build."""
    with tarfile.open(sdist) as tar:
        members = [(member, tar.extractfile(member)) for member in tar.getmembers()]
        with io.BytesIO() as plain:
            with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as normal:
                for member, content in sorted(members, key=lambda pair: pair[0].name):
                    member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
                    member.pax_headers = {}
                    normal.addfile(member, content)
            packed = gzip.compress(plain.getvalue(), mtime=epoch)
    sdist.write_bytes(packed)


def digest(path: pathlib.Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
