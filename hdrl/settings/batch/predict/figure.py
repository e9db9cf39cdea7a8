"""The calibration of predictors as a picture: how long jobs ran of which a predictor said the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hdrl.settings.batch.predict.evaluation import Evaluation


def draw_calibration(evaluations: Sequence[Evaluation], title: str, path: Path) -> None:
    """Draw geometric means of run times against those of predictions, in ten bins of jobs for each predictor.

    Raises
    ------
    MissingExtra
        If matplotlib is not installed.
    OutputError
        If it cannot be written.
    """
    from hdrl.figures.style import canvas, colour, default_look, save

    with default_look():
        figure, (axes,) = canvas(None)
        ends = [value for one in evaluations for part in one.bins for value in (part.predicted_s, part.run_s)]
        axes.plot([min(ends), max(ends)], [min(ends), max(ends)], color="0.6", linewidth=1, label="as predicted")
        for number, one in enumerate(evaluations):
            predicted_s, run_s = [part.predicted_s for part in one.bins], [part.run_s for part in one.bins]
            axes.plot(predicted_s, run_s, marker="o", color=colour(number), label=one.predictor)
        axes.set(xscale="log", yscale="log", xlabel="predicted (s)", ylabel="ran (s), geometric means", title=title)
        axes.legend(frameon=False)
        save(figure, path)
