"""DoFns that change what they have emitted, and what they get, against an interpreter that copies at each step.

A pipeline is a tree: several transforms read the output of one.  In the interpreter a function gets a copy of its
input, and each of its outputs is copied before it goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.runners.local_variants import runner_of

import penstock as beam
from penstock.testing import assert_that, equal_to
from penstock.transforms.userstate import ReadModifyWriteStateSpec
from penstock.utils.windowed_value import WindowedValue

Element = list[Any]


class YieldsAgain(beam.DoFn):
    """Yields its element, changed in between."""

    def process(self, element: Element) -> Iterator[Element]:
        for i in range(3):
            element.append(i)
            yield element
        element.clear()


class Returns(beam.DoFn):
    """Returns the element, which it keeps and changes when the next one comes."""

    def __init__(self) -> None:
        self.kept: Element = []

    def process(self, element: Element) -> list[Element]:
        self.kept.append("changed")
        self.kept = element
        return [element, [element, element]]


class Tags(beam.DoFn):
    """Wraps its element as tags and timestamps do, and changes it in between."""

    def process(self, element: Element) -> Iterator[Any]:
        yield beam.window.TimestampedValue(element, 5)
        element.append("later")
        yield beam.pvalue.TaggedOutput("none", element)
        element.insert(0, "last")


class Collects(beam.DoFn):
    """Yields what it has at the end of each bundle, and clears it."""

    def __init__(self) -> None:
        self.found: Element = []

    def process(self, element: Element) -> None:
        self.found.append(element)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for each in self.found:
            yield WindowedValue(each, 0, [beam.window.GlobalWindow()])
            each.append("cleared")
        self.found.clear()


class Changes(beam.DoFn):
    """Changes its element in place."""

    def process(self, element: Element) -> Iterator[Element]:
        element.append([len(element)])
        element[-1].append("own")
        yield element


class Counts(beam.DoFn):
    """Keeps the elements of a length in a state, which it changes and emits."""

    SEEN = ReadModifyWriteStateSpec("seen")

    def process(self, pair: tuple[int, Element], seen: Any = beam.DoFn.StateParam(SEEN)) -> Iterator[Element]:
        found = seen.read() or []
        found.append(len(pair[1]))
        seen.write(found)
        yield found
        found.append("not written")
        pair[1].append("not emitted")


DOFNS: list[type[beam.DoFn]] = [YieldsAgain, Returns, Tags, Collects, Changes]


@attrs.frozen
class Step:
    """A DoFn, or `Counts` behind a key, with those that read its output."""

    dofn: type[beam.DoFn]
    readers: tuple[Step, ...]


STEPS = st.recursive(
    st.builds(Step, st.sampled_from(DOFNS), st.just(())),
    lambda steps: st.builds(
        Step, st.sampled_from([*DOFNS, Counts]), st.lists(steps, min_size=1, max_size=3).map(tuple)
    ),
    max_leaves=5,
)


def interpreted(step: Step, elements: list[Element], at: str, found: dict[str, list[Element]]) -> None:
    """Compute the outputs of a step and of those behind it, by their places in the tree."""
    outputs = list(_outputs(step.dofn, elements))
    found[at] = outputs
    for i, reader in enumerate(step.readers):
        interpreted(reader, outputs, f"{at}.{i}", found)


def _outputs(dofn: type[beam.DoFn], elements: list[Element]) -> Iterator[Element]:
    fn = dofn()
    if isinstance(fn, Counts):
        by_length: dict[int, list[Any]] = {}
        for element in elements:
            by_length.setdefault(len(element), []).append(len(element))
            yield by_length[len(element)][:]
        return
    for element in elements:
        for output in fn.process(deepcopy(element)) or ():
            if isinstance(output, beam.pvalue.TaggedOutput):
                continue
            yield deepcopy(output.value if isinstance(output, beam.window.TimestampedValue) else output)
    for output in fn.finish_bundle() or ():  # type: ignore[func-returns-value, attr-defined]
        yield deepcopy(output.value)


def built(step: Step, pcollection: Any, at: str, made: dict[str, Any]) -> None:
    """Apply a step and those behind it to a PCollection."""
    if step.dofn is Counts:
        keyed = pcollection | f"key {at}" >> beam.Map(lambda element: (len(element), element))
        made[at] = keyed | at >> beam.ParDo(Counts())
    else:
        made[at] = (pcollection | at >> beam.ParDo(step.dofn()).with_outputs("none", main="main")).main
    for i, reader in enumerate(step.readers):
        built(reader, made[at], f"{at}.{i}", made)


@pytest.mark.parametrize("runner_name", ["local", "local-job", "local-2"])
@given(step=STEPS, lengths=st.lists(st.integers(0, 2), min_size=1, max_size=3))
def test_functions_that_change_elements_give_what_copies_give(runner_name: str, step: Step, lengths: list[int]) -> None:
    """However many branches read them."""
    elements: list[Element] = [[i] * length for i, length in enumerate(lengths)]
    expected: dict[str, list[Element]] = {}
    interpreted(step, elements, "0", expected)
    with beam.Pipeline(runner=runner_of(runner_name)) as p:
        made: dict[str, Any] = {}
        built(step, p | beam.Create(elements), "0", made)
        for at, pcollection in made.items():
            assert_that(pcollection, equal_to(expected[at]), f"check {at}")
