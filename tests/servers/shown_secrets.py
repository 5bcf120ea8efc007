"""All that a run shows of itself, where a test looks for secrets."""

from __future__ import annotations

import urllib.request
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from penstock.__main__ import main
from penstock.sdk.drawing.drawing import mime_bundle


def all_that_is_shown(p: Any, result: Any, kept: Path) -> str:
    """Return the drawings, the metrics page, the checkpoints and their listing of a run that goes on."""
    shown = [repr(p), str(p.graph()), *map(str, mime_bundle(p.graph()).values())]
    with urllib.request.urlopen(result.metrics_url, timeout=30) as answer:
        shown += [answer.read().decode(), repr(result), str(result.metrics().query())]
    for command in ("list", "show"):
        ran = CliRunner().invoke(main, ["checkpoints", command, str(kept)])
        assert (0, True) == (ran.exit_code, bool(ran.output))
        shown.append(ran.output)
    files = [path for path in kept.rglob("*") if path.is_file()]
    assert files
    for path in files:
        try:
            shown.append(f"{path}{path.read_bytes()!r}")
        except FileNotFoundError:
            # An old checkpoint, which was removed meanwhile.
            continue
    return "".join(shown)
