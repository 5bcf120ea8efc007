"""Transforms at the root of `apache_beam`."""

import apache_beam as beam
from refusals import refused


def create() -> None:
    with beam.Pipeline() as p:
        p | beam.Create([3, 1, 2]) | beam.Map(print)


def create_from_a_dict() -> None:
    with beam.Pipeline() as p:
        p | beam.Create({"a": 1, "b": 2}) | beam.Map(print)


def create_of_nothing() -> None:
    with beam.Pipeline() as p:
        p | beam.Create([]) | beam.combiners.Count.Globally() | beam.Map(print)


def create_without_reshuffle() -> None:
    with beam.Pipeline() as p:
        p | beam.Create([1, None, "a"], reshuffle=False) | beam.Map(print)


def create_refuses_a_string() -> None:
    with refused(TypeError):
        beam.Create("abc")


def create_refuses_a_number() -> None:
    with refused(TypeError):
        beam.Create(3)


def map_with_arguments() -> None:
    with beam.Pipeline() as p:
        p | beam.Create([1, 2]) | beam.Map(lambda x, y, z=0: x * y + z, 10, z=5) | beam.Map(print)


def map_of_a_builtin() -> None:
    with beam.Pipeline() as p:
        p | beam.Create(["a", "bcd"]) | beam.Map(len) | beam.Map(print)


def map_of_a_method() -> None:
    with beam.Pipeline() as p:
        p | beam.Create(["a", "bcd"]) | beam.Map(str.upper) | beam.Map(print)


def map_of_none() -> None:
    with refused(TypeError):
        beam.Map(None)


def flat_map() -> None:
    with beam.Pipeline() as p:
        p | beam.Create(["a b", "c"]) | beam.FlatMap(str.split) | beam.Map(print)


def flat_map_without_a_function() -> None:
    with beam.Pipeline() as p:
        p | beam.Create([[1, 2], [], [3]]) | beam.FlatMap() | beam.Map(print)


def flat_map_of_none() -> None:
    with beam.Pipeline() as p:
        p | beam.Create([1, 2]) | beam.FlatMap(lambda x: [x] if x > 1 else None) | beam.Map(print)


def flat_map_of_a_generator() -> None:
    def repeated(element, times):
        for _ in range(times):
            yield element

    with beam.Pipeline() as p:
        p | beam.Create(["a", "b"]) | beam.FlatMap(repeated, times=2) | beam.Map(print)


def map_tuple() -> None:
    with beam.Pipeline() as p:
        p | beam.Create([("a", 1), ("b", 2)]) | beam.MapTuple(lambda k, v: k * v) | beam.Map(print)


def map_tuple_with_arguments() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create([("a", 1)])
            | beam.MapTuple(lambda k, v, s="", t="": f"{k}{s}{v}{t}", "=", t=";")
            | beam.Map(print)
        )


def flat_map_tuple() -> None:
    with beam.Pipeline() as p:
        p | beam.Create([("a", 1), ("b", 2)]) | beam.FlatMapTuple(lambda k, v: [k] * v) | beam.Map(print)


def filtered() -> None:
    with beam.Pipeline() as p:
        p | beam.Create(range(6)) | beam.Filter(lambda x, n: x % n == 0, 2) | beam.Map(print)


def filter_by_truth() -> None:
    with beam.Pipeline() as p:
        p | beam.Create([0, 1, "", "a", None]) | beam.Filter(bool) | beam.Map(print)


def keys_values_and_swapped() -> None:
    with beam.Pipeline() as p:
        pairs = p | beam.Create([("a", 1), ("b", 2)])
        pairs | beam.Keys() | "print keys" >> beam.Map(print)
        pairs | beam.Values() | "print values" >> beam.Map(print)
        pairs | beam.KvSwap() | "print swapped" >> beam.Map(print)


def with_keys() -> None:
    with beam.Pipeline() as p:
        words = p | beam.Create(["a", "bcd"])
        words | beam.WithKeys(len) | "print lengths" >> beam.Map(print)
        words | "one key" >> beam.WithKeys("k") | "print one key" >> beam.Map(print)


def group_by_key() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create([("a", 1), ("b", 2), ("a", 3)])
            | beam.GroupByKey()
            | beam.MapTuple(lambda k, vs: (k, sorted(vs)))
            | beam.Map(print)
        )


def group_by_key_of_tuples_as_keys() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create([((1, "a"), 1), ((1, "b"), 2), ((1, "a"), 3)])
            | beam.GroupByKey()
            | beam.MapTuple(lambda k, vs: (k, sorted(vs)))
            | beam.Map(print)
        )


def group_by_key_of_none_as_key() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create([(None, 1), (None, 2)])
            | beam.GroupByKey()
            | beam.MapTuple(lambda k, vs: (k, sorted(vs)))
            | beam.Map(print)
        )


def group_by_key_of_no_pairs() -> None:
    with refused(Exception), beam.Pipeline() as p:
        p | beam.Create([1, 2]) | beam.GroupByKey() | beam.Map(print)


def co_group_by_key() -> None:
    with beam.Pipeline() as p:
        ages = p | "ages" >> beam.Create([("ann", 30), ("bob", 40)])
        towns = p | "towns" >> beam.Create([("ann", "Rome"), ("cid", "Oslo")])
        (
            {"ages": ages, "towns": towns}
            | beam.CoGroupByKey()
            | beam.MapTuple(lambda k, v: (k, {tag: sorted(found) for tag, found in v.items()}))
            | beam.Map(print)
        )


