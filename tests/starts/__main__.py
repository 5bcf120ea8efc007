"""Run pipelines in workers from a program that can't be forked: `python tests/starts --runs=200`."""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys
import time

PROGRAM = pathlib.Path(__file__).with_name("busy_program.py")

# Seconds for each run, of which some are imports.
PATIENCE = 30


def main() -> None:
    """Run the program with both start methods; a wrong result or a hang ends it."""
    parser = argparse.ArgumentParser(prog="tests/starts", description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="how many runs with each start method")
    runs = parser.parse_args().runs
    for method in ("forkserver", "spawn"):
        began = time.monotonic()
        command = [sys.executable, str(PROGRAM), str(runs), f"--start_method={method}"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=60 + PATIENCE * runs, check=True)
        assert str(runs) == done.stdout.split()[-1], done.stdout
        print(f"{method}: {runs} runs in {time.monotonic() - began:.0f} s, and none hangs", flush=True)


if __name__ == "__main__":
    main()
