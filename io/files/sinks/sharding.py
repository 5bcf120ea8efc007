"""Names of output files: shard name templates, and the naming functions of `WriteToFiles`.

A naming function gets the window, pane, shard and destination. Destinations are data: characters that lead out of the
output directory, or hide the file from readers, are quoted as in a URL; `urllib.parse.unquote` restores them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

from ....triggers.pane import PANE_INFO_UNKNOWN
from ....windowing import GlobalWindow

__all__ = [
    "FileNaming",
    "default_file_naming",
    "destination_prefix_naming",
    "single_file_naming",
]

DEFAULT_SHARD_NAME_TEMPLATE = "-SSSSS-of-NNNNN"
WINDOWED_SHARD_NAME_TEMPLATE = "-W-SSSSS-of-NNNNN"
_LETTERS = re.compile(r"S+|N+|W+|V+")

# (window, pane, shard, shards, compression, destination) -> name
FileNaming: TypeAlias = Callable[[Any, Any, int | None, int | None, str | None, Any], str]


# Characters that no file name may have, or that separate the parts of a chained URL of fsspec.
_NEVER = r"[\x00-\x1f\x7f\ud800-\udfff]|::"
_OF_A_NAME = re.compile(rf"^\.|[/%]|{_NEVER}")
# A dot that hides a file or leads upwards, and a slash that isn't between two names.
_OUTSIDE = re.compile(rf"(?:^|(?<=/))[./]|/$|{_NEVER}")
_OUTSIDE_OR_PERCENT = re.compile(f"%|{_OUTSIDE.pattern}")


def quoted_name(text: str) -> str:
    """Return `text` as one file's name that is neither hidden nor a path.

    >>> quoted_name("cats"), quoted_name("../evil"), quoted_name(".hidden"), quoted_name("100%")
    ('cats', '%2E.%2Fevil', '%2Ehidden', '100%25')
    """
    return _OF_A_NAME.sub(_percent, text)


def path_inside(name: str) -> str:
    """Return `name` if it is a plain path below a directory, and else a quoted form that is one.

    Subdirectories are kept.  Dots that begin a name, slashes that begin or end the path and control characters are
    quoted, and in such a path percent signs, too.

    >>> path_inside("2026/01/50%.txt"), path_inside("../50%"), path_inside("/etc/motd")
    ('2026/01/50%.txt', '%2E./50%25', '%2Fetc/motd')
    """
    return _OUTSIDE_OR_PERCENT.sub(_percent, name) if _OUTSIDE.search(name) else name


def default_file_naming(prefix: str, suffix: str | None = None) -> FileNaming:
    """Return a function for names of a prefix, and the window, pane and shard unless they are the defaults.

    >>> from penstock.windowing import GlobalWindow, IntervalWindow
    >>> name = default_file_naming("out", ".txt")
    >>> name(GlobalWindow(), None, 0, 2, None, "any")
    'out-00000-of-00002.txt'
    >>> name(IntervalWindow(0, 60), None, 1, 2, "gz", "any")
    'out-1970-01-01T00:00:00-1970-01-01T00:01:00-00001-of-00002.txt.gz'
    """

    def name(window: Any, pane: Any, shard: int | None, shards: int | None, compression: Any, destination: Any) -> str:
        return _name(prefix, suffix, window, pane, shard, shards, compression)

    return name


def destination_prefix_naming(suffix: str | None = None) -> FileNaming:
    """Return a function for names as of `default_file_naming` with the destination, quoted by `quoted_name`, as prefix.

    >>> from penstock.windowing import GlobalWindow
    >>> destination_prefix_naming(".txt")(GlobalWindow(), None, 0, 1, None, "cats")
    'cats-00000-of-00001.txt'
    >>> destination_prefix_naming(".txt")(GlobalWindow(), None, 0, 1, None, "cats/and/dogs")
    'cats%2Fand%2Fdogs-00000-of-00001.txt'
    """

    def name(window: Any, pane: Any, shard: int | None, shards: int | None, compression: Any, destination: Any) -> str:
        return _name(quoted_name(str(destination)), suffix, window, pane, shard, shards, compression)

    return name


def single_file_naming(prefix: str, suffix: str | None = None) -> FileNaming:
    """Return a function that always returns the same name, and raises `ValueError` for more than one file.

    >>> single_file_naming("out", ".txt")(None, None, 0, 1, None, None)
    'out.txt'
    """

    def name(window: Any, pane: Any, shard: int | None, shards: int | None, compression: Any, destination: Any) -> str:
        if shards not in (None, 1) or not _is_global(window):
            raise ValueError(f"single_file_naming({prefix!r}) is for one file, and there are more; give shards=1")
        return f"{prefix}{suffix or ''}{'.' + compression if compression else ''}"

    return name


def _name(prefix: str, suffix: str | None, window: Any, pane: Any, shard: Any, shards: Any, compression: Any) -> str:
    parts = [prefix]
    if not _is_global(window):
        parts += [_moment(window.start), _moment(window.end)]
    if pane is not None and pane != PANE_INFO_UNKNOWN and not (pane.is_first and pane.is_last):
        parts.append(str(pane.index))
    if shard is not None:
        parts.append(f"{shard:05d}")
    if shards is not None:
        parts.append(f"of-{shards:05d}")
    return "-".join(parts) + (suffix or "") + (f".{compression}" if compression else "")


def _percent(run: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in run[0].encode("utf-8", "surrogatepass"))


def _is_global(window: Any) -> bool:
    return window is None or window == GlobalWindow()


def _moment(timestamp: Any) -> str:
    return str(timestamp.to_utc_datetime().isoformat())


def shard_name(template: str, shard: int, shards: int, window: Any = None, pane: int = 0) -> str:
    """Return the part of a file's name that tells its shard and window.

    A run of `S` is replaced by the shard's number and a run of `N` by the number of shards, padded with zeros to the
    length of the run.  `W` is replaced by the window in seconds and `V` by the window as UTC times, with the pane's
    number, if it isn't 0, behind it.

    >>> shard_name("-SSSSS-of-NNNNN", 3, 12), shard_name("_SS", 3, 12), shard_name("", 0, 1)
    ('-00003-of-00012', '_03', '')
    >>> from penstock.windowing import IntervalWindow
    >>> shard_name("-W-SS", 0, 1, IntervalWindow(0, 60)), shard_name("-V", 0, 1, IntervalWindow(0, 60), pane=2)
    ('-[0.0, 60.0)-00', '-[1970-01-01T00-00-00, 1970-01-01T00-01-00)-2')
    """

    def replaced(run: re.Match[str]) -> str:
        letter = run[0][0]
        if letter in "SN":
            return f"{shard if letter == 'S' else shards:0{len(run[0])}d}"
        return (str(window) if letter == "W" else _utc(window)) + (f"-{pane}" if pane else "")

    return _LETTERS.sub(replaced, template)


def _utc(window: Any) -> str:
    if _is_global(window):
        return str(window)
    start, end = (moment.to_utc_datetime().strftime("%Y-%m-%dT%H-%M-%S") for moment in (window.start, window.end))
    return f"[{start}, {end})"


def template_as_format(template: str) -> str:
    """Return a shard name template as a format of `%`, in which Beam shows it.

    >>> template_as_format("-SSSSS-of-NN")
    '-%(shard_num)05d-of-%(num_shards)02d'
    """
    names = {"S": "shard_num", "N": "num_shards"}
    return re.sub("S+|N+", lambda run: f"%({names[run.group()[0]]})0{len(run.group())}d", template)


def tells_shards_apart(template: str) -> bool:
    """Return whether every shard gets its own name.

    >>> tells_shards_apart("-SSSSS-of-NNNNN"), tells_shards_apart("-all")
    (True, False)
    """
    return "S" in template
