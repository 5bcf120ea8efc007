"""Warning before memory runs out: the kernel kills a process then, and no error names the step that has taken it.

>>> named({"Sum": 1_200_000, "Pairs": 3})
'Sum 1,200,000, Pairs 3'
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_logger = logging.getLogger(__name__)

# The memory of the system, and of this process's control group, if that is limited.
_SYSTEM = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")

# The shares of memory in use from which on a warning is logged, and below which the next one may be.
_WARNED, _CALM = 0.9, 0.8

# How many steps are named.
_NAMED = 3


class MemoryWatch:
    """Logs a warning when nearly all memory is in use; one until there is more again.

    Args:
      is_in_memory: whether all state is, with `--state_backend=memory`.
      system, group: where the memory in use is read from.
    """

    def __init__(self, is_in_memory: bool, system: Path | None = None, group: Path | None = None) -> None:
        self._is_in_memory = is_in_memory
        self._system = _SYSTEM if system is None else system
        self._group = _GROUP if group is None else group
        self._has_warned = False

    def look(self, kept: Mapping[str, int]) -> None:
        """Look at the memory in use.

        Args:
          kept: by the label of a step with windows or keyed state, how many windows or cells there are.
        """
        if not any(kept.values()):
            return
        used = max(_used_of_system(self._system), _used_of_group(self._group))
        if self._has_warned:
            self._has_warned = used >= _CALM
        elif used >= _WARNED:
            self._has_warned = True
            advice = "--state_backend=rocksdb keeps" if self._is_in_memory else "a smaller --state_memory keeps"
            _logger.warning(
                "%d%% of the memory is in use. When it runs out, the system kills this process, and a restart resumes "
                "from the last checkpoint. Steps with the most windows and state cells here: %s. %s what isn't in use "
                "on the disk",
                round(100 * used),
                named(kept),
                advice,
            )


def named(kept: Mapping[str, int]) -> str:
    """Return the steps with the most entries, as text."""
    largest = sorted(kept.items(), key=lambda each: -each[1])[:_NAMED]
    return ", ".join(f"{label} {number:,}" for label, number in largest if number)


def _used_of_system(file: Path) -> float:
    """Return the share of the system's memory that is in use; 0.0 where it isn't told."""
    with suppress(OSError, ValueError, KeyError, ZeroDivisionError):
        lines = (line.split() for line in file.read_text().splitlines())
        sizes = {name: int(size) for name, size, *_ in lines if size.isdigit()}
        return 1 - sizes["MemAvailable:"] / sizes["MemTotal:"]
    return 0.0


def _used_of_group(directory: Path) -> float:
    """Return the share of a control group's limit that is in use, without cached files; 0.0 without a limit."""
    with suppress(OSError, ValueError, ZeroDivisionError):
        limit = int((directory / "memory.max").read_text())
        used = int((directory / "memory.current").read_text())
        lines = (line.split() for line in (directory / "memory.stat").read_text().splitlines())
        return (used - sum(int(size) for name, size in lines if name == "inactive_file")) / limit
    return 0.0
