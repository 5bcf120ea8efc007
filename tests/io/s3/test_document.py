"""The program of docs/connectors/s3.md runs as it is written, on a store of a test."""

from __future__ import annotations

import re

from package.unpack_wheel import ROOT
from servers.s3_server import S3Server

from penstock.io.files.filesystem import filesystem_for


def test_the_program_writes_numbers(s3: S3Server) -> None:
    (program,) = re.findall(r"```py\n(.*?)```", (ROOT / "docs" / "connectors" / "s3.md").read_text(), re.DOTALL)
    exec(program, {})
    fs = filesystem_for("s3://lake")
    lines: list[bytes] = []
    for file in fs.match("s3://lake/numbers*"):
        with fs.open(file.path) as opened:
            lines += opened.read().split()
    assert list(range(1000)) == sorted(map(int, lines))
