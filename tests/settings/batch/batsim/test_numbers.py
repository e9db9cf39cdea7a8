"""Numbers in JSON as Batsim's library reads and writes them."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdrl.batsim.exact.grisu import write_double
from hdrl.batsim.exact.rapidjson import loads, read_double, reread

FINITE = st.floats(allow_nan=False, allow_infinity=False)


def test_a_recorded_number_moves_when_it_is_written_and_read_again() -> None:
    value = read_double("272337045726.254852")
    assert value == 272337045726.254852
    assert write_double(value) == "272337045726.25486"  # the nearest number of so many digits ends with 5
    assert f"{reread(value):f}" == "272337045726.254883"  # recorded


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.1234567890123456789", "0x1.f9add3746f65fp-4"),
        ("98765432109876.543210987", "0x1.674e79fcecd23p+46"),
        ("3.3333333333333335e-300", "0x1.1dbc5227a2020p-995"),
        ("7.2057594037927941e-310", "0x0.084a57695fe98p-1022"),
        ("123456789012345678901.5", "0x1.ac53a7e04bcd9p+66"),
        ("9007199254740993.5e10", "0x1.2a05f20000000p+86"),
    ],
)
def test_long_numbers_are_read_as_by_a_compiled_program(text: str, value: str) -> None:
    assert read_double(text) == float.fromhex(value)


@given(st.integers(-(10**15) + 1, 10**15 - 1), st.integers(0, 15))
def test_fifteen_digits_are_read_as_everywhere(digits: int, positions: int) -> None:
    text = f"{digits / 10**positions:.{max(0, 15 - len(str(abs(digits))))}f}"
    if "." in text and len(text) <= 16:
        assert read_double(text) == float(text)


@given(FINITE)
def test_a_number_is_read_within_a_few_units_in_the_last_place(value: float) -> None:
    text = repr(value)
    if "." in text or "e" in text:
        assert abs(read_double(text) - value) <= 3 * math.ulp(value)


@given(FINITE)
def test_what_is_written_stands_for_the_same_number(value: float) -> None:
    text = write_double(value)
    assert float(text) == value
    assert len(text.split("e")[0].strip("-0.").replace(".", "")) <= 17 or abs(value) >= 1e17


@given(st.integers(-(2**63), 2**64 - 1))
def test_integers_that_64_bits_hold_stay_integers(value: int) -> None:
    assert loads(json.dumps([value])) == [value]
    assert isinstance(loads(str(value)), int)


def test_larger_integers_become_doubles() -> None:
    assert loads("[18446744073709551616, -9223372036854775809]") == [2.0**64, -(2.0**63)]
    assert isinstance(loads("18446744073709551616"), float)


def test_what_is_no_number_is_refused() -> None:
    for text in ("NaN", "[Infinity]", "1.", ".5"):
        with pytest.raises(ValueError, match=r"\S"):
            loads(text)
