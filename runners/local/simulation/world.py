"""World of a simulation: clocks, random choices, faults, and a trace of the run.

Everything non-deterministic in a run is drawn from one `random.Random`: the same seed gives the same run, step by step.

>>> world = SimulatedWorld(7, Faults())
>>> world.step("something happens"); world.trace
['0.000000 job: something happens']
"""

from __future__ import annotations

from collections import Counter
from random import Random

import attrs

from ...execution.checkpoints.simulated_storage import SimulatedCrash, SimulatedDisk
from ...execution.clock import Pace, StepClock

# Microseconds after which a run is taken to have no end: most last for less than a second.
_LONGEST = 600_000_000


class EndlessSimulation(BaseException):
    """A run has no end.  Not an `Exception`, so that no recovery hides it."""


@attrs.define
class Faults:
    """Faults that a run may have; the numbers are limits, so that a run is finite.

    Attributes:
      deaths: deaths of a worker, or of all processes at once.
      failures: failing operations of the disk and of sinks.
      failing: the probability that an operation fails, below that limit.
      hangs: workers that do nothing for a while, or for ever.
      zombies: times that workers go on after their job has ended, or has given them up.
      repeating: the probability that a message with a number is delivered again later.
      stopped: starts during which the job may be stopped, with or without a savepoint.
      clock_settings: times that the wall clock is set, back or forward.
    """

    deaths: int = 0
    failures: int = 0
    failing: float = 0.0
    hangs: int = 0
    zombies: int = 0
    repeating: float = 0.0
    stopped: int = 5
    clock_settings: int = 0

    @staticmethod
    def drawn(random: Random) -> Faults:
        """Draw limits: none for some runs, a few independent faults for others, or many."""
        deaths = random.choice([0, 1, 2, 2, 4, 8])
        failures = random.choice([0, 0, 1, 3, 6])
        failing = random.choice([0.01, 0.05, 0.2])
        hangs, zombies = random.choice([0, 0, 1, 3]), random.choice([0, 2, 8])
        return Faults(deaths, failures, failing, hangs, zombies, random.choice([0.0, 0.02, 0.2]))


