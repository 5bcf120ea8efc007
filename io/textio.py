"""Text files: the names of Beam's `io.textio`.

Type checkers read this module.  At run time `sdk/names/namespaces.py` has the names, and Beam's other ones.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .files.text import ReadAllFromText as ReadAllFromText
    from .files.text import ReadFromText as ReadFromText
    from .files.text import ReadFromTextWithFilename as ReadFromTextWithFilename
    from .files.text import WriteToText as WriteToText

    def __getattr__(name: str) -> Any: ...
