"""The events of the auction site, and the results of the queries.  Times are milliseconds since 1970, prices cents."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias


class Person(NamedTuple):
    """The registration of a person."""

    id: int
    name: str
    email: str
    credit_card: str
    city: str
    state: str
    date_time: int
    extra: str


class Auction(NamedTuple):
    """An auction that has been opened.  Bids count if they are made before `expires` and reach `reserve`."""

    id: int
    item_name: str
    description: str
    initial_bid: int
    reserve: int
    date_time: int
    expires: int
    seller: int
    category: int
    extra: str


class Bid(NamedTuple):
    """A bid for the item of an auction."""

    auction: int
    bidder: int
    price: int
    date_time: int
    extra: str


Event: TypeAlias = Person | Auction | Bid

# The type of events with so many fields.
_TYPES = {5: "Bid", 8: "Person", 10: "Auction"}


def typed(event: Any) -> tuple[Any, ...]:
    """Return the name of an event's type, and the values of its fields.  The event may be a `Row`."""
    values = tuple(event)
    return _TYPES[len(values)], *values


class AuctionPrice(NamedTuple):
    """Result of query 2."""

    auction: int
    price: int


class NameCityStateId(NamedTuple):
    """Result of query 3: a seller, and one of the seller's auctions."""

    name: str
    city: str
    state: str
    auction: int


class CategoryPrice(NamedTuple):
    """Result of query 4."""

    category: int
    price: int


class AuctionCount(NamedTuple):
    """Result of query 5."""

    auction: int
    bids: int


class SellerPrice(NamedTuple):
    """Result of query 6."""

    seller: int
    price: int


class IdNameReserve(NamedTuple):
    """Result of query 8."""

    id: int
    name: str
    reserve: int


class AuctionBid(NamedTuple):
    """Result of query 9: an auction, and the bid that has won it."""

    auction: Auction
    bid: Bid


class LogFile(NamedTuple):
    """A file of query 10, with the number of its records."""

    path: str
    shard: int
    records: int


class LogIndex(NamedTuple):
    """Result of query 10: the files of a window, which its index lists."""

    path: str
    files: tuple[LogFile, ...]


class BidderCount(NamedTuple):
    """Result of queries 11 and 12."""

    bidder: int
    bids: int
