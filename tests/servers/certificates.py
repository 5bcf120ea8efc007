"""A certificate for servers on the loopback interface."""

from __future__ import annotations

import pathlib
import shutil
import subprocess


def why_there_is_no_openssl() -> str | None:
    """Return the missing prerequisite, or None."""
    return None if shutil.which("openssl") else "openssl is not installed"


def make_certificate(directory: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """Return the files of a certificate of 127.0.0.1 that signs itself, and of its key."""
    certificate, key = directory / "certificate.pem", directory / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"),
            *("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key
