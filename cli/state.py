"""`penstock state`: the state of a checkpoint, listed and exported without the pipeline."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..sdk.process.working_directory import working_directory
from .checkpoints import DIRECTORY, committed_at, fail, nothing_in
from .short_errors import ShortErrorsCommand, writing

if TYPE_CHECKING:
    from ..runners.execution.checkpoints.manifest import Checkpoint
    from ..runners.execution.checkpoints.reader import SnapshotReader
    from ..runners.execution.inspection.entries import StateReader

FORMATS = ("text", "json", "parquet")
UNTRUSTED = click.option(
    "--allow_untrusted_checkpoints", is_flag=True, help="Read the checkpoint even if other users could have written it."
)
UNPICKLE = click.option(
    "--unpickle",
    is_flag=True,
    help="Import the classes of the values and create their instances, which runs the code in them.",
)


@click.command(cls=ShortErrorsCommand)
@DIRECTORY
@click.option("--epoch", type=int, help="The checkpoint. Default: the newest.")
@click.option("--step", help="The full label of the step. Without it, the steps are listed.")
@click.option("--key", help="The key, as JSON or as text: 5, tea, '[\"a\", 1]'.")
@click.option("--format", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="The file to write.")
@UNPICKLE
@UNTRUSTED
def state(
    directory: str,
    epoch: int | None,
    step: str | None,
    key: str | None,
    format: str,
    output: Path | None,
    unpickle: bool,
    allow_untrusted_checkpoints: bool,
) -> None:
    """List or export the state of a checkpoint.

    Without --step the steps are listed, and with it the state of the step, its windows and its timers.

    The checkpoint is in a directory, or at a URL such as s3://bucket/job.  The pipeline's code is not needed: a value
    of a class is shown with the class's name and the data that it was pickled with.
    """
    from ..runners.execution.inspection.export import json_lines, text_lines, write_parquet
    from ..runners.execution.inspection.keys import entries_of

    if step is None and (key is not None or output is not None or format != "text"):
        raise click.UsageError("--key, --format and --output need --step; `penstock state DIR` lists the steps")
    if format == "parquet" and output is None:
        raise click.UsageError("--format=parquet needs --output FILE")
    store = reader_of(directory, allow_untrusted_checkpoints)
    if not store.found():
        fail(nothing_in(directory))
    checkpoint = store.select(epoch)
    if step is None:
        click.echo(listed_steps(store, checkpoint))
        return
    with state_reader(store, checkpoint, unpickle, hidden=output is None and sys.stdout.isatty()) as reader:
        entries = entries_of(reader, step, key)
        if format == "parquet":
            assert output is not None
            with writing(output):
                number = write_parquet(entries, output)
        else:
            number = _write_lines((json_lines if format == "json" else text_lines)(entries), output)
    if output is not None:
        click.echo(f"{output}: {number} entries of {step!r} in checkpoint {checkpoint.epoch}", err=True)


def reader_of(directory: str, allow_untrusted: bool) -> SnapshotReader:
    """Return the checkpoints at a path or URL."""
    from ..runners.execution.checkpoints.reader import SnapshotReader
    from ..runners.execution.checkpoints.storage import disk_of

    directory = directory.rstrip("/") or "/"
    return SnapshotReader(disk_of(directory), directory, allow_untrusted=allow_untrusted)


@contextmanager
def state_reader(
    store: SnapshotReader, checkpoint: Checkpoint, unpickle: bool = False, hidden: bool = False, passes: int = 1
) -> Iterator[StateReader]:
    """Return a reader of a checkpoint's state, whose progress is shown if standard error is a terminal.

    Args:
      hidden: shows no progress, because the output is on the same terminal.
    """
    import pickle

    import attrs

    from ..runners.execution.inspection.entries import StateReader

    reader = StateReader(store, checkpoint)
    if unpickle:
        sys.path.insert(0, working_directory("--unpickle"))
        reader = attrs.evolve(reader, loads=pickle.loads)
    if hidden or not sys.stderr.isatty():
        yield reader
        return
    bar: Any = click.progressbar(length=reader.size() * passes, label=f"checkpoint {checkpoint.epoch}", file=sys.stderr)
    with bar:
        yield attrs.evolve(reader, advance=bar.update)


def listed_steps(store: SnapshotReader, checkpoint: Checkpoint) -> str:
    """Return a table of a checkpoint's steps, and the positions of its sources."""
    from ..runners.execution.inspection.entries import StateReader

    metadata = checkpoint.metadata
    parallelism = next((part["of"] for part in metadata.get("parts", {}).values()), 1)
    lines = [
        f"{checkpoint.kind.value} {checkpoint.epoch}, committed {committed_at(checkpoint)}, parallelism {parallelism}"
    ]
    rows = [("step", "keeps")]
    for label, shapes in StateReader(store, checkpoint).steps().items():
        kept = [f"{name}: {kind}" for name, kind in shapes.items()] or ["(no keyed state)"]
        rows += [(label if not i else "", each) for i, each in enumerate(kept)]
    if len(rows) == 1:
        lines.append("no step has state")
    else:
        width = max(len(label) for label, _ in rows)
        lines += [f"{label:{width}}  {kept}" for label, kept in rows]
    for label, positions in metadata.get("offsets", {}).items():
        lines += [f"source {label}: {partition} at {offset}" for partition, offset in positions]
    return "\n".join(lines)


def _write_lines(lines: Iterable[str], output: Path | None) -> int:
    """Write lines to a file, which has its name once it is complete, or to standard output; return their number."""
    number = 0

    def counted() -> Iterator[str]:
        nonlocal number
        for line in lines:
            number += 1
            yield line + "\n"

    if output is None:
        sys.stdout.writelines(counted())
        return number
    unfinished = output.with_name(f"{output.name}.unfinished")
    with writing(output):
        try:
            with unfinished.open("w", encoding="utf-8") as file:
                file.writelines(counted())
            unfinished.replace(output)
        finally:
            unfinished.unlink(missing_ok=True)
    return number
