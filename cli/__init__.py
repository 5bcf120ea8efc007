"""The command line: `python -m penstock`.

program.py        a user's program, run with pipeline flags
short_errors.py   short error messages
drawn_graphs.py   the graphs of a program's pipelines
simulate.py       simulation of a program's pipelines
runner_list.py    the installed runners, with capabilities and missing packages
checkpoints.py    inspection and control of checkpoints
checkpoint_changes.py
                  what differs between two checkpoints, and their migration
state.py          the state in a checkpoint
draw.py           pictures of pipelines
"""
