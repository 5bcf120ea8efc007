"""`penstock checkpoints`: inspection of a directory of checkpoints, and requests to its job."""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections import Counter
from typing import TYPE_CHECKING, NoReturn

import click

from .short_errors import ShortErrorsGroup

if TYPE_CHECKING:
    from ..runners.execution.checkpoints.manifest import Checkpoint
    from ..runners.execution.checkpoints.store import SnapshotStore

DIRECTORY = click.argument("directory")
TIMEOUT = click.option("--timeout", type=float, default=600, show_default=True, help="Seconds to wait for an answer.")
EPOCH = click.argument("epoch", type=int, required=False)


@click.group(cls=ShortErrorsGroup)
def checkpoints() -> None:
    """Inspect checkpoints, and control their streaming job.

    Checkpoints are in a directory, or at a URL such as s3://bucket/job.  No content is unpickled.
    """


@checkpoints.command(name="list")
@DIRECTORY
def list_command(directory: str) -> None:
    """List checkpoints and savepoints, newest first."""
    rows = [("epoch", "kind", "committed", "parts", "files", "size", "")]
    for found in store_of(directory).found():
        if found.checkpoint is None:
            rows.append((str(found.name.epoch), found.name.kind.value, "", "", "", "", f"damaged: {found.damage}"))
            continue
        each = found.checkpoint
        files = each.files()
        size = size_of(sum(file.length for file in files))
        note = "replaced by a later owner" if found.replaced else ""
        numbers = (str(len(each.parts)), str(len(files)), size)
        rows.append((str(each.epoch), each.kind.value, committed_at(each), *numbers, note))
    if len(rows) == 1:
        fail(nothing_in(directory))
    widths = [max(map(len, column)) for column in zip(*(row[:-1] for row in rows), strict=True)]
    for *row, note in rows:
        cells = [f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)]
        click.echo("  ".join([*cells, note]).rstrip())


@checkpoints.command()
@DIRECTORY
@EPOCH
def show(directory: str, epoch: int | None) -> None:
    """Show the parts, files and metadata of a checkpoint: of EPOCH, or the newest."""
    for found in store_of(directory).found():
        if found.name.epoch == epoch or (epoch is None and not found.replaced):
            if found.checkpoint is None:
                fail(f"epoch {found.name.epoch} is damaged: {found.damage}")
            click.echo(described(found.checkpoint))
            return
    fail(nothing_in(directory, epoch))


@checkpoints.command()
@DIRECTORY
@EPOCH
def verify(directory: str, epoch: int | None) -> None:
    """Verify the checksums of all checkpoints, or of EPOCH.

    Exits with status 1 if a file is damaged.
    """
    store = store_of(directory)
    chosen = [found for found in store.found() if epoch in (None, found.name.epoch)]
    if not chosen:
        fail(nothing_in(directory, epoch))
    damaged = 0
    for found in chosen:
        damage = store.damage_of(found)
        damaged += damage is not None
        click.echo(f"epoch {found.name.epoch}: " + ("whole" if damage is None else f"damaged: {damage}"))
    if damaged:
        sys.exit(1)


@checkpoints.command()
@DIRECTORY
@TIMEOUT
@click.option("--stop", is_flag=True, help="Stop the job after the savepoint, from which the next start resumes.")
def savepoint(directory: str, timeout: float, stop: bool) -> None:
    """Take a savepoint of the running job."""
    _ask(directory, "stop" if stop else "savepoint", timeout)


@checkpoints.command()
@DIRECTORY
@TIMEOUT
def drain(directory: str, timeout: float) -> None:
    """Drain the running job: stop its sources, process all records, and end.

    All windows fire, and the results are complete.  The job can't be resumed.
    """
    _ask(directory, "drain", timeout)


@checkpoints.command()
@DIRECTORY
@TIMEOUT
def cancel(directory: str, timeout: float) -> None:
    """Cancel the running job immediately.

    The next start processes the input since the last checkpoint again.
    """
    _ask(directory, "cancel", timeout)


