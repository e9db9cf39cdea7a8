"""Platform descriptions for tests: hand-made ones, and a hypothesis strategy for random ones."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from hdrl.settings.batch.contention import CONTENTION_MODELS

LADDERS = [name for name in sorted(CONTENTION_MODELS) if not CONTENTION_MODELS[name].follows_curves]
"""Contention models that every platform can follow."""

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=12)
MEASURES = st.floats(1, 1e4) | st.integers(1, 1000)
LATENCIES = (
    st.just("0us") | st.floats(0, 1e-2).map(lambda value: f"{value!r}s") | st.integers(0, 500).map("{}us".format)
)


def tiny(**changes: Any) -> dict[str, Any]:
    """One cluster of two dual-processor nodes, four cores each at 8 Gflop/s and 10 W."""
    description: dict[str, Any] = {
        "clusters": [
            {
                "id": "one",
                "nodes": [{"type": "box", "number": 2}],
                "local_links": {"type": "Gigabit Ethernet 1000BASE-T", "latency": "100us"},
            }
        ],
        "global_links": {"type": "InfiniBand QDR", "latency": "50us"},
        "types": {
            "nodes": {"box": {"processors": [{"type": "chip", "number": 2}], "memory": {"capacity": 16}}},
            "processors": {"chip": {"cores": 4, "clock_rate": 2, "dpflops_per_cycle": 4, "mem_bw": 20, "power": 40}},
        },
    }
    return description | changes


@st.composite
def descriptions(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the description of a small platform with types of its own."""
    processors = draw(
        st.dictionaries(
            NAMES.filter(lambda name: not name.startswith("_")),
            st.fixed_dictionaries(
                {
                    "cores": st.integers(1, 5),
                    "clock_rate": MEASURES,
                    "dpflops_per_cycle": MEASURES,
                    "mem_bw": MEASURES,
                    "power": MEASURES,
                },
                optional={"uarch": st.text(max_size=5), "llc_size": MEASURES, "source": st.just("--->")},
            ),
            min_size=1,
            max_size=3,
        )
    )
    uses = st.lists(
        st.fixed_dictionaries({"type": st.sampled_from(sorted(processors)), "number": st.integers(1, 2)}),
        min_size=1,
        max_size=2,
    )
    nodes = draw(
        st.dictionaries(
            NAMES.filter(lambda name: not name.startswith("_")),
            st.fixed_dictionaries({"processors": uses, "memory": st.fixed_dictionaries({"capacity": MEASURES})}),
            min_size=1,
            max_size=3,
        )
    )
    networks = draw(
        st.dictionaries(
            NAMES.filter(lambda name: not name.startswith("_")),
            st.fixed_dictionaries({"bandwidth": st.floats(1e-3, 1e3).map(lambda value: f"{value!r}Gbps")}),
            min_size=1,
            max_size=2,
        )
    )
    links = st.fixed_dictionaries({"type": st.sampled_from(sorted(networks)), "latency": LATENCIES})
    groups = st.lists(
        st.fixed_dictionaries({"type": st.sampled_from(sorted(nodes)), "number": st.integers(1, 4)}),
        min_size=1,
        max_size=3,
    )
    ids = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    return {
        "clusters": [{"id": name, "nodes": draw(groups), "local_links": draw(links)} for name in ids],
        "global_links": draw(links),
        "types": {"nodes": nodes, "processors": processors, "networks": networks},
    }
