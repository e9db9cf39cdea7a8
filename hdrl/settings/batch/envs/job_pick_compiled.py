"""JobPick's options and the jobs of a workload, as compiled code plays them (`settings.batch.compiled_play`)."""

from __future__ import annotations

from hdrl.base.plainnet import PlainActor
from hdrl.compiled.lend import Lent
from hdrl.settings.batch.compiled_play.entries import decide
from hdrl.settings.batch.compiled_play.state import Play, new_play
from hdrl.settings.batch.envs.job_pick_options import JobPickOptions
from hdrl.settings.batch.envs.job_pick_picture import new_picture_pool
from hdrl.settings.batch.envs.machines import PoolInputs
from hdrl.settings.batch.kernel.beginning import NO_RULE, Rule
from hdrl.settings.batch.kernel.state import State
from hdrl.settings.batch.policies.choices import read_choices
from hdrl.settings.batch.predict.predictors import PREDICTORS


def rule_of(options: JobPickOptions) -> Rule:
    """Return what the kernel has to predict for an agent to see."""
    return Rule(**PREDICTORS[options.predictor].asked()) if options.predicts else NO_RULE


class CompiledPicks:
    """Makes the decisions of one simulation in compiled code."""

    def __init__(self, inputs: PoolInputs, options: JobPickOptions, core_selection: str, actor: PlainActor) -> None:
        self._inputs, self._options, self._actor = inputs, options, actor
        self._core_key, _ = read_choices(None, core_selection)
        self._lent: Lent[Play] | None = None

    def decide(self, lent: Lent[State]) -> None:
        """Make all decisions of the present date.

        Parameters
        ----------
        lent
            The arrays of the simulation; they may be others than the last time, if logs have grown.
        """
        if self._lent is None:
            self._lent = Lent(self._new_play(lent.arrays))
        elif self._lent.arrays.kernel is not lent.arrays:
            self._lent = Lent(self._lent.arrays._replace(kernel=lent.arrays))
        decide(self._lent)

    def _new_play(self, state: State) -> Play:
        return new_play(
            state,
            new_picture_pool(self._inputs, self._options, len(state.sums)),
            self._actor,
            order=self._inputs.orders[0],
            core_key=self._core_key,
            predicts=self._options.predicts,
        )
