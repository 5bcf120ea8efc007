"""Sources of elements: the interfaces for their authors and for runners.

bounded.py            BoundedSource: splits, and the bundles of a split
table_values.py       the rows of an Arrow table or a DataFrame
unbounded.py          UnboundedSource and UnboundedReader: partitions, offsets, watermarks
event_time_reader.py  EventTimeReader: a reader that takes event times and watermarks from EventTimes
lag_sketch.py         lags of elements behind the watermark, as percentiles
scheduled_source.py   elements that are due by the clock
scripted_source.py    a source that brings its own clock
splittable_source.py  a splittable DoFn as a source
"""
