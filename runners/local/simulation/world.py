"""The world of a simulation: time, chance, misfortune, and a record of all that happens.

Everything that a run would ask of its surroundings it asks of this, which has one
`random.Random`: the same seed gives the same run, step by step.

>>> world = SimulatedWorld(7, Misfortunes())
>>> world.step("something happens"); world.trace
['0.000000 job: something happens']
"""

from __future__ import annotations

from collections import Counter
from random import Random

import attrs

from ...execution.checkpoints.simulated_storage import SimulatedCrash, SimulatedDisk
from ...execution.time_slice import TimeSlice

# A run is taken to have no end after so many microseconds: most last for less than a second.
_LONGEST = 600_000_000


class EndlessSimulation(BaseException):
    """The run doesn't come to its end.  Not an `Exception`, so that no recovery hides it."""


@attrs.define
class Misfortunes:
    """What may befall a run, so that it is finite.

    Attributes:
      deaths: how many times a worker may die, or everything at once.
      failures: how many operations of the disk and of sinks may fail.
      failing: the probability that one does, as long as it may.
      hangs: how many times a worker may do nothing for a while, or for ever.
      zombies: how many times those whose job is over, or has given them up, may go on.
      repeating: the probability that something that is said, or delivered by its id, comes again later.
      visited: how many starts somebody may stop, with a savepoint or without.
      settings: how many times the wall clock may be set, back or forward.
    """

    deaths: int = 0
    failures: int = 0
    failing: float = 0.0
    hangs: int = 0
    zombies: int = 0
    repeating: float = 0.0
    visited: int = 5
    settings: int = 0

    @staticmethod
    def drawn(random: Random) -> Misfortunes:
        """Some runs have none, some one that has nothing to do with another, some many."""
        deaths = random.choice([0, 1, 2, 2, 4, 8])
        failures = random.choice([0, 0, 1, 3, 6])
        failing = random.choice([0.01, 0.05, 0.2])
        hangs, zombies = random.choice([0, 0, 1, 3]), random.choice([0, 2, 8])
        return Misfortunes(deaths, failures, failing, hangs, zombies, random.choice([0.0, 0.02, 0.2]))


