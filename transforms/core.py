"""Transforms and DoFns: the names of Beam's `transforms.core`.

Type checkers read this module.  At run time `sdk/names/namespaces.py` has the names, and Beam's other ones.
"""

from typing import TYPE_CHECKING, Any

from ..sdk.combine_fn import *  # noqa: F403
from ..sdk.dofn.dofn import *  # noqa: F403
from ..sdk.dofn.splittable_dofn import *  # noqa: F403
from . import CombineGlobally as CombineGlobally
from . import CombinePerKey as CombinePerKey
from . import CombineValues as CombineValues
from . import Create as Create
from . import Filter as Filter
from . import FlatMap as FlatMap
from . import FlatMapTuple as FlatMapTuple
from . import Flatten as Flatten
from . import GroupBy as GroupBy
from . import GroupByKey as GroupByKey
from . import Impulse as Impulse
from . import Map as Map
from . import MapTuple as MapTuple
from . import ParDo as ParDo
from . import Partition as Partition
from . import Reshuffle as Reshuffle
from . import Select as Select
from . import WindowInto as WindowInto

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
