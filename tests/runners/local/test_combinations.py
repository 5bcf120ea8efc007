"""What a job may combine: the table refuses what the runner refuses, and everything else is built."""

from __future__ import annotations

import pathlib
from itertools import product
from typing import Any

import pytest

import penstock as beam
from penstock.runners.local.combinations import REFUSALS, Combination, refusal_of
from penstock.runners.local.launch import job_of
from penstock.sdk.errors import OptionsError
from penstock.sdk.options import PipelineOptions, StreamingOptions

# An example of each refusal, in the order of the table.
REFUSED: list[dict[str, Any]] = [
    {"checkpoint_mode": "unaligned", "loop": "Loop"},
    {"checkpoint_mode": "unaligned", "delivery": "strong"},
    {"alignment_timeout": 2.0, "checkpoint_mode": "unaligned"},
    {"alignment_timeout": 2.0, "delivery": "weak"},
    {"alignment_timeout": 2.0, "recovery": "region"},
    {"alignment_timeout": 2.0, "loop": "Loop"},
    {"recovery": "region", "parallelism": 1},
    {"recovery": "region", "delivery": "weak"},
    {"recovery": "region", "checkpoint_mode": "unaligned"},
    {"recovery": "region", "is_bounded": True},
    {"recovery": "region", "loop": "Loop"},
    {"state_backend": "rocksdb", "delivery": "strong"},
    {"allow_dropped_state": True, "delivery": "strong"},
    {"checkpoint_dir": "memory://logs", "delivery": "strong"},
]


@pytest.mark.parametrize(("refusal", "values"), list(zip(REFUSALS, REFUSED, strict=True)))
def test_each_refusal_names_the_option_and_what_it_does_not_go_with(refusal: Any, values: dict[str, Any]) -> None:
    """With the values that were given."""
    combination = Combination(**values)

    assert refusal.applies(combination)
    assert not refusal.applies(Combination())
    text = refusal.of(combination)
    assert text.startswith(f"option --{refusal.option.partition('=')[0]}")
    assert f" {refusal.why}; {refusal.instead}" in text
    assert "{" not in text


FLAGS = [
    ["--delivery=barriers", "--delivery=strong", "--delivery=weak"],
    ["--recovery=graph", "--recovery=region"],
    ["--checkpoint_mode=aligned", "--checkpoint_mode=unaligned"],
    ["--parallelism=1", "--parallelism=2"],
    ["--start_method=forkserver", "--start_method=spawn"],
    ["--state_backend=memory", "--state_backend=rocksdb"],
]


@pytest.mark.parametrize("has_loop", [False, True], ids=["without a loop", "with a loop"])
def test_every_combination_is_refused_by_the_table_or_built(has_loop: bool, tmp_path: pathlib.Path) -> None:
    """Nothing else refuses any."""
    built = refused = 0
    for number, flags in enumerate(product(*FLAGS)):
        p = beam.Pipeline(options=PipelineOptions([*flags, f"--checkpoint_dir={tmp_path}/{number}"]))
        read = p | beam.io.GenerateSequence(0, None, 10, 1)
        _ = read | beam.Feedback(beam.Map(abs), until=bool) if has_loop else read
        graph = p.graph()
        why = refusal_of(Combination.of(graph, p.options.view_as(StreamingOptions)))
        if why is None:
            job_of(graph, p.options)
            built += 1
        else:
            with pytest.raises(OptionsError) as raised:
                job_of(graph, p.options)
            assert why == str(raised.value)
            refused += 1

    assert ((16, 80) if has_loop else (28, 68)) == (built, refused)
