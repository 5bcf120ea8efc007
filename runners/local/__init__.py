"""The local runner.

runner.py      LocalStreamingRunner: what `--runner=local` starts
execution.py   one run: sources read, bundles pushed, sinks committed
"""

from .runner import LocalStreamingRunner

__all__ = ["LocalStreamingRunner"]
