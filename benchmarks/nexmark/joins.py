"""Queries 3 and 8: joins of persons and auctions, by state and by windows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import penstock as beam
from nexmark.events import Auction, IdNameReserve, NameCityStateId, Person
from nexmark.settings import Settings
from penstock.sdk.userstate import BagStateSpec, ReadModifyWriteStateSpec, TimeDomain, TimerSpec, on_timer

STATES = ("OR", "ID", "CA")
CATEGORY = 10


class LocalItemSuggestion(beam.PTransform):
    """Query 3: sellers from three states, and their auctions of one category.

    A DoFn with state joins them.  An auction waits for its seller, whose person may arrive later.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.waiting_time = settings.max_auctions_waiting_time

    def expand(self, events: Any) -> Any:
        auctions = (
            events
            | "AuctionsOfCategory"
            >> beam.Filter(lambda event: isinstance(event, Auction) and event.category == CATEGORY)
            | "BySeller" >> beam.Map(lambda auction: (auction.seller, auction))
        )
        persons = (
            events
            | "PersonsOfStates" >> beam.Filter(lambda event: isinstance(event, Person) and event.state in STATES)
            | "ById" >> beam.Map(lambda person: (person.id, person))
        )
        return (auctions, persons) | beam.Flatten() | "Join" >> beam.ParDo(JoinPersonWithAuctions(self.waiting_time))


class JoinPersonWithAuctions(beam.DoFn):
    """Joins the person of each key with the person's auctions.  Both may be rows of the same fields.

    A timer clears the state when neither has arrived for `waiting_time` seconds of event time.
    """

    PERSON = ReadModifyWriteStateSpec("person")
    AUCTIONS = BagStateSpec("auctions")
    EXPIRY = TimerSpec("expiry", TimeDomain.WATERMARK)

    def __init__(self, waiting_time: int) -> None:
        self.waiting_time = waiting_time

    def process(
        self,
        element: tuple[int, Any],
        person_state: Any = beam.DoFn.StateParam(PERSON),
        auctions: Any = beam.DoFn.StateParam(AUCTIONS),
        expiry: Any = beam.DoFn.TimerParam(EXPIRY),
    ) -> Iterator[NameCityStateId]:
        _, event = element
        person = person_state.read()
        if hasattr(event, "state"):
            person_state.write(event)
            for auction in auctions.read():
                yield suggestion(event, auction)
            auctions.clear()
        elif person is not None:
            yield suggestion(person, event)
        else:
            auctions.add(event)
        expiry.set(event.date_time / 1000 + self.waiting_time)

    @on_timer(EXPIRY)
    def expire(
        self, person: Any = beam.DoFn.StateParam(PERSON), auctions: Any = beam.DoFn.StateParam(AUCTIONS)
    ) -> None:
        person.clear()
        auctions.clear()


def suggestion(person: Any, auction: Any) -> NameCityStateId:
    return NameCityStateId(person.name, person.city, person.state, auction.id)


class MonitorNewUsers(beam.PTransform):
    """Query 8: the persons who have opened auctions in the window in which they registered."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.window_size = settings.window_size

    def expand(self, events: Any) -> Any:
        windowed = events | beam.WindowInto(beam.window.FixedWindows(self.window_size))
        persons = (
            windowed
            | "Persons" >> beam.Filter(lambda event: isinstance(event, Person))
            | "ById" >> beam.Map(lambda person: (person.id, person))
        )
        auctions = (
            windowed
            | "Auctions" >> beam.Filter(lambda event: isinstance(event, Auction))
            | "BySeller" >> beam.Map(lambda auction: (auction.seller, auction))
        )
        joined = {"persons": persons, "auctions": auctions} | beam.CoGroupByKey()
        return joined | "Select" >> beam.FlatMap(new_sellers)


def new_sellers(element: tuple[int, dict[str, Iterable[Any]]]) -> Iterator[IdNameReserve]:
    _, values = element
    for person in values["persons"]:
        for auction in values["auctions"]:
            yield IdNameReserve(person.id, person.name, auction.reserve)