def co_group_by_key_of_a_tuple() -> None:
    with beam.Pipeline() as p:
        left = p | "left" >> beam.Create([("a", 1), ("b", 2)])
        right = p | "right" >> beam.Create([("a", 3)])
        (
            (left, right)
            | beam.CoGroupByKey()
            | beam.MapTuple(lambda k, v: (k, type(v).__name__, [list(found) for found in v]))
            | beam.Map(print)
        )


def flatten() -> None:
    with beam.Pipeline() as p:
        (p | "a" >> beam.Create([1, 2]), p | "b" >> beam.Create([2, 3])) | beam.Flatten() | beam.Map(print)


def flatten_of_nothing() -> None:
    with beam.Pipeline() as p:
        () | beam.Flatten(pipeline=p) | beam.combiners.Count.Globally() | beam.Map(print)


def flatten_with() -> None:
    with beam.Pipeline() as p:
        other = p | "other" >> beam.Create([3])
        p | beam.Create([1]) | beam.FlattenWith(other, beam.Create([5])) | beam.Map(print)


def partition() -> None:
    with beam.Pipeline() as p:
        parts = p | beam.Create(range(7)) | beam.Partition(lambda x, n: x % n, 3)
        for index, part in enumerate(parts):
            part | f"tag {index}" >> beam.Map(lambda x, i=index: (i, x)) | f"print {index}" >> beam.Map(print)


def partition_out_of_range() -> None:
    with refused(ValueError), beam.Pipeline() as p:
        p | beam.Create([1]) | beam.Partition(lambda x, n: 5, 2)


def distinct() -> None:
    with beam.Pipeline() as p:
        p | beam.Create([1, 2, 1, 3, 2]) | beam.Distinct() | beam.Map(print)


def reshuffle() -> None:
    with beam.Pipeline() as p:
        p | beam.Create([1, 2, 3]) | beam.Reshuffle() | beam.Map(print)


def impulse() -> None:
    with beam.Pipeline() as p:
        p | beam.Impulse() | beam.Map(print)


def tee() -> None:
    with beam.Pipeline() as p:
        (
            p
            | beam.Create([1, 2])
            | beam.Tee(lambda pcoll: pcoll | "print twice" >> beam.Map(lambda x: print("tee", x)))
            | beam.Map(print)
        )


def wait_on() -> None:
    with beam.Pipeline() as p:
        first = p | "first" >> beam.Create([1]) | beam.Map(lambda x: x)
        p | "second" >> beam.Create([2, 3]) | beam.WaitOn(first) | beam.Map(print)


def to_string() -> None:
    with beam.Pipeline() as p:
        pairs = p | beam.Create([("a", 1), ("b", 2)])
        pairs | "kvs" >> beam.ToString.Kvs() | "print kvs" >> beam.Map(print)
        pairs | "iterables" >> beam.ToString.Iterables(delimiter=";") | "print iterables" >> beam.Map(print)
        pairs | "elements" >> beam.ToString.Element() | "print elements" >> beam.Map(print)


def regex() -> None:
    with beam.Pipeline() as p:
        words = p | beam.Create(["abc", "a1b22", "xyz=7", "no"])
        words | beam.Regex.matches(r"[a-c]+") | "1" >> beam.Map(lambda x: print("matches", x))
        words | beam.Regex.find(r"\d+") | "2" >> beam.Map(lambda x: print("find", x))
        words | beam.Regex.find_all(r"\d+") | "3" >> beam.Map(lambda x: print("find_all", x))
        words | beam.Regex.matches_kv(r"(\w+)=(\d)", 1, 2) | "4" >> beam.Map(lambda x: print("matches_kv", x))
        words | beam.Regex.find_kv(r"([a-z])(\d+)", 1, 2) | "5" >> beam.Map(lambda x: print("find_kv", x))
        words | beam.Regex.replace_all(r"\d", "_") | "6" >> beam.Map(lambda x: print("replace_all", x))
        words | beam.Regex.replace_first(r"\d", "_") | "7" >> beam.Map(lambda x: print("replace_first", x))
        words | beam.Regex.split(r"\d") | "8" >> beam.Map(lambda x: print("split", x))
        words | beam.Regex.all_matches(r"(a)(.*)") | "9" >> beam.Map(lambda x: print("all_matches", x))


def regex_with_empty_strings() -> None:
    with beam.Pipeline() as p:
        words = p | beam.Create(["a1b22c", "11"])
        words | beam.Regex.split(r"\d", outputEmpty=True) | "1" >> beam.Map(lambda x: print("split", x))
        words | beam.Regex.find_all(r"\d*", outputEmpty=False) | "2" >> beam.Map(lambda x: print("find_all", x))
        (
            words
            | "all groups" >> beam.Regex.find_all(r"(\d)(\d)?", group=beam.Regex.ALL)
            | "3" >> beam.Map(lambda x: print("groups", x))
        )


def deprecated_functions() -> None:
    import warnings

    from apache_beam.utils.annotations import deprecated

    @deprecated(since="1.2", current="total")
    def add_up(values):
        return sum(values)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        print(add_up([1, 2]))
    print([(one.category.__name__, str(one.message)) for one in caught])


def the_version() -> None:
    print(beam.__version__)
