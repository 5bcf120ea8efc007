"""`penstock checkpoints diff` and `penstock checkpoints migrate`."""

from __future__ import annotations

import re
import sys

import click

from .checkpoints import DIRECTORY, committed_at, fail, nothing_in
from .state import UNTRUSTED, reader_of, state_reader

_AT = re.compile(r"(.+)@(\d+)")


@click.command()
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@click.option(
    "--keys", type=click.IntRange(min=0), default=5, show_default=True, help="Keys to name of each difference."
)
@click.option("--format", type=click.Choice(["text", "json"]), default="text", show_default=True)
@UNTRUSTED
def diff(before: str, after: str, keys: int, format: str, allow_untrusted_checkpoints: bool) -> None:
    """Show what differs between two checkpoints: steps, sizes, keys, windows, timers and source positions.

    A and B are directories, each followed by @EPOCH unless the newest checkpoint is meant: `diff job@14 job@15`.
    """
    from ..runners.execution.inspection.comparison import as_data, compare, described
    from ..runners.execution.inspection.json_values import as_line

    sides = []
    for side in (before, after):
        match = _AT.fullmatch(side)
        directory, epoch = (match[1], int(match[2])) if match else (side, None)
        store = reader_of(directory, allow_untrusted_checkpoints)
        if not store.found():
            fail(nothing_in(directory))
        sides.append((store, store.select(epoch)))
    # Each checkpoint is read twice.
    with state_reader(*sides[0], passes=2) as old, state_reader(*sides[1], passes=2) as new:
        found = compare(old, new, keys)
    if format == "json":
        click.echo(as_line(as_data(found)))
        return
    for name, (_, checkpoint) in zip("AB", sides, strict=True):
        click.echo(f"{name}: {checkpoint.kind.value} {checkpoint.epoch}, committed {committed_at(checkpoint)}")
    click.echo("\n".join(described(found)))


@click.command()
@DIRECTORY
@click.option("--with", "function", required=True, metavar="MODULE:FUNCTION", help="Converts each entry.")
@click.option("--step", "steps", multiple=True, help="Convert the state of this step only; may be given several times.")
@click.option("--epoch", type=int, help="The checkpoint to convert. Default: the newest.")
@click.option("--take_over", is_flag=True, help="Migrate even if the job may run on another machine, which ends it.")
@UNTRUSTED
def migrate(
    directory: str,
    function: str,
    steps: tuple[str, ...],
    epoch: int | None,
    take_over: bool,
    allow_untrusted_checkpoints: bool,
) -> None:
    """Convert the state of a stopped job, and publish it as a savepoint, from which the next start resumes.

    MODULE:FUNCTION is called with each entry of state, and returns the new value (docs/state.md).  The original
    checkpoint stays.
    """
    from ..runners.execution.checkpoints.control_requests import running_job
    from ..runners.execution.inspection.migration import migrate as converted
    from ..runners.execution.inspection.migration import migration_of

    sys.path.insert(0, "")
    convert = migration_of(function)
    store = reader_of(directory, allow_untrusted_checkpoints)
    if not store.found():
        fail(nothing_in(directory))
    if not take_over and (where := running_job(store.disk, store.directory)):
        fail(
            f"{directory}: the job runs in {where}. Stop it first, with `penstock checkpoints savepoint {directory} "
            "--stop`; or, if it has died on another machine, give --take_over"
        )
    with state_reader(store, store.select(epoch)) as reader:
        done = converted(reader, convert, function, steps)
    click.echo(
        f"{directory}: savepoint {done.epoch} has the state of {reader.checkpoint.kind.value} "
        f"{reader.checkpoint.epoch}: {done.changed} entries changed, {done.removed} removed, {done.kept} as they were. "
        "The next start resumes from it"
    )
