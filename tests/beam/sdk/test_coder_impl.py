"""Coders of users over Beam's streams and implementations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.beam.sdk.coder_impl import (
    BooleanCoderImpl,
    CallbackCoderImpl,
    IntervalWindowCoderImpl,
    SimpleCoderImpl,
    StreamCoderImpl,
    VarIntCoderImpl,
)
from penstock.beam.sdk.coder_streams import ByteCountingOutputStream, InputStream, OutputStream, get_varint_size
from penstock.sdk.coders import FastCoder, StrUtf8Coder, VarIntCoder
from penstock.sdk.errors import SerializationError
from penstock.windowing import IntervalWindow


class PersonImpl(StreamCoderImpl):
    """A name, and an age in the last bytes."""

    def encode_to_stream(self, value, stream, nested):
        StrUtf8Coder().get_impl().encode_to_stream(value[0], stream, True)
        VarIntCoder().get_impl().encode_to_stream(value[1], stream, nested)

    def decode_from_stream(self, stream, nested):
        name = StrUtf8Coder().get_impl().decode_from_stream(stream, True)
        return name, VarIntCoder().get_impl().decode_from_stream(stream, nested)


class PersonCoder(FastCoder):
    def _create_impl(self):
        return PersonImpl()


@given(st.text(), st.integers(-(2**63), 2**63 - 1))
def test_a_coder_of_a_user_writes_and_reads_a_stream(name, age):
    coder = PersonCoder()

    assert (name, age) == coder.decode(coder.encode((name, age)))
    assert (name, age) == coder.decode_nested(coder.encode_nested((name, age)))


@given(
    st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1), st.integers(-(2**15), 2**15 - 1), st.binary()
)
def test_what_a_stream_was_given_is_read_back(long, integer, short, data):
    out = ByteCountingOutputStream()
    out.write_var_int64(long)
    out.write_var_int32(integer)
    out.write_bigendian_int64(long)
    out.write_bigendian_uint64(long % 2**64)
    out.write_bigendian_int32(integer)
    out.write_bigendian_int16(short)
    out.write_bigendian_double(1.5)
    out.write_bigendian_float(0.25)
    out.write_byte(7)
    out.write(data, nested=True)
    out.write(data)

    read = InputStream(out.get())

    assert out.get_count() == read.size()
    assert (long, integer) == (read.read_var_int64(), read.read_var_int32())
    assert (long, long % 2**64) == (read.read_bigendian_int64(), read.read_bigendian_uint64())
    assert (integer, short) == (read.read_bigendian_int32(), read.read_bigendian_int16())
    assert (1.5, 0.25, 7) == (read.read_bigendian_double(), read.read_bigendian_float(), read.read_byte())
    assert (data, data, 0) == (read.read_all(True), read.read_all(False), read.size())


def test_reading_behind_the_end_is_an_error():
    with pytest.raises(SerializationError, match="expected 3 bytes"):
        InputStream(b"ab").read(3)
    with pytest.raises(ValueError, match="an integer of 64 bits"):
        OutputStream().write_var_int64(2**63)


def test_implementations_of_beams_coders_encode_as_these():
    window = IntervalWindow(0, 10)

    assert b"\x01" == BooleanCoderImpl().encode(True)
    assert VarIntCoder().encode(-5) == VarIntCoderImpl().encode(-5)
    assert window == IntervalWindowCoderImpl().decode(IntervalWindowCoderImpl().encode(window))
    assert (get_varint_size(-5), []) == VarIntCoderImpl().get_estimated_size_and_observables(-5)
    assert (4, []) == StrUtf8Coder().get_impl().get_estimated_size_and_observables("abc", nested=True)


def test_implementations_by_functions_and_by_bytes():
    class Upper(SimpleCoderImpl):
        def encode(self, value):
            return value.upper().encode()

        def decode(self, encoded):
            return encoded.decode().lower()

    callbacks = CallbackCoderImpl(str.encode, bytes.decode, len)

    assert ("ab", b"\x02AB") == (Upper().decode(b"AB"), Upper().encode_nested("ab"))
    assert ("ab", 3) == (callbacks.decode_nested(callbacks.encode_nested("ab")), callbacks.estimate_size("ab", True))