class SimulatedWorld:
    """Clocks, random choices and faults of a run.

    Args:
      limit: steps after which a run is taken to have no end.

    Attributes:
      now: microseconds, by the monotonic clock.
      running: the number of the worker whose turn it is; None for the job's process.
      is_zombie: true while it is the turn of a zombie.
      is_over: true after the job's process has died, and with it all others.
      harm: the number of faults that a run may fail because of.
      counts: the number of faults by kind.
      sizes: draws the sizes of bundles, and what one step does.
      trace: the events of the run, line by line.
    """

    def __init__(self, seed: int, faults: Faults | None = None, limit: int = 300_000) -> None:
        self.random = Random(seed)
        # Separate, since the number of draws depends on the number of elements.
        self.sizes = Random(f"sizes of {seed}")
        self.now = 0
        self.running: int | None = None
        self.is_zombie = False
        self.is_over = False
        self.harm = 0
        self.counts: Counter[str] = Counter()
        self.steps = 0
        self.trace: list[str] = []
        # Separate, so that the other faults of a seed don't depend on the clock's.
        self._chance_of_clock = Random(f"the wall clock of {seed}")
        self._wall = 0
        if faults is None:
            faults = Faults.drawn(self.random)
            faults.clock_settings = self._chance_of_clock.choice([0, 0, 1, 3])
        self.faults = faults
        self._limit = limit
        self._until_death = self._quiet = 0
        self._draw_death()

    def _draw_death(self) -> None:
        """Draw the number of steps until the next death: often few, so that recovery is hit too.

        At times it doesn't come before some work has been done: a start takes so many steps that most faults would
        happen there.
        """
        longest = self.random.choice([30, 300, 3000])
        self._until_death = self.random.randint(1, longest)
        self._draw_quiet()

    def _draw_quiet(self) -> None:
        """Draw for how many steps of subtasks there is no fault."""
        if self.faults.deaths or self.faults.failures:
            self._quiet = self.random.choice([0, 0, 0, 10, 40])

    def worked(self) -> None:
        """Count a step of a subtask."""
        self._quiet = max(0, self._quiet - 1)

    def clock(self) -> int:
        """Return microseconds, by the monotonic clock."""
        return self.now

    def wall(self) -> int:
        """Return microseconds, by the wall clock."""
        return self.now + self._wall

    def sleep(self, seconds: float) -> None:
        """Advance time."""
        self.now += round(seconds * 1_000_000)

    def token(self) -> str:
        """Return a unique string of hexadecimal digits."""
        return f"{self.random.getrandbits(64):016x}"

    def note(self, what: str) -> None:
        """Add a line to the trace."""
        process = "job" if self.running is None else f"{'zombie' if self.is_zombie else 'worker'} {self.running}"
        self.trace.append(f"{self.now / 1_000_000:.6f} {process}: {what}")

    def step(self, what: str) -> None:
        """Note a step that is about to be taken.  Raises `SimulatedCrash` if its process dies before."""
        if self.is_over:
            raise SimulatedCrash(what)
        self.steps += 1
        if self.steps > self._limit or self.now > _LONGEST:
            raise EndlessSimulation(f"the run has not ended after {self.steps} steps and {self.now / 1_000_000:.0f} s")
        self._may_set_clock()
        if self.is_zombie:
            # A zombie ends after a number of steps.
            self.note(what)
            return
        if not self._quiet:
            self._until_death -= 1
            if self._until_death <= 0 and self.faults.deaths:
                self._die(what)
        self.note(what)

    def _may_set_clock(self) -> None:
        chance = self._chance_of_clock
        if not self.faults.clock_settings or chance.random() >= 0.003:
            return
        self.faults.clock_settings -= 1
        self.counts["settings of the wall clock"] += 1
        by = chance.choice([-3600, -1, 1, 3600])
        self._wall += by * 1_000_000
        self.note(f"the wall clock is set by {by} s")

    def _die(self, what: str) -> None:
        self.faults.deaths -= 1
        self._harmed("deaths")
        self._draw_death()
        if self.running is None or self.random.random() < 0.4:
            self.is_over = True
            self.note(f"all processes die before: {what}")
        else:
            self.note(f"dies before: {what}")
        raise SimulatedCrash(what)

    def fails(self, what: str) -> bool:
        """Return True if the current operation fails."""
        faults = self.faults
        if self._quiet or not faults.failures or self.random.random() >= faults.failing:
            return False
        faults.failures -= 1
        self._harmed("failures")
        self._draw_quiet()
        self.note(f"fails: {what}")
        return True

    def hangs(self) -> bool:
        """Return True if the worker whose turn it was hangs from now on, for a while or for ever."""
        faults = self.faults
        if self.is_zombie or not faults.hangs or self.random.random() >= 0.01:
            return False
        faults.hangs -= 1
        self._harmed("hangs")
        self.note("hangs")
        return True

    def leaves_zombies(self) -> bool:
        """Return True if workers that are ended go on as zombies."""
        if not self.faults.zombies or self.random.random() < 0.3:
            return False
        self.faults.zombies -= 1
        self.counts["zombies"] += 1
        self.note("its workers go on")
        return True

    def repeats(self, what: str) -> bool:
        """Return True if a message will be delivered a second time."""
        if not self.faults.repeating or self.random.random() >= self.faults.repeating:
            return False
        self.counts["repetitions"] += 1
        self.note(f"will be delivered again: {what}")
        return True

    def _harmed(self, kind: str) -> None:
        self.harm += 1
        self.counts[kind] += 1

    def begin_again(self) -> None:
        """Start a new process, after the job's has ended or died."""
        self.is_over = self.is_zombie = False
        self.running = None


class DiskOfWorld(SimulatedDisk):
    """Simulated disk with the faults of a world."""

    def __init__(self, world: SimulatedWorld) -> None:
        super().__init__(world.random)
        self._world = world

    def _step(self, path: str) -> None:
        self._world.step(f"disk: {path}")
        # The world draws the failure, and counts it.
        if self._world.fails(path):
            self.failures = 1.0
            try:
                super()._step(path)
            finally:
                self.failures = 0.0


class SimulatedSteps(StepClock):
    """Steps that take their time at random: in some worlds bundles are never cut, in others nearly always."""

    is_simulated = True

    def __init__(self, world: SimulatedWorld) -> None:
        super().__init__(clock=world.clock)
        self._random = world.sizes
        self._share = world.sizes.choice([0.0, 0.1, 0.3, 0.6])

    def must_yield(self) -> bool:
        """Return True with some probability."""
        return self._share > 0 and self._random.random() < self._share

    def pace(self, most: int, first: int = 0) -> Pace:
        """Return a pace with sizes at random."""
        return _RandomPace(most, self._random, self._share)


class _RandomPace(Pace):
    """Pace of which each size is drawn."""

    __slots__ = ("_random", "_share")

    def __init__(self, most: int, random: Random, share: float) -> None:
        super().__init__(most, most)
        self._random = random
        self._share = share
        self._draw()

    def _draw(self) -> None:
        is_cut = self._share > 0 and self._random.random() < self._share
        self.count = self._random.choice([1, 2, 3, 10]) if is_cut else self._most

    def took(self, elements: int, micros: int) -> None:
        """Draw the next size, however long this one took."""
        self._draw()
