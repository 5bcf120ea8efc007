"""Sections of snippets, and what each side prints."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
import tomllib
from typing import Any

HERE = pathlib.Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples" / "beam"
PLAYER = HERE / "play.py"
RECORDED = HERE / "recorded"

# By section and snippet: the lines that it prints.
Printed = dict[str, list[str]]

PENSTOCK = [sys.executable, "-m", "penstock", "run", "--beam"]


def sections() -> list[str]:
    """The modules of snippets: what refusals.py has serves them all."""
    return sorted(path.stem for path in (HERE / "snippets").glob("*.py") if path.stem != "refusals")


def printed_by(side: list[str], section: str) -> tuple[Printed, str]:
    """Run a section on a side, given as the command that runs a program.

    Returns the lines by snippet, and the standard error of the process.
    """
    with tempfile.TemporaryDirectory() as directory:
        output = pathlib.Path(directory, "printed.json")
        command = [*side, str(PLAYER), section, str(output)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if ran.returncode:
            raise RuntimeError(f"Section {section}: {command} exited with status {ran.returncode}:\n{ran.stderr}")
        return json.loads(output.read_text()), ran.stderr


def examples_printed_by(side: list[str]) -> Printed:
    """Run each example for Beam that tests/beam/examples has the expected lines of, without arguments, on a side.

    Returns the lines of each, sorted.
    """
    printed = {}
    for expected in sorted((HERE.parent / "beam" / "examples").glob("*.txt")):
        command = [*side, str(EXAMPLES / f"{expected.stem}.py")]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        failed = [f"exited with status {ran.returncode}: {ran.stderr[-500:]}"] if ran.returncode else []
        printed[expected.stem] = sorted(ran.stdout.splitlines()) + failed
    return printed


def recorded(section: str) -> Printed:
    """Return what Beam printed when `make beam` ran last."""
    file = RECORDED / f"{section}.json"
    return json.loads(file.read_text()) if file.exists() else {}


def record(section: str, printed: Printed) -> None:
    """Keep what Beam prints."""
    RECORDED.mkdir(exist_ok=True)
    (RECORDED / f"{section}.json").write_text(json.dumps(printed, indent=1, ensure_ascii=False) + "\n")


def on_purpose() -> dict[str, dict[str, Any]]:
    """The differences on purpose, by name: the snippets that show each, what either side does, and why."""
    return tomllib.loads((HERE / "on_purpose.toml").read_text())


def listed() -> set[str]:
    """The snippets that print something else on purpose, as `section.snippet`."""
    return {snippet for difference in on_purpose().values() for snippet in difference["snippets"]}


def differing(section: str, by_beam: Printed, by_penstock: Printed) -> dict[str, tuple[list[str], list[str]]]:
    """The lines that only Beam and only penstock prints, by `section.snippet`, where there are any."""
    found = {}
    for name in by_beam | by_penstock:
        ours, theirs = by_penstock.get(name, ["(no such snippet)"]), by_beam.get(name, ["(not recorded: make beam)"])
        if ours != theirs:
            found[f"{section}.{name}"] = (_without(theirs, ours), _without(ours, theirs))
    return found


def table(differences: dict[str, tuple[list[str], list[str]]]) -> str:
    """The differences, to read."""
    lines = []
    for name, (theirs, ours) in differences.items():
        lines.append(name)
        lines += [f"    Beam      {line}" for line in theirs] + [f"    penstock  {line}" for line in ours]
    return "\n".join(lines)


def _without(lines: list[str], others: list[str]) -> list[str]:
    left = list(others)
    return [line for line in lines if line not in left or left.remove(line)]  # type: ignore[func-returns-value]
