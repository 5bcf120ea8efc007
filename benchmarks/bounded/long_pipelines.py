"""How long a pipeline of thousands of transforms takes to be built, fused and run over one element.

    python benchmarks/long_pipelines.py [SHAPE [TRANSFORMS]]

Shapes: see the functions below; all of them, one after the other, if none is named.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import penstock as beam
from penstock.sdk.side_inputs import AsList, AsSingleton


def chain(p: Any, n: int) -> None:
    """Maps, one after the other."""
    numbers = p | beam.Create([1])
    for i in range(n):
        numbers = numbers | f"step {i}" >> beam.Map(lambda x: x + 1)


def fan_out(p: Any, n: int) -> None:
    """Maps of one PCollection, flattened."""
    one = p | beam.Create([1])
    _ = [one | f"step {i}" >> beam.Map(lambda x: x + 1) for i in range(n)] | beam.Flatten()


def flattens(p: Any, n: int) -> None:
    """Flattens, one after the other."""
    numbers = p | beam.Create([1])
    for i in range(n):
        numbers = (numbers,) | f"step {i}" >> beam.Flatten()


def nested(p: Any, n: int) -> None:
    """Composites in composites in composites, ten in each."""

    def tens(pcoll: Any, levels: int) -> Any:
        for i in range(10):
            step = beam.ptransform_fn(tens)(levels - 1) if levels else beam.Map(lambda x: x + 1)
            pcoll = pcoll | f"{levels}: {i}" >> step
        return pcoll

    _ = p | beam.Create([1]) | beam.ptransform_fn(tens)(len(str(n)) - 2)


def groupings(p: Any, n: int) -> None:
    """A Map to pairs and a grouping, one after the other."""
    numbers = p | beam.Create([1])
    for i in range(n // 2):
        numbers = numbers | f"pair {i}" >> beam.Map(lambda x: (1, 1)) | f"step {i}" >> beam.GroupByKey()


def side_inputs(p: Any, n: int) -> None:
    """Maps with one side input, one after the other."""
    numbers, side = p | beam.Create([1]), p | "side" >> beam.Create([1])
    for i in range(n):
        numbers = numbers | f"step {i}" >> beam.Map(lambda x, y: x + y, AsSingleton(side))


def diamonds(p: Any, n: int) -> None:
    """Maps whose side input is made of their main input, one after the other."""
    numbers = p | beam.Create([1])
    for i in range(n // 2):
        side = numbers | f"side {i}" >> beam.Map(lambda x: x + 1)
        numbers = numbers | f"step {i}" >> beam.Map(lambda x, y: x, AsList(side))


SHAPES: dict[str, Callable[[Any, int], None]] = {
    shape.__name__: shape for shape in (chain, fan_out, flattens, nested, groupings, side_inputs, diamonds)
}


def main() -> None:
    names = sys.argv[1:2] or list(SHAPES)
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    for name in names:
        start = time.process_time()
        p = beam.Pipeline("local")
        SHAPES[name](p, n)
        built = time.process_time()
        p.run().wait_until_finish()
        print(f"{name:12} {n} transforms: built in {built - start:.2f} s, run in {time.process_time() - built:.2f} s")


if __name__ == "__main__":
    main()
