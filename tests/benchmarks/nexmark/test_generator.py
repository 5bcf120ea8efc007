"""The generator of Nexmark's events, and its sources."""

from __future__ import annotations

from collections import Counter
from itertools import chain, pairwise

import pytest
from nexmark import generator as shape
from nexmark.events import Auction, Bid, Event, Person
from nexmark.generator import EPOCH, Generator
from nexmark.reference import tables
from nexmark.sources import BoundedEvents, UnboundedEvents

from penstock.windowing.timestamp import MAX_MICROS, Timestamp

NOW = Timestamp(0)


def test_ids_and_proportions_are_those_of_beams_suite() -> None:
    """An event's kind and id follow from its number."""
    events = list(Generator(20_000).rows())

    assert Counter(type(event) for event in events) == {Person: 400, Auction: 1_200, Bid: 18_400}
    assert sorted(event.id for event in events if isinstance(event, Person)) == list(range(1000, 1400))
    assert sorted(event.id for event in events if isinstance(event, Auction)) == list(range(1000, 2200))
    assert {event.category for event in events if isinstance(event, Auction)} == set(range(10, 15))


def test_hot_keys_have_their_shares() -> None:
    """Half of the bids are for hot auctions; three of four auctions and bids are of hot persons."""
    events = list(Generator(100_000).rows())
    auctions = [event for event in events if isinstance(event, Auction)]
    bids = [event for event in events if isinstance(event, Bid)]

    hot_sellers = sum(auction.seller % 100 == 0 for auction in auctions) / len(auctions)
    hot_auctions = sum(bid.auction % 100 == 0 for bid in bids) / len(bids)
    hot_bidders = sum(bid.bidder % 100 == 1 for bid in bids) / len(bids)
    assert 0.73 < hot_sellers < 0.77
    assert 0.49 < hot_auctions < 0.52
    assert 0.74 < hot_bidders < 0.77


def test_references_are_to_what_is_near() -> None:
    """A bid is for one of the last hundred auctions or of the next ten, which makes joins finite."""
    generator = Generator(30_000)
    for event in generator.rows():
        if isinstance(event, Bid):
            number = (event.date_time - shape.BASE_TIME) * generator.rate // 1000
            last = 1000 + number // EPOCH * 3 + 2
            assert last - 103 - shape.HOT <= event.auction <= last + 10 + 3
        elif isinstance(event, Auction):
            assert event.date_time < event.expires
            assert event.initial_bid < event.reserve


def test_events_are_out_of_order_within_their_block_only() -> None:
    """So the beginning of the next block is an exact watermark."""
    generator = Generator(5_000)
    times = [[event.date_time for event in generator.rows_of(block)] for block in range(generator.blocks)]

    assert all(block != sorted(block) for block in times)
    assert all(max(before) < min(after) for before, after in pairwise(times))


@pytest.mark.parametrize("events", [1, 777, 2_000, 2_345])
def test_rows_and_columns_are_the_same_events(events: int) -> None:
    """Also where the last block is incomplete, and whatever comes after it."""
    generator = Generator(events, seed=5)
    columns = tables(generator)
    found = list(generator.rows())

    assert len(found) == events
    for name, kind in {"persons": Person, "auctions": Auction, "bids": Bid}.items():
        rows = [tuple(row.values()) for row in columns[name].to_pylist()]
        assert sorted(rows) == sorted(tuple(event) for event in found if type(event) is kind)
        if rows:
            assert tuple(columns[name].column_names) == kind._fields
    assert set(found) <= set(Generator(5_000, seed=5).rows())


def test_seeds_differ_and_repeat() -> None:
    """One seed, one sequence."""
    first, again, other = (list(Generator(1_000, seed).rows()) for seed in (1, 1, 2))
    assert first == again
    assert first != other


# The sources


def read_in_splits(source: BoundedEvents, desired: int) -> list[list[Event]]:
    return [list(chain.from_iterable(b.values for b in source.read_bundles(split))) for split in source.split(desired)]


@pytest.mark.parametrize("splits", [1, 2, 3, 7, 50])
def test_the_splits_are_the_whole(splits: int) -> None:
    """In order, and never more than there are blocks."""
    generator = Generator(6_543)
    found = read_in_splits(BoundedEvents(generator), splits)
    assert len(found) == min(splits, 7)
    assert list(chain.from_iterable(found)) == list(generator.rows())


@pytest.mark.parametrize("partitions", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 300, 1_000, 16_384])
def test_a_reader_goes_on_at_any_offset(partitions: int, size: int) -> None:
    """A new reader for each poll reads what one reader does, and its watermark is never passed by an event."""
    generator = Generator(2_345 if size > 1 else 30)
    source = UnboundedEvents(generator, partitions)
    found: list[Event] = []
    for partition in source.partitions():
        reader = source.open(partition, None)
        while not reader.is_finished():
            watermark = reader.watermark(NOW)
            bundle = reader.poll(size, NOW)
            assert bundle is not None
            assert 0 < len(bundle) <= size
            assert watermark <= min(bundle.timestamps)
            found += bundle.values
            reader = source.open(partition, reader.offset())
        assert reader.watermark(NOW) == MAX_MICROS
        assert reader.poll(size, NOW) is None
    assert Counter(found) == Counter(generator.rows())


@pytest.mark.parametrize("max_bytes", [None, 50_000])
def test_a_batch_that_is_planned_is_read_whole(max_bytes: int | None) -> None:
    """By another reader, opened at its beginning."""
    generator = Generator(4_321)
    source = UnboundedEvents(generator)
    planning, offset, found = source.open(0, None), None, list[Event]()
    sizes = []
    while not planning.is_finished():
        end = planning.admit(1_700, max_bytes, NOW)
        batch = [value for bundle in source.open(0, offset).read_to(end, NOW) for value in bundle.values]
        sizes.append(len(batch))
        found += batch
        offset = end
    assert found == list(generator.rows())
    if max_bytes is None:
        assert sizes == [1_700, 1_700, 921]
