"""Models of memory-bandwidth contention that options name and users can extend."""

from __future__ import annotations

from dataclasses import dataclass

from hdrl.base.registry import Registry


@dataclass(frozen=True, slots=True)
class ContentionModel:
    """Effect on the cores of a processor whose memory bandwidth is over-committed.

    Attributes
    ----------
    name
        The name used in options.
    speed_factors
        The contended speeds as fractions of the peak, falling, each in (0, 1). The serving cores of an
        over-committed processor run at the first factor that is at most capacity / demand, and at
        the last one if none is. Empty: contention has no effect.
    follows_curves
        True if instead each serving core has a speed of its own, by the curve of its processor's type
        (`platform.model.SpeedCurve` or `FittedCurve`): no P-states can tell these, so that only the embedded simulator
        knows them.
    """

    name: str
    speed_factors: tuple[float, ...]
    follows_curves: bool = False


CONTENTION_MODELS: Registry[ContentionModel] = Registry("contention model")
"""``step`` is HDeepRM's; ``proportional`` shares the bandwidth out, in steps of 5 % (a Batsim
P-state each, so that both simulators can run it); ``none`` switches contention off; ``modelV1`` and ``modelV2`` are
IRMaSim's."""

MODEL_V1 = "modelV1"
"""The contention model of IRMaSim whose curves are those of processors."""

MODEL_V1_1 = "modelV1_1"
"""IRMaSim's name for the model of whole nodes. Source: its commit 8ad2d8b (2024)."""

MODEL_V2 = "modelV2"
"""The contention model whose curves are fitted to measurements of whole nodes, and that knows their power, too."""

for _model in (
    ContentionModel("step", (0.75,)),
    ContentionModel("proportional", tuple(level / 20 for level in range(19, 0, -1))),
    ContentionModel("none", ()),
    ContentionModel(MODEL_V1, (), follows_curves=True),
    ContentionModel(MODEL_V2, (), follows_curves=True),
):
    CONTENTION_MODELS.register(_model.name)(_model)