class SimulatedWorld:
    """Time, chance and misfortune.

    Args:
      seed: decides everything.
      limit: after so many steps a run is taken to have no end.

    Attributes:
      now: microseconds, by the monotonic clock.
      running: the number of the worker whose turn it is; None for the process that the user started.
      is_zombie: whether it is the turn of one whom nobody waits for.
      is_over: whether that process has died, and with it all others: nothing can be done any more.
      harm: how many misfortunes there were that a run may fail of.
      counts: by its kind, how often there was one.
      slices: decides where loops are left.
      trace: what happened, line by line.
    """

    def __init__(self, seed: int, misfortunes: Misfortunes | None = None, limit: int = 300_000) -> None:
        self.random = Random(seed)
        # Apart, since what is drawn of it depends on how many elements there are.
        self.slices = Random(f"slices of {seed}")
        self.now = 0
        self.running: int | None = None
        self.is_zombie = False
        self.is_over = False
        self.harm = 0
        self.counts: Counter[str] = Counter()
        self.steps = 0
        self.trace: list[str] = []
        # By itself, so that the clock's misfortunes leave all others of a seed where they are.
        self._chance_of_clock = Random(f"the wall clock of {seed}")
        self._wall = 0
        if misfortunes is None:
            misfortunes = Misfortunes.drawn(self.random)
            misfortunes.settings = self._chance_of_clock.choice([0, 0, 1, 3])
        self.misfortunes = misfortunes
        self._limit = limit
        self._fuse = self._calm = 0
        self._light()

    def _light(self) -> None:
        """Draw after how many steps the next death is: often soon, so that recovery is hit too.

        But at times not before some work has been done: to start takes so many steps that most misfortunes would be
        there.
        """
        longest = self.random.choice([30, 300, 3000])
        self._fuse = self.random.randint(1, longest)
        self._rest()

    def _rest(self) -> None:
        """Draw for how many steps of subtasks nothing happens, if anything may."""
        if self.misfortunes.deaths or self.misfortunes.failures:
            self._calm = self.random.choice([0, 0, 0, 10, 40])

    def worked(self) -> None:
        """A subtask has made a step."""
        self._calm = max(0, self._calm - 1)

    def clock(self) -> int:
        """Microseconds, by the monotonic clock."""
        return self.now

    def wall(self) -> int:
        """Microseconds, by the wall clock."""
        return self.now + self._wall

    def sleep(self, seconds: float) -> None:
        """Time passes."""
        self.now += round(seconds * 1_000_000)

    def token(self) -> str:
        """Hexadecimal digits that nobody else has."""
        return f"{self.random.getrandbits(64):016x}"

    def note(self, what: str) -> None:
        """Write down what happens."""
        who = "job" if self.running is None else f"{'zombie' if self.is_zombie else 'worker'} {self.running}"
        self.trace.append(f"{self.now / 1_000_000:.6f} {who}: {what}")

    def step(self, what: str) -> None:
        """Something is about to happen: whoever does it may die before.  Raises `SimulatedCrash`."""
        if self.is_over:
            raise SimulatedCrash(what)
        self.steps += 1
        if self.steps > self._limit or self.now > _LONGEST:
            raise EndlessSimulation(f"there is no end after {self.steps} steps and {self.now / 1_000_000:.0f} s")
        self._may_set_clock()
        if self.is_zombie:
            # Its end comes in another way.
            self.note(what)
            return
        if not self._calm:
            self._fuse -= 1
            if self._fuse <= 0 and self.misfortunes.deaths:
                self._die(what)
        self.note(what)

    def _may_set_clock(self) -> None:
        chance = self._chance_of_clock
        if not self.misfortunes.settings or chance.random() >= 0.003:
            return
        self.misfortunes.settings -= 1
        self.counts["settings of the wall clock"] += 1
        by = chance.choice([-3600, -1, 1, 3600])
        self._wall += by * 1_000_000
        self.note(f"the wall clock is set by {by} s")

    def _die(self, what: str) -> None:
        self.misfortunes.deaths -= 1
        self._harmed("deaths")
        self._light()
        if self.running is None or self.random.random() < 0.4:
            self.is_over = True
            self.note(f"everything dies before: {what}")
        else:
            self.note(f"it dies before: {what}")
        raise SimulatedCrash(what)

    def fails(self, what: str) -> bool:
        """Whether what is being done fails."""
        misfortunes = self.misfortunes
        if self._calm or not misfortunes.failures or self.random.random() >= misfortunes.failing:
            return False
        misfortunes.failures -= 1
        self._harmed("failures")
        self._rest()
        self.note(f"it fails: {what}")
        return True

    def hangs(self) -> bool:
        """Whether the worker whose turn it was does nothing from now on, for a while or for ever."""
        misfortunes = self.misfortunes
        if self.is_zombie or not misfortunes.hangs or self.random.random() >= 0.01:
            return False
        misfortunes.hangs -= 1
        self._harmed("hangs")
        self.note("it hangs")
        return True

    def leaves_zombies(self) -> bool:
        """Whether workers that are ended go on."""
        if not self.misfortunes.zombies or self.random.random() < 0.3:
            return False
        self.misfortunes.zombies -= 1
        self.counts["zombies"] += 1
        self.note("its workers go on")
        return True

    def repeats(self, what: str) -> bool:
        """Whether something will come a second time."""
        if not self.misfortunes.repeating or self.random.random() >= self.misfortunes.repeating:
            return False
        self.counts["repetitions"] += 1
        self.note(f"comes again, some time: {what}")
        return True

    def _harmed(self, kind: str) -> None:
        self.harm += 1
        self.counts[kind] += 1

    def begin_again(self) -> None:
        """After a death of everything, or an end: a new process is started by somebody."""
        self.is_over = self.is_zombie = False
        self.running = None


class DiskOfWorld(SimulatedDisk):
    """A simulated disk whose processes die, and whose operations fail, when the world says so."""

    def __init__(self, world: SimulatedWorld) -> None:
        super().__init__(world.random)
        self._world = world

    def _step(self, path: str) -> None:
        self._world.step(f"disk: {path}")
        # One step's failure is drawn there, so that the world knows of it.
        if self._world.fails(path):
            self.failures = 1.0
            try:
                super()._step(path)
            finally:
                self.failures = 0.0


class SimulatedSlice(TimeSlice):
    """A slice of time that is over whenever chance has it: in some worlds never, in some before every third element."""

    def __init__(self, world: SimulatedWorld) -> None:
        super().__init__(clock=world.clock)
        self.over = _Whim(world.slices)

    def end(self) -> None:
        """Do nothing: chance ends it."""


class _Whim:
    """True with some probability, each time it is looked at."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._share = random.choice([0.0, 0.01, 0.1, 0.3])

    def __bool__(self) -> bool:
        return self._share > 0 and self._random.random() < self._share

    def clear(self) -> None:
        """A step begins: nothing changes."""
