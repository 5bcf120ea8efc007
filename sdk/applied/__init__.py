"""Transforms that are applied.

applied_transform.py  AppliedPTransform: a transform in its place, and visitors
declared_types.py     declared types of inputs and outputs, which are checked
retractions.py        which outputs may be retracted, and for how long
display_settings.py   settings of transforms as texts, for drawings
"""

from .applied_transform import AppliedPTransform as AppliedPTransform
from .applied_transform import PipelineVisitor as PipelineVisitor
from .applied_transform import settings_in as settings_in
from .applied_transform import values_in as values_in
from .applied_transform import visit as visit
