"""The plan cut into segments."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runners.spark.in_this_process import run_in_this_process
from sinks_in_memory import MemorySink

import penstock as beam
from penstock.pvalue import AsList
from penstock.runners.execution.fusion import Stage, fuse
from penstock.runners.spark.batch_runner import folds_before_the_shuffle
from penstock.runners.spark.segments import Segment, Stored, cut
from penstock.transforms.write import Write
