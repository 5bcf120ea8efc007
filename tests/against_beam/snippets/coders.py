"""Coders."""

import apache_beam as beam
from apache_beam import coders
from apache_beam.coders import typecoders
from apache_beam.transforms.window import IntervalWindow
from apache_beam.utils.timestamp import Timestamp
from refusals import refused


def _round(coder, value):
    encoded = coder.encode(value)
    decoded = coder.decode(encoded)
    print(type(coder).__name__, encoded, decoded, decoded == value)


def simple_coders() -> None:
    _round(coders.StrUtf8Coder(), "aä")
    _round(coders.BytesCoder(), b"ab")
    _round(coders.VarIntCoder(), 300)
    _round(coders.VarIntCoder(), -1)
    _round(coders.FloatCoder(), 1.5)
    _round(coders.BooleanCoder(), True)


def compound_coders() -> None:
    _round(coders.TupleCoder((coders.StrUtf8Coder(), coders.VarIntCoder())), ("a", 1))
    _round(coders.IterableCoder(coders.VarIntCoder()), [1, 2])
    _round(coders.NullableCoder(coders.VarIntCoder()), None)
    _round(coders.NullableCoder(coders.VarIntCoder()), 5)
    _round(coders.coders.LengthPrefixCoder(coders.StrUtf8Coder()), "ab")


def coders_of_time() -> None:
    from apache_beam.coders.coders import IntervalWindowCoder, TimestampCoder

    _round(TimestampCoder(), Timestamp(5))
    _round(IntervalWindowCoder(), IntervalWindow(0, 10))


def pickling_coders() -> None:
    for coder in (coders.PickleCoder(), coders.FastPrimitivesCoder()):
        print(type(coder).__name__, coder.decode(coder.encode({"a": [1, None]})))


def determinism() -> None:
    for coder in (coders.StrUtf8Coder(), coders.PickleCoder(), coders.VarIntCoder(), coders.FloatCoder()):
        print(type(coder).__name__, coder.is_deterministic())


def deterministic_versions() -> None:
    print(coders.StrUtf8Coder().as_deterministic_coder("step").is_deterministic())
    print(coders.FastPrimitivesCoder().as_deterministic_coder("step").is_deterministic())


def equal_coders() -> None:
    print(coders.VarIntCoder() == coders.VarIntCoder(), coders.VarIntCoder() == coders.StrUtf8Coder())
    pair = coders.TupleCoder((coders.StrUtf8Coder(), coders.VarIntCoder()))
    print(pair == coders.TupleCoder((coders.StrUtf8Coder(), coders.VarIntCoder())))


def registered_coders() -> None:
    for hint in (int, str, bytes, float, bool):
        print(hint.__name__, type(coders.registry.get_coder(hint)).__name__)


def coders_of_pairs() -> None:
    pair = coders.registry.get_coder(beam.typehints.Tuple[str, int])
    print(type(pair).__name__, pair.encode(("a", 1)))


class _Money:
    def __init__(self, cents):
        self.cents = cents

    def __eq__(self, other):
        return self.cents == other.cents

    def __hash__(self):
        return hash(self.cents)

    def __repr__(self):
        return f"Money({self.cents})"


class _MoneyCoder(coders.Coder):
    def encode(self, value):
        return str(value.cents).encode()

    def decode(self, encoded):
        return _Money(int(encoded))

    def is_deterministic(self):
        return True


def a_coder_of_users() -> None:
    coders.registry.register_coder(_Money, _MoneyCoder)
    print(type(coders.registry.get_coder(_Money)).__name__)
    with beam.Pipeline() as p:
        (
            p
            | beam.Create([1, 1, 2])
            | beam.Map(lambda cents: (_Money(cents), cents)).with_output_types(beam.typehints.Tuple[_Money, int])
            | beam.CombinePerKey(sum)
            | beam.Map(print)
        )


def the_registry_of_typecoders() -> None:
    print(type(typecoders.registry.get_coder(int)).__name__)


def values_of_the_wrong_type() -> None:
    with refused(Exception):
        coders.VarIntCoder().encode("a")
    with refused(Exception):
        coders.StrUtf8Coder().encode(1)


def estimated_sizes() -> None:
    print(coders.StrUtf8Coder().estimate_size("abc"), coders.VarIntCoder().estimate_size(300))


def key_coders() -> None:
    pair = coders.TupleCoder((coders.StrUtf8Coder(), coders.VarIntCoder()))
    print(pair.is_kv_coder(), type(pair.key_coder()).__name__, type(pair.value_coder()).__name__)


def coders_to_type_hints() -> None:
    print(coders.StrUtf8Coder().to_type_hint(), coders.VarIntCoder().to_type_hint(), coders.BytesCoder().to_type_hint())


def coders_over_streams() -> None:
    from apache_beam.coders import coder_impl
    from apache_beam.coders.coders import FastCoder

    class PairImpl(coder_impl.StreamCoderImpl):
        def encode_to_stream(self, value, stream, nested):
            stream.write(value[0].encode(), True)
            stream.write_var_int64(value[1])

        def decode_from_stream(self, stream, nested):
            return stream.read_all(True).decode(), stream.read_var_int64()

    class PairCoder(FastCoder):
        def _create_impl(self):
            return PairImpl()

    _round(PairCoder(), ("a", 300))
    for impl, value in ((coder_impl.BooleanCoderImpl(), True), (coder_impl.VarIntCoderImpl(), -5)):
        print(impl.encode(value), impl.decode(impl.encode(value)), impl.estimate_size(value))


def schemas_of_avro() -> None:
    from apache_beam.io.avroio import avro_schema_to_beam_schema, beam_schema_to_avro_schema

    fields = [{"name": "n", "type": "long"}, {"name": "tags", "type": {"type": "array", "items": "string"}}]
    schema = avro_schema_to_beam_schema({"type": "record", "name": "R", "fields": fields})
    print([field.name for field in schema.fields], beam_schema_to_avro_schema(schema)["fields"])
