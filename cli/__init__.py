"""The command line: `python -m penstock`.

program.py        running a user's program with the flags of ours
short_errors.py   an error as its user wants to see it
drawn_graphs.py   a program's pipelines, built and not run
simulate.py       a program's pipelines under seeds, with all that can go wrong
runner_list.py    the installed runners: what each can do, and what it lacks
checkpoints.py    the checkpoints in a directory, and whether they are whole
"""
