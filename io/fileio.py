"""Beam's `fileio`: files as elements, and elements into files of their own destinations.

match_continuously  MatchContinuously
match_files      MatchFiles, MatchAll, ReadMatches, ReadableFile
write_to_files   WriteToFiles, TextSink, RecordSink (Beam's fileio.FileSink)
file_naming      default_file_naming, destination_prefix_naming, single_file_naming
"""

from .file_naming import FileNaming, default_file_naming, destination_prefix_naming, single_file_naming
from .filesystem import EmptyMatchTreatment, FileMetadata
from .match_continuously import MatchContinuously
from .match_files import MatchAll, MatchFiles, ReadableFile, ReadMatches
from .write_to_files import RecordSink, TextSink, WriteToFiles

# Under Beam's name, which users subclass.
FileSink = RecordSink

__all__ = [
    "EmptyMatchTreatment",
    "FileMetadata",
    "FileNaming",
    "FileSink",
    "MatchAll",
    "MatchContinuously",
    "MatchFiles",
    "ReadMatches",
    "ReadableFile",
    "RecordSink",
    "TextSink",
    "WriteToFiles",
    "default_file_naming",
    "destination_prefix_naming",
    "single_file_naming",
]
