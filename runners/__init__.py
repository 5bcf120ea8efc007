"""What runs a graph.

interface.py the interface for runners of other packages
execution/   what every runner shares: stages, the window operator, side inputs
local/       in this process
spark/       on Spark
"""

from importlib import import_module
from typing import Any

from ..persistence import lazily_stored

# By name, also Beam's: they are imported when they are first asked for.
_RUNNERS = dict.fromkeys(
    [
        "BundleBasedDirectRunner",
        "DirectRunner",
        "FnApiRunner",
        "InteractiveRunner",
        "LocalStreamingRunner",
        "PrismRunner",
        "SwitchingDirectRunner",
        "TestDirectRunner",
    ],
    ("local", "LocalStreamingRunner"),
)
_RUNNERS["SparkBatchRunner"] = ("spark", "SparkBatchRunner")


# By tag, the modules with stored types that `import penstock` doesn't import.
lazily_stored(
    __name__,
    {
        "side-input-change": "execution.stages.side_inputs",
        "state-change": "execution.state.keyed_state",
        "split-partition": "execution.streaming.sources",
        "multiset": "execution.windows.retractions",
        "not-a-number": "execution.windows.retractions",
        "signed-inputs": "execution.windows.retractions",
        "signed-windows": "execution.windows.retractions",
        "frame-stream-position": "spark.micro_batch.structured_streaming",
    },
)


def __getattr__(name: str) -> Any:
    if name not in _RUNNERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _RUNNERS[name]
    return getattr(import_module(f"{__name__}.{module}"), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *_RUNNERS})
