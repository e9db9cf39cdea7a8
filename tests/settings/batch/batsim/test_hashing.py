"""The order of a C++ hash table."""

from hdrl.batsim.exact.hashing import hash_order


def test_few_texts_come_as_recorded() -> None:
    # what std::unordered_map<std::string, int> of GCC 12 holds, entry by entry
    put = [
        "d3",
        "c",
        "lone",
        "lone2",
        "a",
        "b",
        "e",
        "zz",
        "seq0",
        "seq1",
        "nest",
        "nest2",
        "used",
        "x0",
        "a name of 8+ bytes",
    ]
    got = [
        "x0",
        "c",
        "d3",
        "lone2",
        "a",
        "a name of 8+ bytes",
        "seq1",
        "b",
        "e",
        "lone",
        "zz",
        "seq0",
        "nest2",
        "nest",
        "used",
    ]
    assert hash_order(put) == got


def test_nothing_is_lost_when_the_table_grows() -> None:
    names = [f"profile {k}" for k in range(3000)]
    assert sorted(hash_order(names)) == sorted(names)
    assert hash_order(names) != names
