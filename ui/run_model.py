"""What the events of a run say: the documents of the API (docs/ui.md).

>>> model = RunModel()
>>> model.apply({"kind": "checkpoint", "at": 5, "epoch": 1, "duration": 3, "size": 10, "parts": []})
>>> [entry["epoch"] for entry in model.checkpoints()["checkpoints"]], model.versions["checkpoints"]
([1], 1)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from .bottleneck import bottleneck

# How many entries of each kind are kept.
_CHECKPOINTS, _ERRORS, _TIMELINE, _LOGS, _PROFILES, _DRAWN = 500, 200, 1_000, 2_000, 8, 2_000

# Statuses that rates are computed from: those of the last seconds.
_RATES = 6

# Counters of the elements that were dropped or moved aside.
_SET_ASIDE = {("penstock", "dropped_late"), ("penstock", "dead_letters")}

# Fields of a status that some runs don't measure.
_FIELDS = ("traffic", "hot_keys", "kept", "backlogs", "overdue", "watermarks", "state_size")

_RESOURCES = ("graph", "status", "checkpoints", "errors", "logs", "panes", "profiles", "answers")


class RunModel:
    """A run as its events tell it.

    Args:
      is_live: the run's job feeds it, and takes requests.

    Attributes:
      versions: by resource, a number that grows with each change.
      limits: by document or field of the status, why the run can't show it.
      answers: the answers to requests, by number.
      is_asked_by_files: the run takes requests through its directory.
    """

    def __init__(self, is_live: bool = False) -> None:
        self.is_live = is_live
        self.versions = dict.fromkeys(_RESOURCES, 0)
        self.limits: dict[str, str] = {}
        self.answers: dict[int, dict[str, Any]] = {}
        self.is_asked_by_files = True
        self._run: dict[str, Any] = {"state": "UNKNOWN", "started": None, "pid": None, "host": None}
        self._graph: dict[str, Any] = {"transforms": [], "edges": [], "groups": [], "tasks": [], "parallelism": 1}
        self._statuses: deque[dict[str, Any]] = deque(maxlen=_RATES)
        self._checkpoints: deque[dict[str, Any]] = deque(maxlen=_CHECKPOINTS)
        self._errors: deque[dict[str, Any]] = deque(maxlen=_ERRORS)
        self._timeline: deque[dict[str, Any]] = deque(maxlen=_TIMELINE)
        self._logs: deque[list[Any]] = deque(maxlen=_LOGS)
        self._profiles: dict[int, dict[str, int]] = {}
        self._drawn: tuple[str | None, str | None] = None, None
        self._inputs: deque[dict[str, Any]] = deque(maxlen=_DRAWN)
        self._panes: deque[dict[str, Any]] = deque(maxlen=_DRAWN)
        self._watermarks: deque[tuple[int, int]] = deque(maxlen=_DRAWN)

    # Events

    def apply(self, event: Mapping[str, Any]) -> None:
        """Take in an event.  Unknown kinds are ignored, so that a page shows the log of a later version."""
        take = getattr(self, f"_take_{event['kind']}", None)
        if take is not None:
            take(dict(event))

    def _changed(self, *resources: str) -> None:
        for resource in resources:
            self.versions[resource] += 1

    def _take_graph(self, event: dict[str, Any]) -> None:
        self._graph = event["graph"]
        self._changed("graph")

    def _take_limits(self, event: dict[str, Any]) -> None:
        self.limits = event["limits"]

    def _take_started(self, event: dict[str, Any]) -> None:
        if event.get("graph") is not None:
            self._take_graph(event)
        self._run = {"state": "RUNNING", "started": event["at"], "pid": event.get("pid"), "host": event.get("host")}
        self.is_asked_by_files = event.get("is_asked_by_files", True)
        self._statuses.clear()
        self._timeline.append({"at": event["at"], "kind": "started", "text": "The run started"})
        self._changed("status", "errors")

    def _take_status(self, event: dict[str, Any]) -> None:
        status = event["status"]
        self._statuses.append(status)
        self._run["state"] = status["state"]
        step, _ = self._drawn
        watermark = status["watermarks"].get(step)
        if isinstance(watermark, int):
            self._watermarks.append((status["now"], watermark))
        self._changed("status")

    def _take_checkpoint(self, event: dict[str, Any]) -> None:
        self._checkpoints.append(event)
        self._changed("checkpoints")

    def _take_checkpoint_failed(self, event: dict[str, Any]) -> None:
        self._checkpoints.append(event)
        text = f"Checkpoint {event['epoch']} failed: {event['why']}"
        self._timeline.append({"at": event["at"], "kind": "checkpoint_failed", "text": text})
        self._changed("checkpoints", "errors")

    def _take_restart(self, event: dict[str, Any]) -> None:
        error = event.get("error")
        if error is None:
            text = "The run restarted, as requested"
        else:
            self._errors.append({"at": event["at"], "is_final": False, **error})
            text = f"The run failed, and restarted after {event['delay']:g} s: {error['message']}"
        self._timeline.append({"at": event["at"], "kind": "restart", "text": text})
        self._changed("errors")

    def _take_failed(self, event: dict[str, Any]) -> None:
        error = event["error"]
        self._errors.append({"at": event["at"], "is_final": True, **error})
        self._timeline.append({"at": event["at"], "kind": "failed", "text": f"The run failed: {error['message']}"})
        self._run["state"] = "FAILED"
        self._changed("errors", "status")

    def _take_ended(self, event: dict[str, Any]) -> None:
        self._run["state"] = event["state"]
        self._timeline.append({"at": event["at"], "kind": "ended", "text": f"The run ended: {event['state']}"})
        self._changed("errors", "status")

    def _take_logs(self, event: dict[str, Any]) -> None:
        self._logs.extend(event["lines"])
        self._changed("logs")

    def _take_panes(self, event: dict[str, Any]) -> None:
        if event.get("step") != self._drawn[0]:
            if self.is_live:
                return
            # A recorded run: the last step and key that were drawn.
            self.draw(event.get("step"), None)
        if self.is_live and event.get("key", self._drawn[1]) != self._drawn[1]:
            # Of a micro-batch that began before the key was chosen.
            return
        self._inputs.extend(event["inputs"])
        self._panes.extend(event["panes"])
        for pane in event["panes"]:
            if pane["watermark"] is not None:
                self._watermarks.append((pane["at"], pane["watermark"]))
        self._changed("panes")

    def _take_profile(self, event: dict[str, Any]) -> None:
        stacks = self._profiles.setdefault(event["number"], {})
        # On Spark it is the name of a subtask or of a stage.
        worker = event["worker"] if isinstance(event["worker"], str) else f"worker {event['worker']}"
        for stack, count in event["stacks"].items():
            stacks[f"{worker}\n{stack}"] = count
        for old in sorted(self._profiles)[:-_PROFILES]:
            del self._profiles[old]
        self._changed("profiles")

    def _take_answer(self, event: dict[str, Any]) -> None:
        self.answers[event["number"]] = {name: event[name] for name in ("is_done", "text", "epoch")}
        self._changed("answers")

    def lost(self) -> None:
        """Note that the job is gone without an end."""
        if self._run["state"] == "RUNNING":
            self._run["state"] = "UNKNOWN"
            self._changed("status")

    # Documents

    def run(self) -> dict[str, Any]:
        """Return the run: its state, process, and whether it takes requests."""
        last = self._statuses[-1] if self._statuses else {}
        return {
            **self._run,
            "is_live": self.is_live,
            "now": last.get("now"),
            "restarts": last.get("restarts"),
            "epoch": last.get("epoch"),
            "backlog": last.get("backlog"),
            "parallelism": self._graph["parallelism"],
            "versions": dict(self.versions),
        }

    def graph(self) -> dict[str, Any]:
        """Return the graph."""
        return self._graph

    def status(self) -> dict[str, Any]:
        """Return the last status, with rates per second over the last seconds, and the bottleneck."""
        if not self._statuses:
            return {"state": self._run["state"]}
        first, last = self._statuses[0], self._statuses[-1]
        passed = max((last["now"] - first["now"]) / 1e6, 1e-9)

        def rates(name: str) -> dict[str, float]:
            before = first.get(name, {})
            # A restart resets the counts to those of the checkpoint.
            return {
                label: round(max(0.0, value - before.get(label, 0)) / passed, 4)
                for label, value in last.get(name, {}).items()
            }

        status: dict[str, Any] = dict(last)
        for name in ("read", "written", "seconds"):
            status[f"{name}_rates"] = rates(name) if len(self._statuses) > 1 else {}
        status["traffic_rates"] = self._traffic_rates("traffic")
        status["shuffle_rates"] = self._traffic_rates("shuffles")
        status["state_size"] = self._state_size()
        status["unmeasured"] = {name: why for name, why in self.limits.items() if name in _FIELDS}
        status["state"] = self._run["state"]
        status["bottleneck"] = bottleneck(self._graph, status)
        return status

    def _state_size(self) -> dict[int, int]:
        """Return the bytes of each task's state in the newest checkpoint."""
        sizes: dict[int, int] = {}
        last = next((each for each in reversed(self._checkpoints) if each["kind"] == "checkpoint"), None)
        for part in [] if last is None else last.get("parts", ()):
            if part["size"] is not None:
                sizes[part["task"]] = sizes.get(part["task"], 0) + part["size"]
        return sizes

    def _traffic_rates(self, name: str) -> dict[str, list[float]]:
        """Return elements and bytes per second by PCollection or step; the counts begin when the page is opened."""
        known = [each for each in self._statuses if each.get(name)]
        if len(known) < 2:
            return {}
        first, last = known[0], known[-1]
        passed = max((last["now"] - first["now"]) / 1e6, 1e-9)
        return {
            edge: [
                round(max(0, now - before) / passed, 2)
                for now, before in zip(sums, first[name].get(edge, (0, 0)), strict=True)
            ]
            for edge, sums in last[name].items()
        }

    def checkpoints(self) -> dict[str, Any]:
        """Return the history of checkpoints, oldest first."""
        return {"checkpoints": list(self._checkpoints)}

    def errors(self) -> dict[str, Any]:
        """Return the errors, oldest first, the timeline of starts and ends, and what was dropped or moved aside."""
        metrics = self._statuses[-1].get("metrics", []) if self._statuses else []
        counted = [each for each in metrics if (each["namespace"], each["name"]) in _SET_ASIDE]
        return {"errors": list(self._errors), "timeline": list(self._timeline), "set_aside": counted}

    def logs(self) -> dict[str, Any]:
        """Return the tail of the logs: process, microseconds since 1970, level and text of each line."""
        return {"lines": list(self._logs)}

    def draw(self, step: str | None, key: str | None) -> bool:
        """Choose the step and key whose panes are drawn.  Returns whether the choice has changed."""
        if (step, key) == self._drawn:
            return False
        self._drawn = step, key
        for own in (self._inputs, self._panes, self._watermarks):
            own.clear()
        self._changed("panes")
        return True

    @property
    def drawn(self) -> tuple[str | None, str | None]:
        """The step and key whose panes are drawn; None for none, and for all keys."""
        return self._drawn

    def panes(self) -> dict[str, Any]:
        """Return the inputs, panes and watermarks of the step and key that are drawn."""
        step, key = self._drawn
        steps = [t["label"] for t in self._graph["transforms"] if t["kind"] == "GroupByKeyAndWindow"]
        hot = self._statuses[-1].get("hot_keys", {}) if self._statuses else {}
        return {
            "why": self.limits.get("panes", ""),
            "steps": steps,
            "keys": [key for key, _ in hot.get(step, {}).get("keys", [])],
            "step": step,
            "key": key,
            "now": self._statuses[-1]["now"] if self._statuses else None,
            "inputs": list(self._inputs),
            "panes": list(self._panes),
            "watermarks": sorted(self._watermarks),
        }

    def profiles(self) -> dict[str, Any]:
        """Return the profiles: how often each stack was seen, its frames joined by line ends."""
        why = self.limits.get("profiles", "")
        return {
            "why": why,
            "profiles": [{"number": number, "stacks": own} for number, own in sorted(self._profiles.items())],
        }
