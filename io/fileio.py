"""Files: the names of Beam's `io.fileio`.

Type checkers read this module.  At run time `sdk/names/namespaces.py` has the names, and Beam's other ones.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .files.matching import MatchAll as MatchAll
    from .files.matching import MatchContinuously as MatchContinuously
    from .files.matching import MatchFiles as MatchFiles
    from .files.matching import ReadableFile as ReadableFile
    from .files.matching import ReadMatches as ReadMatches
    from .files.sinks.dynamic_write import WriteToFiles as WriteToFiles

    def __getattr__(name: str) -> Any: ...
