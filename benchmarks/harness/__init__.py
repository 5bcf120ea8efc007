"""What benchmarks share.

inputs.py         files and events, generated once
keeping_sink.py   a sink whose elements can be compared
streams.py        DoFns with state, sinks that count, and options of streams
processes.py      other processes, their CPU time and memory
timing.py         interleaved runs, and ratios of their medians
spark_session.py  a session of Spark on this machine
results.py        results as a file, of which the tables in docs/ are made
plots.py          plots in docs/
"""
