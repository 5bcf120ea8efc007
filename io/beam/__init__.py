"""Beam's interfaces for files and sources of the user, over penstock's own.

file_systems.py  FileSystems: operations on files of any file system
"""
