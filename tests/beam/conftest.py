"""The directories whose tests are run by a test only."""

collect_ignore = ["wordstats"]
