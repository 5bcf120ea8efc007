"""Run programs one after the other, as `penstock run` does, and print what each prints, as JSON by file name.

python run_programs.py [--beam] a.py b.py ...
"""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
import sys

from penstock.cli.program import run_program


def main(arguments: list[str]) -> None:
    beam = arguments[:1] == ["--beam"]
    printed = {}
    for path in map(pathlib.Path, arguments[beam:]):
        with contextlib.redirect_stdout(io.StringIO()) as lines:
            run_program(str(path), [], beam=beam)
        printed[path.stem] = lines.getvalue()
    json.dump(printed, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
