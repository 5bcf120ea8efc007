"""The generator of events, in the shape of Beam's: the same proportions, ids, hot keys and sizes.

Of 50 events in a row the first is a person, the next three are auctions, and the others are bids.  Event n has the
event time n / `rate` seconds after `BASE_TIME`, and ids count up: event n of 50 * k + 1 opens auction 1000 + 3 * k.

- Three of four auctions are of a hot seller, the first of the last hundred persons.  The others are of one of the last
  1,000 persons, or of the next ten, who have not registered yet.
- One of two bids is for a hot auction, the first of the last hundred.  The others are for one of the last hundred
  auctions, or the next ten, which have not been opened yet.
- Three of four bids are of a hot bidder, the second of the last hundred persons.
- Prices are distributed log-uniformly between 1 and 1,000,000 dollars.  An auction is open for as long as the next 100
  auctions take on average, and at most for twice as long.
- Persons have 200 bytes on average, auctions 500 and bids 100.

Events arrive out of order.  Each 1,000 events in a row are a *block*, and arrive in the order that the multiplication
of their numbers by 953 produces.  So a watermark at the beginning of the block is exact: no event is ever late.

A block is drawn by numpy, as columns, from the seed and its number.  So blocks can be drawn in any order and by any
process, and rows and columns are the same events.  The numbers are not those of Beam's generator, which draws from
Java's.
"""

from __future__ import annotations

import string
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import attrs
import numpy as np

from nexmark.events import Auction, Bid, Event, Person

BASE_TIME = int(datetime(2015, 7, 15, tzinfo=UTC).timestamp() * 1000)

FIRST_ID = 1000
FIRST_CATEGORY, CATEGORIES = 10, 5
PERSONS, AUCTIONS, BIDS = 1, 3, 46
EPOCH = PERSONS + AUCTIONS + BIDS

# The number of persons or auctions of which one is hot, and of those that are referred to before they exist.
HOT, LEAD = 100, 10
HOT_SELLER_RATIO, HOT_AUCTION_RATIO, HOT_BIDDER_RATIO = 4, 2, 4
ACTIVE_PERSONS, OPEN_AUCTIONS = 1000, 100

PERSON_BYTES, AUCTION_BYTES, BID_BYTES = 200, 500, 100

BLOCK = 1000
_STEP = 953

STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = ("Phoenix", "Tucson", "Los Angeles", "Fresno", "Boise", "Portland", "Salem", "Seattle", "Kent", "Cheyenne")
FIRST_NAMES = ("Ada", "Alan", "Barbara", "Dennis", "Edsger", "Frances", "Grace", "John", "Ken", "Lynn", "Niklaus")
LAST_NAMES = ("Allen", "Backus", "Conway", "Dijkstra", "Hopper", "Liskov", "Ritchie", "Thompson", "Wirth")

_TEXT_LENGTH = 1 << 16
_TEXT, _SPACED_TEXT = (
    "".join(np.random.default_rng(2002).choice(list(letters), _TEXT_LENGTH + 1000))
    for letters in (string.ascii_lowercase, string.ascii_lowercase + "  ")
)

# The numbers of a block's events: those of each type, and all in the order of arrival.
_NUMBERS = np.arange(BLOCK)
_OF_PERSONS = _NUMBERS[_NUMBERS % EPOCH < PERSONS]
_OF_AUCTIONS = _NUMBERS[(_NUMBERS % EPOCH >= PERSONS) & (_NUMBERS % EPOCH < PERSONS + AUCTIONS)]
_OF_BIDS = _NUMBERS[_NUMBERS % EPOCH >= PERSONS + AUCTIONS]
_ARRIVALS = (_NUMBERS * _STEP % BLOCK).tolist()

# An array of numbers, or a list of strings, for each field of a type of events.
Columns = dict[str, Any]


@attrs.frozen
class Block:
    """Events as columns, in the order of event times."""

    persons: Columns
    auctions: Columns
    bids: Columns


