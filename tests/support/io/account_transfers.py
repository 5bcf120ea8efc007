"""A stream of transfers between accounts, whose credits and debits cancel in the result of each prefix of the input.

Two sinks of a kind, West and East, stand side by side.  A step before them is slow, so that there is always something
to process.  Into stores that take changes go the balances of accounts, or those of transfers whose sides were joined;
into others go the credits and debits themselves, shuffled.
"""

from __future__ import annotations

from collections.abc import Iterable

# The arguments of the program: what it computes (`balances`, `joined` or `entries`), the kind of its sinks, where the
# store is, and the names of the two tables, topics or prefixes; then the pipeline's flags.
PROGRAM = """
import json
import sys
import time
import zlib
import penstock as beam
from penstock.options.pipeline_options import PipelineOptions
from penstock.trigger import AccumulationMode, AfterCount, Repeatedly

ACCOUNTS = 100

# Transfers in a second, and what a credit or a debit takes: somewhat more time than there is.
RATE = 2_000
PAUSE = 0.6 / RATE

def slow(element):
    time.sleep(PAUSE)
    return element

def place(account):
    # The partition of a topic with two of them.
    return zlib.crc32(str(account).encode()) % 2

def partner(account):
    # The next account whose records are in the same partition.
    others = ((account + step) % ACCOUNTS for step in range(1, ACCOUNTS))
    return next(other for other in others if place(other) == place(account))

PARTNERS = [partner(account) for account in range(ACCOUNTS)]

def each(pcoll):
    mode = AccumulationMode.RETRACTING
    windows = beam.window.GlobalWindows()
    return pcoll | beam.WindowInto(windows, trigger=Repeatedly(AfterCount(1)), accumulation_mode=mode)

def credit(n):
    return n % ACCOUNTS

def debit(n):
    return PARTNERS[credit(n)]

def balances(numbers):
    pairs = numbers | beam.FlatMap(lambda n: [(credit(n), 1), (debit(n), -1)])
    return each(pairs) | beam.CombinePerKey(sum)

def joined(numbers):
    # Both sides of each number are joined, and then summed.
    left = numbers | "Left" >> beam.Map(lambda n: (n, credit(n)))
    right = numbers | "Right" >> beam.Map(lambda n: (n, debit(n)))
    both = each((left, right) | beam.Flatten()) | beam.GroupByKey()
    pairs = both | beam.FlatMap(lambda pair: [tuple(pair[1])] if len(list(pair[1])) == 2 else [])
    return pairs | beam.FlatMap(lambda pair: [(pair[0], 1), (pair[1], -1)]) | "Sum" >> beam.CombinePerKey(sum)

def entries(numbers):
    pairs = numbers | beam.FlatMap(lambda n: [(credit(n), (n, 1)), (debit(n), (n, -1))])
    return pairs | beam.Reshuffle()

def as_json(pair):
    return json.dumps(pair[1]).encode()

def write(pairs, kind, where, name):
    rows = pairs | f"Rows of {name}" >> beam.Map(lambda pair: {"account": pair[0], "total": pair[1]})
    key = lambda pair: str(pair[0]).encode()
    broker = {"bootstrap.servers": where}
    if kind == "sql":
        rows | name >> beam.io.WriteToSQL(where, name, key=["account"], columns={"account": int, "total": int})
    elif kind == "kafka":
        records = pairs | f"Records of {name}" >> beam.Map(lambda pair: (key(pair), as_json(pair)))
        records | name >> beam.io.WriteToKafka(broker, name)
    else:
        pairs | name >> beam.io.WriteToNats(where, name + ".entries", data=as_json)

if __name__ == "__main__":
    computed, kind, where, west, east, *flags = sys.argv[1:]
    options = PipelineOptions(flags, checkpoint_interval=0.1, restart_delay=0.01, max_restarts=50)
    with beam.Pipeline(options=options) as p:
        numbers = p | beam.io.GenerateSequence(0, None, RATE, 1)
        found = {"balances": balances, "joined": joined, "entries": entries}[computed](numbers) | beam.Map(slow)
        write(found, kind, where, west)
        write(found, kind, where, east)
"""


def are_of_a_prefix(entries: Iterable[tuple[int, int]]) -> bool:
    """Return True if these are the credits and debits of the first transfers, once each: pairs of a number and a sign.

    >>> are_of_a_prefix([(1, -1), (0, 1), (0, -1), (1, 1)])
    True
    >>> are_of_a_prefix([(1, -1), (1, 1)]), are_of_a_prefix([(0, -1), (0, 1), (1, 1)])
    (False, False)
    """
    found = sorted(map(tuple, entries))
    return found == [(number, sign) for number in range(len(found) // 2) for sign in (-1, 1)]
