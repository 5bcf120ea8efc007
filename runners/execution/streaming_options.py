"""Checks of streaming options, for all runners, and the parallelism of a run.

>>> check_streaming_flags(PipelineOptions(["--checkpoint_interval=0"]))
Traceback (most recent call last):
    ...
penstock.sdk.errors.OptionsError: option --checkpoint_interval: expected more than 0 seconds, got 0.0
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...sdk.errors import OptionsError
from ...sdk.options import PageOptions, PipelineOptions, StreamingOptions
from ...sdk.options.byte_size import byte_size

# By flag, the least value of whole numbers.
_COUNTS = {
    "parallelism": 0,
    "workers": 1,
    "checkpoint_retention": 1,
    "max_restarts": 0,
    "metrics_port": 0,
    "health_port": 0,
}
_DURATIONS = ("checkpoint_interval", "checkpoint_timeout", "worker_timeout", "health_timeout")
_PAUSES = ("checkpoint_min_pause", "alignment_timeout", "restart_delay")
# By flag, the greatest value.
_MOST = {"parallelism": 1 << 15, "metrics_port": 65535, "health_port": 65535}

# The address of each port, if none is given.
_LOOPBACK = "127.0.0.1"

# Flags whose value the runner may choose.
_OPEN = ("workers", "metrics_port", "health_port", "checkpoint_min_pause", "alignment_timeout")


def check_streaming_flags(options: PipelineOptions) -> None:
    """Raise `OptionsError` for an invalid value, also of a flag that this pipeline doesn't use."""
    streaming = options.view_as(StreamingOptions)
    for name, least in _COUNTS.items():
        value = getattr(streaming, name)
        if value is None and name in _OPEN:
            continue
        if not isinstance(value, int) or isinstance(value, bool):
            _refuse(name, "expected a whole number", value)
        if value < least:
            _refuse(name, f"expected at least {least}", value)
        if value > _MOST.get(name, value):
            _refuse(name, f"expected at most {_MOST[name]}", value)
    for name in (*_DURATIONS, *_PAUSES):
        value = getattr(streaming, name)
        if value is None and name in _OPEN:
            continue
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
            _refuse(name, "expected a number of seconds", value)
        if value < 0 or (value == 0 and name in _DURATIONS):
            _refuse(name, f"expected {'more than 0 seconds' if name in _DURATIONS else '0 seconds or more'}", value)
    port = options.view_as(PageOptions).ui_port
    if port is not None and (not isinstance(port, int) or isinstance(port, bool) or not 0 <= port <= 65535):
        _refuse("ui_port", "expected a port from 0 to 65535", port)
    for name, host, of in (
        ("metrics", streaming.metrics_host, streaming.metrics_port),
        ("health", streaming.health_host, streaming.health_port),
        ("ui", options.view_as(PageOptions).ui_host, port),
    ):
        if host != _LOOPBACK and of is None:
            _refuse(f"{name}_host", f"expected a --{name}_port to serve at the address", host)
    directory = streaming.checkpoint_dir
    # An empty path would be `/`, for example from an unset shell variable.
    if directory is not None and not str(directory).rstrip("/"):
        _refuse("checkpoint_dir", "expected a directory of its own, or a URL", directory)
    _check_start_method(streaming.start_method)
    state_memory_of(streaming)
    if streaming.on_signal == "savepoint" and directory is None:
        _refuse("on_signal", "expected a --checkpoint_dir for the savepoint, or drain or cancel", "savepoint")


def _check_start_method(start: Any) -> None:
    expected = "expected 'forkserver' or 'spawn'"
    if start == "fork":
        why = "a fork of the program would have the locks that its threads hold, and wait for them for ever"
        _refuse("start_method", f"{why}; {expected}", start)
    if start not in (None, "forkserver", "spawn"):
        _refuse("start_method", expected, start)


def start_method_of(streaming: StreamingOptions) -> str:
    """Return the start method of worker processes, "forkserver" or "spawn"."""
    return streaming.start_method or ("forkserver" if hasattr(os, "fork") else "spawn")


# The memory of a worker's state with --state_backend=rocksdb, in bytes, unless another is given.
_STATE_MEMORY = 512 << 20


def state_memory_of(streaming: StreamingOptions) -> int | None:
    """Return the bytes of state that a worker may have in memory; None for no limit.

    Raises `OptionsError` for another value of a flag, and for one without --state_backend=rocksdb.
    """
    if streaming.state_backend == "memory":
        for name in ("state_memory", "state_dir"):
            if (value := getattr(streaming, name)) is not None:
                _refuse(name, "expected --state_backend=rocksdb, since all state is in memory without it", value)
        return None
    given = streaming.state_memory
    try:
        memory = _STATE_MEMORY if given is None else byte_size(given)
    except ValueError as error:
        raise OptionsError(f"option --state_memory: {error}") from None
    if memory < 1:
        _refuse("state_memory", "expected at least 1 byte", given)
    return memory


def parallelism_of(streaming: StreamingOptions) -> int:
    """Return the parallelism of a run: that of the flag, or the number of available cores for `--parallelism=0`."""
    return int(streaming.parallelism) or available_cores()


# The processor time that a control group gets in a period, and the period, in microseconds; or "max".
_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def available_cores(quota: Path = _QUOTA) -> int:
    """Return the number of cores that this process may use, by its affinity and the quota of its control group.

    Args:
      quota: the file of the quota.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):
        time, period = map(int, quota.read_text().split())
        cores = min(cores, max(1, math.ceil(time / period)))
    return cores


def refuse_memory(directory: Any, who: str) -> None:
    """Raise `OptionsError` for a directory in one process's memory, if others have to write to it."""
    if str(directory).startswith("memory:"):
        raise OptionsError(
            f"option --checkpoint_dir: {directory} is in the memory of the process that writes there, and {who}; "
            "expected a path or URL that all of them reach"
        )


def refuse_unheeded(changed: Iterable[str], runner: str, whose: str) -> None:
    """Raise `OptionsError` for flags of another runner, which have no effect here.

    Args:
      changed: the names of the given flags.
      runner: the selected runner.
      whose: the runner that has them.
    """
    for name in changed:
        raise OptionsError(
            f"option --{name}: --runner={runner} doesn't support it, only --runner={whose} does; leave it out"
        )


def _refuse(name: str, expected: str, value: Any) -> None:
    raise OptionsError(f"option --{name}: {expected}, got {value!r}")
