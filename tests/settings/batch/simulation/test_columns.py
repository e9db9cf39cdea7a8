"""Tables as text: what compiled code prints is what Python prints."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hdrl.settings.batch.kernel.printing import FIXED, FIXED_OR_NA, GENERAL
from hdrl.settings.batch.simulation import columns
from hdrl.settings.batch.simulation.columns import Characters, Column, Reals, Sets, Texts, TextTable, Wholes

BY_HAND = {
    FIXED: {
        **{0.0: "0.000000", 1.0: "1.000000", -1.0: "-1.000000", 0.9999995: "1.000000", 0.99999949: "0.999999"},
        **{9.9999999: "10.000000", 1234567.5: "1234567.500000", -1e-9: "-0.000000", 5e-7: "0.000000"},
        **{15e-7: "0.000002", 2.0**-7: "0.007812", 3 * 2.0**-7: "0.023438", 1e15: "1000000000000000.000000"},
    },
    FIXED_OR_NA: {-1.0: "NA", -1.5: "-1.500000"},
    GENERAL: {
        **{0.0: "0", 4e-10: "4e-10", 8.786526: "8.78653", 100.0: "100", 0.0001: "0.0001", 0.00001: "1e-05"},
        **{999999.5: "1e+06", 999998.5: "999998", 1234565.0: "1.23456e+06", 1234575.0: "1.23458e+06"},
        **{1234565.0000001: "1.23457e+06", 65792.25: "65792.2", 65792.75: "65792.8", 1e-20: "1e-20"},
    },
}

NUMBERS = (
    st.floats()
    | st.floats(-1e12, 1e12)
    | st.floats(0, 1e-3)
    # decimals half-way between two texts, whole numbers among them, and what they are after small sums
    | st.integers(-(10**13), 10**13).map(lambda n: n / 2e6)
    | st.integers(0, 10**14).map(lambda n: n / 2.0)
    | st.tuples(st.integers(0, 10**9), st.integers(0, 2**20)).map(lambda pair: pair[0] + pair[1] / 2**20)
)


def text_of(names: Sequence[str], some: Sequence[Column], n_rows: int) -> str:
    return TextTable(names, some, n_rows).text()


def of_python(kind: int, value: float) -> str:
    if kind == GENERAL:
        return f"{value:g}"
    return "NA" if kind == FIXED_OR_NA and value == -1.0 else f"{value:f}"


@pytest.mark.parametrize("kind", BY_HAND)
def test_numbers_by_hand(kind: int) -> None:
    expected = BY_HAND[kind]
    values = np.array(list(expected))
    for one in ([value] for value in values):  # one that Python prints does not take the others along
        assert text_of(["x"], [Reals(np.array(one), kind)], 1) == f"x\n{expected[one[0]]}\n"
    assert text_of(["x"], [Reals(values, kind)], len(values)) == "\n".join(["x", *expected.values(), ""])
    assert text_of(["x"], [Reals(np.array([-0.0]), kind)], 1) == ("x\n-0\n" if kind == GENERAL else "x\n-0.000000\n")
    assert text_of(["x"], [Reals(np.zeros(0), kind)], 0) == "x\n"


@given(st.lists(NUMBERS, min_size=1), st.sampled_from([FIXED, FIXED_OR_NA, GENERAL]))
@settings(max_examples=400, deadline=None)
def test_numbers_are_those_of_printf(values: list[float], kind: int) -> None:
    for some in (values, *([value] for value in values)):
        text = text_of(["x"], [Reals(np.array(some, dtype=float), kind)], len(some))
        assert text.split("\n")[1:-1] == [of_python(kind, value) for value in some]


@pytest.mark.parametrize("by", ["compiled", "python"])
def test_all_kinds_of_columns(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if by == "python":
        monkeypatch.setattr(columns, "_compiled_text", lambda *_: None)
    monkeypatch.setattr(columns, "_ROWS_AT_ONCE", 2)
    table = [
        Texts(np.array(["a", "", "é,"], dtype=object)),
        Wholes(np.array([0, -120, 2**40])),
        Sets(np.array([7, 7, 3, 4, 5, 9], dtype=np.int32), np.array([0, 2, 2]), np.array([1, 4, 0])),
        Characters(np.array([b"s", b"e", b"p"])),
        Reals(np.array([0.5, 1.0, -2.25])),
    ]
    assert (
        text_of("abcde", table, 3)
        == "a,b,c,d,e\na,0,7,s,0.500000\n,-120,3-5 9,e,1.000000\né,,1099511627776,,p,-2.250000\n"
    )


def test_sets_of_many_intervals_get_the_room_that_they_need() -> None:
    members = np.arange(0, 200_000, 2, dtype=np.int32)
    text = text_of(["s"], [Sets(members, np.array([0, 5]), np.array([len(members), 1]))], 2)
    assert text == "s\n" + " ".join(map(str, members.tolist())) + "\n10\n"


def test_nearly_all_numbers_are_printed_by_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dates of whole seconds, sums of powers: else large files would take several times as long."""
    refused: list[object] = []
    before: Callable[..., str | None] = columns._compiled_text

    def compiled(*arguments: object) -> str | None:
        text = before(*arguments)
        refused.extend([] if text is not None else [arguments])
        return text

    monkeypatch.setattr(columns, "_compiled_text", compiled)
    draw = np.random.default_rng(0)
    dates_s = np.concatenate([np.floor(draw.uniform(0, 1e8, 30_000)), draw.uniform(0, 1e8, 30_000)])
    text_of(["date", "energy"], [Reals(dates_s, GENERAL), Reals(np.cumsum(dates_s * 1.25))], len(dates_s))
    assert not refused
