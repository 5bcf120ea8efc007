"""Fixtures of the tests of the command line."""

from support.programs.command_line import penstock as penstock
