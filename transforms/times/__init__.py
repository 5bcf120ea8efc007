"""Times, windows and order.

with_timestamps.py    WithTimestamps: event times computed from elements
reify.py              Reify: timestamps and windows as parts of the value
reshuffle.py          Reshuffle: redistribution over the workers
watch.py              Watch: new outputs of a function that is polled
poll_result.py        PollResult: the result of a poll; after_total_of: the end of polling
wait_on.py            WaitOn: held back until others are done
periodic_sequence.py  PeriodicImpulse, PeriodicSequence: elements at regular intervals
refreshed_side_input.py RefreshedSideInput: a side input that is loaded at intervals
"""
