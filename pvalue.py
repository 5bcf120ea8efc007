"""PCollections, other inputs and outputs of transforms, side inputs, and rows: the names of Beam's `pvalue`.

Type checkers read this module.  At run time `sdk/names/namespaces.py` has the names, and Beam's other ones.
"""

from typing import TYPE_CHECKING, Any

from .sdk.elements.element_wrappers import TaggedOutput as TaggedOutput
from .sdk.elements.row import Row as Row
from .sdk.pvalue import DoOutputsTuple as DoOutputsTuple
from .sdk.pvalue import PBegin as PBegin
from .sdk.pvalue import PCollection as PCollection
from .sdk.pvalue import PDone as PDone
from .sdk.pvalue import PValue as PValue
from .sdk.side_inputs import AsDict as AsDict
from .sdk.side_inputs import AsIter as AsIter
from .sdk.side_inputs import AsList as AsList
from .sdk.side_inputs import AsMultiMap as AsMultiMap
from .sdk.side_inputs import AsSideInput as AsSideInput
from .sdk.side_inputs import AsSingleton as AsSingleton
from .sdk.side_inputs import EmptySideInput as EmptySideInput

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
