"""Persistence of the package's types, in checkpoints and on channels.

A checkpoint outlives the layout of this package: a class may get another module, another name or other fields between
the run that writes a checkpoint and the run that restores it.  So a type is stored under a tag and a version.  The tags
are part of the checkpoint format (docs/checkpoint_format.md).  They never change.

stored_types.py  the tags and versions of types: their registration beside the classes, and their names in files
"""

from .stored_types import NAMESPACE as NAMESPACE
from .stored_types import UnknownTypeError as UnknownTypeError
from .stored_types import before_unknown as before_unknown
from .stored_types import full_name as full_name
from .stored_types import lazily_stored as lazily_stored
from .stored_types import name_of as name_of
from .stored_types import restorer as restorer
from .stored_types import restores as restores
from .stored_types import stored_as as stored_as
from .stored_types import tags as tags
