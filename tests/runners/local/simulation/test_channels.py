"""Channels of simulated workers: those of zombies aren't those of their successors."""

from __future__ import annotations

import penstock as beam
from penstock.runners.execution.plan.execution_graph import cut
from penstock.runners.execution.plan.fusion import fuse
from penstock.runners.local.channels.channel import ChannelId
from penstock.runners.local.simulation.workers import SimulatedWorkers
from penstock.runners.local.simulation.world import Faults, SimulatedWorld
from penstock.runners.local.workers.slot import Start


def test_a_zombie_that_obeys_late_takes_no_message_of_its_successor() -> None:
    """It asked for the channels of a restart when another attempt had its own, and took what was sent on those."""
    p = beam.Pipeline()
    _ = p | beam.Create([(1, 1)]) | beam.CombinePerKey(sum)
    graph = cut(fuse(p.graph()), 2)
    workers = SimulatedWorkers(2, SimulatedWorld(1, Faults()))
    id = ChannelId(graph.tasks[1].inputs[0].id, 0, 1)
    workers.start(graph, Start(None, None, "", "first"))
    zombie = workers._slots[1]
    own = workers._channel(zombie, id)
    workers.start(graph, Start(None, None, "", "second"))
    successors = workers._channel(workers._slots[1], id)
    actors = len(workers._actors)

    assert own is workers._channel(zombie, id)
    zombie.wires.pipes.pop(id)
    later = workers._channel(zombie, id)
    assert not any(each is successors for each in (own, later))
    assert actors == len(workers._actors)
