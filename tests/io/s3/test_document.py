"""The program of docs/connectors/object_stores.md runs as it is written, on a store of a test."""

from __future__ import annotations

from servers.s3_server import S3Server
from support.programs.document_code import programs

from penstock.io.files.filesystem import filesystem_for


def test_the_program_writes_numbers(s3: S3Server) -> None:
    (program,) = programs("docs/connectors/object_stores.md", __file__)
    exec(program, {})
    fs = filesystem_for("s3://lake")
    lines: list[bytes] = []
    for file in fs.match("s3://lake/numbers*"):
        with fs.open(file.path) as opened:
            lines += opened.read().split()
    assert list(range(1000)) == sorted(map(int, lines))
