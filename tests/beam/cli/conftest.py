"""Fixtures of the tests of the command line with --beam."""

from support.programs.command_line import penstock as penstock
