"""Identities of sources in checkpoints."""

from __future__ import annotations

import importlib
import inspect
import json
import pathlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import penstock
import penstock as beam
from penstock.runners.execution.plan.source_identities import changes_of_sources, identity_of
from penstock.sdk.sources.bounded import BoundedSource, ValuesSource
from penstock.sdk.sources.unbounded import UnboundedSource
from penstock.sdk.spark_interfaces import BoundedFrame, UnboundedFrame

# Spark keeps what a streaming DataFrame reads; a bounded one is read whole, at once; and these stand for others.
EXCEPT = {"DataFrameSource", "DataFrameStream", "BoundedPartitions", "WholeSource", "_FirstElements"}


def sources(kind: type) -> Iterator[type]:
    """The classes of the package that a user's program may read from."""
    for each in kind.__subclasses__():
        yield from sources(each)
        is_of_package = each.__module__.startswith("penstock.") and not each.__module__.startswith("penstock.tests")
        if is_of_package and not inspect.isabstract(each):
            yield each


def test_every_source_of_the_package_has_an_identity() -> None:
    """One that is forgotten would be gone on with, whatever has changed."""
    for module in pkgutil.walk_packages(penstock.__path__, "penstock."):
        if module.name.split(".")[1] in ("io", "sdk", "testing", "transforms"):
            importlib.import_module(module.name)
    found = {*sources(UnboundedSource), *sources(BoundedSource)} - {BoundedFrame, UnboundedFrame}
    without = {c.__name__ for c in found if c.identity in (UnboundedSource.identity, BoundedSource.identity)}

    assert EXCEPT >= without
    assert {"SequenceSource", "SqlSource", "TextSource", "WatchedGrowth"} <= {each.__name__ for each in found}


def test_an_identity_is_data_and_says_no_password() -> None:
    """It is in a manifest, which is JSON."""
    read = beam.io.ReadFromRedisStream("redis://me:secret@localhost:6379/0?password=hidden", ["b", "a"])
    identity = identity_of("Read", read.source)

    assert {"class": "RedisStreamSource", "url": "localhost:6379/0", "streams": ["a", "b"]} == identity
    assert identity == json.loads(json.dumps(identity))


def test_streams_may_be_added_and_not_left_out() -> None:
    """One that is new is read from its beginning; one that is gone had more, perhaps."""

    def change(before: list[str], now: list[str]) -> bool:
        sources = {"Read": beam.io.ReadFromRedisStream("redis://localhost", now).source}
        was = identity_of("Read", beam.io.ReadFromRedisStream("redis://localhost", before).source)
        (found,) = changes_of_sources({"Read": was}, {"Read": identity_of("Read", sources["Read"])}, sources)
        return found.is_rescalable

    assert change(["a"], ["a", "b"])
    assert not change(["a", "b"], ["a"])


class Own(UnboundedSource[int]):
    """A source of a user's own, of which nothing is known but its class."""

    def partitions(self) -> list[str]:
        return ["all"]

    def open(self, partition: Any, offset: Any) -> Any:
        raise NotImplementedError


def test_a_source_of_the_users_own_is_known_by_its_class() -> None:
    """And by what it says itself, whatever type that has."""
    assert {"class": "Own"} == identity_of("Read", Own())

    class Topic(Own):
        def identity(self) -> Any:
            return {"path": pathlib.Path("a"), "parts": (1, 2)}

    assert {"path": "a", "parts": [1, 2]}.items() <= identity_of("Read", Topic()).items()


def test_values_without_an_encoding_are_known_by_their_types() -> None:
    """Another process has others of them, which are no news."""
    assert ValuesSource([object(), {1, 2}]).identity() == ValuesSource([object(), {2, 1}]).identity()
    assert ValuesSource([object()]).identity() != ValuesSource([Own()]).identity()
    assert ValuesSource([(1, "a")]).identity() != ValuesSource([(1, "b")]).identity()
