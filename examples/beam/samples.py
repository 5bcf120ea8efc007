"""What the examples share: the folder of their data, and a sink for lines of text."""

import os

import apache_beam as beam
from apache_beam.transforms import trigger
from apache_beam.transforms.window import GlobalWindows

DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data")


class WriteOrPrint(beam.PTransform):
    """Write lines to text files whose names begin with `output`; without `output`, print them in sorted order.

    Printing waits for the end of the input, and takes the lines of all windows and panes.
    """

    def __init__(self, output=None):
        super().__init__()
        self.output = output

    def expand(self, lines):
        if self.output:
            return lines | beam.io.WriteToText(self.output)
        return (
            lines
            # Beam refuses the default trigger here for an unbounded input.
            | beam.WindowInto(
                GlobalWindows(),
                trigger=trigger.AfterWatermark(),
                accumulation_mode=trigger.AccumulationMode.DISCARDING,
            )
            | beam.CombineGlobally(beam.combiners.ToListCombineFn()).without_defaults()
            | beam.FlatMap(sorted)
            | beam.Map(print)
        )
