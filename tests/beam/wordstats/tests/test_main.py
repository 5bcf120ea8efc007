from unittest import mock

import apache_beam as beam
import pytest
from wordstats import main


def test_counts_are_written(tmp_path):
    (tmp_path / "in.txt").write_text("the cat and the hat\nthe cat\n")
    result = main.run(
        ["--input", str(tmp_path / "in.txt"), f"--output={tmp_path / 'out'}", "--least=2", "--runner=DirectRunner"]
    )
    assert (tmp_path / "out-00000-of-00001").read_text() == "cat: 2\n"
    assert result.state == beam.runners.runner.PipelineState.DONE


def test_the_table_is_written_by_the_service(tmp_path):
    (tmp_path / "in.txt").write_text("cat\n")
    rows = []
    with mock.patch("wordstats.main.write_to_table", return_value=beam.Map(rows.append)) as write:
        main.run(["--input", str(tmp_path / "in.txt"), "--table=t", "--project=p", "--temp_location=gs://x"])
    write.assert_called_once_with("t")


def test_required_arguments():
    with pytest.raises(SystemExit):
        main.run([])
