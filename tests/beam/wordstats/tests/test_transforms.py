import unittest

import apache_beam as beam
import pytest
from apache_beam.testing.test_pipeline import TestPipeline
from apache_beam.testing.test_stream import TestStream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import TimestampedValue
from wordstats.transforms import CountWords, ExtractWords, MeanLength, WordStat, windowed_counts


def test_words_and_empty_lines(lines):
    with TestPipeline() as p:
        outputs = p | lines | beam.ParDo(ExtractWords()).with_outputs(ExtractWords.EMPTY, main="words")
        assert_that(outputs.words, equal_to(["to", "be", "or", "not", "to", "be"]))
        assert_that(outputs.empty, equal_to([""]), label="empty")


def test_stop_words_as_a_side_input():
    with TestPipeline() as p:
        stop = beam.pvalue.AsList(p | "stop" >> beam.Create(["to", "be"]))
        assert_that(p | beam.Create(["To be, or not"]) | beam.ParDo(ExtractWords(), stop), equal_to(["or", "not"]))


class CombineTest(unittest.TestCase):
    def test_mean_length(self):
        with TestPipeline() as p:
            mean = p | beam.Create(["ab", "abcd"]) | beam.CombineGlobally(MeanLength())
            assert_that(mean, equal_to([3.0]))

    def test_a_wrong_expectation_fails(self):
        with self.assertRaises(Exception), TestPipeline() as p:
            assert_that(p | beam.Create(["a"]) | CountWords(), equal_to([]))


def test_late_words_are_counted_again():
    stream = (
        TestStream()
        .add_elements([TimestampedValue("a", 1), TimestampedValue("a", 2)])
        .advance_watermark_to(10)
        .add_elements([TimestampedValue("a", 3)])
        .advance_watermark_to_infinity()
    )
    with TestPipeline() as p:
        assert_that(p | stream | windowed_counts(10, lateness=100), equal_to([WordStat("a", 2), WordStat("a", 3)]))


@pytest.mark.parametrize("wrong", [1, None])
def test_a_wrong_type_is_refused(wrong):
    with pytest.raises(Exception, match="CountWords"), TestPipeline() as p:
        _ = p | beam.Create([wrong]).with_output_types(int) | CountWords()


def length_of(word):
    return len(word)


def test_a_process_of_its_own_imports_the_module():
    with TestPipeline() as p:
        good, _ = p | beam.Create(["abc"]) | beam.Map(length_of).with_exception_handling(use_subprocess=True)
        assert_that(good, equal_to([3]))
