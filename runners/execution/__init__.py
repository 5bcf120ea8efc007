"""What every runner shares, in the order in which a bundle meets it.

fusion.py             the graph as stages, groupings and sinks
stage.py              a fused stage at work
stage_source.py       the function that is generated for it
plain_results.py      which results need no second look
side_input_views.py   what side inputs hold, by window
key_check.py          what may be a key, and what may be grouped
cells.py              what a grouping holds for each window and key
fold.py               how elements become accumulators, and those results
window_operator.py    MergeWindows, GroupAlsoByWindow, ExpandToElements
shuffle_blocks.py     what travels through a shuffle
column_codec.py       columns as bytes
grouped_values.py     groups larger than memory
dataflow.py           steps wired together
output.py             a sink at work
user_code.py          errors of user code
counters.py           elements, by step
garbage.py            how often Python looks for cyclic garbage
"""