@attrs.frozen
class Generator:
    """A description of a sequence of events.

    Args:
      events: their number.
      seed: what differs between sequences.
      rate: events per second of event time.

    >>> events = list(Generator(100, seed=7).rows())
    >>> [sum(type(event) is kind for event in events) for kind in (Person, Auction, Bid)]
    [2, 6, 92]
    """

    events: int
    seed: int = 0
    rate: int = 10_000

    @property
    def blocks(self) -> int:
        """The number of blocks; the last one may be incomplete."""
        return -(-self.events // BLOCK)

    def time_of(self, number: Any) -> Any:
        """Return the event time of a number, or an array of them, in milliseconds."""
        return BASE_TIME + number * 1000 // self.rate

    def rows(self) -> Iterator[Event]:
        """Yield all events in the order of arrival."""
        for block in range(self.blocks):
            yield from self.rows_of(block)

    def rows_of(self, block: int) -> list[Event]:
        """Return the events of a block in the order of arrival."""
        whole = self._whole(block)
        events: list[Any] = [None] * BLOCK
        events[::EPOCH] = map(Person, *_lists(whole.persons))
        auctions = list(map(Auction, *_lists(whole.auctions)))
        for i in range(AUCTIONS):
            events[PERSONS + i :: EPOCH] = auctions[i::AUCTIONS]
        bids = list(map(Bid, *_lists(whole.bids)))
        for i in range(BIDS):
            events[PERSONS + AUCTIONS + i :: EPOCH] = bids[i::BIDS]
        left = self.events - block * BLOCK
        return [events[number] for number in _ARRIVALS if number < left]

    def columns_of(self, block: int) -> Block:
        """Return the events of a block as columns."""
        whole, left = self._whole(block), self.events - block * BLOCK
        return Block(
            _up_to(whole.persons, (left > _OF_PERSONS).sum()),
            _up_to(whole.auctions, (left > _OF_AUCTIONS).sum()),
            _up_to(whole.bids, (left > _OF_BIDS).sum()),
        )

    def _whole(self, block: int) -> Block:
        """Draw a block, beyond `events` if it is the last, so that a longer sequence begins with the same events."""
        draw = np.random.default_rng([self.seed, block])
        first = block * BLOCK
        return Block(
            self._persons(draw, first + _OF_PERSONS),
            self._auctions(draw, first + _OF_AUCTIONS),
            self._bids(draw, first + _OF_BIDS),
        )

    def _persons(self, draw: np.random.Generator, numbers: Any) -> Columns:
        n = len(numbers)
        names = draw.integers(len(FIRST_NAMES) * len(LAST_NAMES), size=n).tolist()
        cards = draw.integers(10**16, size=n).tolist()
        columns = {
            "id": FIRST_ID + _persons_before(numbers),
            "name": [f"{FIRST_NAMES[i // len(LAST_NAMES)]} {LAST_NAMES[i % len(LAST_NAMES)]}" for i in names],
            "email": [f"{a}@{b}.com" for a, b in zip(_texts(draw, _TEXT, 3, 7, n), _texts(draw, _TEXT, 3, 5, n))],
            "credit_card": [" ".join(f"{card:016d}"[i : i + 4] for i in (0, 4, 8, 12)) for card in cards],
            "city": [CITIES[i] for i in draw.integers(len(CITIES), size=n).tolist()],
            "state": [STATES[i] for i in draw.integers(len(STATES), size=n).tolist()],
            "date_time": self.time_of(numbers),
        }
        return {**columns, "extra": _extras(draw, PERSON_BYTES - 64, n)}

    def _auctions(self, draw: np.random.Generator, numbers: Any) -> Columns:
        n = len(numbers)
        last = _persons_before(numbers)
        is_hot = draw.integers(HOT_SELLER_RATIO, size=n) > 0
        seller = np.where(is_hot, last // HOT * HOT, _recent_persons(draw, last))
        initial_bid = _prices(draw, n)
        times = self.time_of(numbers)
        length = self.time_of(numbers + OPEN_AUCTIONS * EPOCH // AUCTIONS) - times
        columns = {
            "id": FIRST_ID + _auctions_before(numbers),
            "item_name": [text.strip() for text in _texts(draw, _SPACED_TEXT, 3, 20, n)],
            "description": [text.strip() for text in _texts(draw, _SPACED_TEXT, 3, 100, n)],
            "initial_bid": initial_bid,
            "reserve": initial_bid + _prices(draw, n),
            "date_time": times,
            "expires": times + 1 + draw.integers(np.maximum(2 * length, 1)),
            "seller": FIRST_ID + seller,
            "category": FIRST_CATEGORY + draw.integers(CATEGORIES, size=n),
        }
        return {**columns, "extra": _extras(draw, AUCTION_BYTES - 112, n)}

    def _bids(self, draw: np.random.Generator, numbers: Any) -> Columns:
        n = len(numbers)
        person, auction = _persons_before(numbers), _auctions_before(numbers)
        oldest = np.maximum(auction - OPEN_AUCTIONS, 0)
        any_auction = oldest + draw.integers(auction - oldest + 1 + LEAD)
        for_hot = draw.integers(HOT_AUCTION_RATIO, size=n) > 0
        of_hot = draw.integers(HOT_BIDDER_RATIO, size=n) > 0
        return {
            "auction": FIRST_ID + np.where(for_hot, auction // HOT * HOT, any_auction),
            "bidder": FIRST_ID + np.where(of_hot, person // HOT * HOT + 1, _recent_persons(draw, person)),
            "price": _prices(draw, n),
            "date_time": self.time_of(numbers),
            "extra": _extras(draw, BID_BYTES - 32, n),
        }


def _up_to(columns: Columns, count: int) -> Columns:
    return {name: column[:count] for name, column in columns.items()}


def _lists(columns: Columns) -> Iterator[list[Any]]:
    return (column if type(column) is list else column.tolist() for column in columns.values())


def _persons_before(numbers: Any) -> Any:
    """Return the last person, counted from 0, that exists when these events happen; the event itself, if it is one."""
    return numbers // EPOCH


def _auctions_before(numbers: Any) -> Any:
    """Return the last auction likewise; -1 if there is none yet."""
    return numbers // EPOCH * AUCTIONS + np.clip(numbers % EPOCH - PERSONS, -1, AUCTIONS - 1)


def _recent_persons(draw: np.random.Generator, last: Any) -> Any:
    active = np.minimum(last + 1, ACTIVE_PERSONS)
    return last + 1 - active + draw.integers(active + LEAD)


def _prices(draw: np.random.Generator, n: int) -> Any:
    return np.rint(10 ** (draw.random(n) * 6) * 100).astype(np.int64)


def _texts(draw: np.random.Generator, source: str, shortest: int, longest: int, n: int) -> list[str]:
    starts = draw.integers(_TEXT_LENGTH, size=n)
    ends = starts + draw.integers(shortest, longest, size=n)
    return list(map(source.__getitem__, map(slice, starts.tolist(), ends.tolist())))


def _extras(draw: np.random.Generator, size: int, n: int) -> list[str]:
    """Return texts of random lengths that differ from `size` by a fifth at most."""
    return _texts(draw, _TEXT, size - size // 5, size + size // 5, n)