@checkpoints.command()
@DIRECTORY
@click.option(
    "--allow_repeated_results",
    is_flag=True,
    help="Roll back even if a sink may have published results of the checkpoint, which will be repeated.",
)
def rollback(directory: str, allow_repeated_results: bool) -> None:
    """Remove the newest checkpoint, which a sink can't publish.  The next start resumes from the one before.

    No data is lost: a corrected pipeline reads the input since then again.
    """
    from ..runners.execution.sinks.rollback import roll_back

    store = store_of(directory)
    if not store.found():
        fail(nothing_in(directory))
    done = roll_back(store, allow_repeated_results)
    then = "from the beginning" if done.previous is None else f"from checkpoint {done.previous}"
    click.echo(f"{directory}: checkpoint {done.epoch} was removed; the next start resumes {then}")


def _ask(directory: str, wish: str, timeout: float) -> None:
    """Send a request to a job, and print its answer."""
    from ..runners.execution.checkpoints.control_requests import RequestKind, ask
    from ..runners.execution.checkpoints.storage import disk_of

    answer = ask(disk_of(directory), directory, RequestKind(wish), timeout)
    if not answer.is_done:
        fail(f"{directory}: {answer.text}")
    click.echo(answer.text)


def nothing_in(directory: str, epoch: int | None = None) -> str:
    """Return the message for a directory without checkpoints, or without that epoch."""
    from ..runners.execution.checkpoints.catalog import OWNER
    from ..runners.execution.checkpoints.storage import disk_of

    directory = directory.rstrip("/")
    if disk_of(directory).exists(f"{directory}/{OWNER}"):
        return (
            f"{directory}: the logs of a stream with --delivery=strong or weak, which has no checkpoints; its "
            f"savepoints are in {directory}/savepoints. There is nothing to roll back; if a sink can't publish, start "
            "the pipeline with --on_commit_error=dead_letter"
        )
    return f"{directory}: no checkpoint" + ("s" if epoch is None else f" of epoch {epoch}")


def store_of(directory: str) -> SnapshotStore:
    """Return the store at a path or URL, for reading."""
    from ..runners.execution.checkpoints.storage import disk_of
    from ..runners.execution.checkpoints.store import SnapshotStore

    directory = directory.rstrip("/") or "/"
    return SnapshotStore(disk_of(directory), directory)


def described(checkpoint: Checkpoint) -> str:
    """Return a description of a checkpoint, its parts and their files."""
    lines = [
        f"epoch      {checkpoint.epoch}",
        f"kind       {checkpoint.kind.value}",
        f"owner      {checkpoint.generation}",
        f"committed  {committed_at(checkpoint)}",
        f"metadata   {json.dumps(checkpoint.metadata, ensure_ascii=False)}",
    ]
    entries: Counter[str] = Counter()
    for own in checkpoint.metadata.get("parts", {}).values():
        entries.update(own.get("entries", {}))
    lines += [
        f"state      {step}: {number:,} {'entry' if number == 1 else 'entries'}" for step, number in entries.items()
    ]
    for part in checkpoint.parts:
        lines.append(f"part       {part.name}")
        for file in part.files:
            records = "1 record" if file.records == 1 else f"{file.records} records"
            lines.append(f"  {file.kind.value:5}  {file.file}  {records}, {size_of(file.length)}, crc {file.crc32:08x}")
        if part.tables:
            length = sum(table.file.length for table in part.tables)
            lines.append(f"  tables {len(part.tables)} files of RocksDB, {size_of(length)}")
    return "\n".join(lines)


def committed_at(checkpoint: Checkpoint) -> str:
    """Return the time of a checkpoint's commit, in UTC."""
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=checkpoint.committed_at_micros)
    return f"{moment:%Y-%m-%d %H:%M:%S}Z"


def size_of(length: int) -> str:
    """Return a number of bytes with a unit.

    >>> size_of(999), size_of(1_500), size_of(2_340_000_000)
    ('999 B', '1.5 kB', '2.3 GB')
    """
    size, unit = float(length), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{length} B" if unit == "B" else f"{size:.1f} {unit}"


def fail(message: str) -> NoReturn:
    """Print a message to standard error, and exit with status 1."""
    click.echo(message, err=True)
    sys.exit(1)
