"""Avro files: the names of Beam's `io.avroio`.

Type checkers read this module.  At run time `sdk/names/namespaces.py` has the names, and Beam's other ones.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .files.avro import ReadAllFromAvro as ReadAllFromAvro
    from .files.avro import ReadAllFromAvroContinuously as ReadAllFromAvroContinuously
    from .files.avro import ReadFromAvro as ReadFromAvro
    from .files.avro import WriteToAvro as WriteToAvro

    def __getattr__(name: str) -> Any: ...
