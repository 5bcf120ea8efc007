"""Beam's interfaces for files and sources of the user, over penstock's own.

file_systems.py       FileSystems: operations on files of any file system
bounded_source.py     BoundedSource, which is read by ranges of positions, and ConcatSource
range_trackers.py     the ranges
file_based_source.py  FileBasedSource: files in a format of the user's own
tf_record.py          ReadFromTFRecord and WriteToTFRecord
"""
