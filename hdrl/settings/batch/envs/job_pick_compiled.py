"""JobPick's options and the jobs of a workload, as compiled code plays them (`settings.batch.compiled_play`)."""

from __future__ import annotations

from hdrl.base.errors import SimulationError
from hdrl.base.plainnet import PlainActor
from hdrl.compiled.borrowed import Borrowed
from hdrl.settings.batch.compiled_play.entries import act, decide, see, show
from hdrl.settings.batch.compiled_play.state import Play, new_play
from hdrl.settings.batch.envs.job_pick_options import JobPickOptions
from hdrl.settings.batch.envs.machines import PoolInputs
from hdrl.settings.batch.identical_cores.state import new_order_state, set_episode
from hdrl.settings.batch.kernel.beginning import NO_RULE, PolicyRule
from hdrl.settings.batch.kernel.state import BatchState
from hdrl.settings.batch.predict.predictors import PREDICTORS


def rule_of(options: JobPickOptions) -> PolicyRule:
    """Return the rule for the predictions that an agent sees."""
    return PolicyRule(**PREDICTORS[options.predictor].rule_arguments()) if options.predicts else NO_RULE


class CompiledPicks:
    """Makes the decisions of one simulation in compiled code: the decisions of an actor, or the actions of its caller.

    ``actor``: the network that decides; `NO_ACTOR`: `act` says what is done. ``core_key`` as in `kernel.codes`.
    """

    def __init__(self, inputs: PoolInputs, options: JobPickOptions, core_key: int, actor: PlainActor) -> None:
        self._inputs, self._options, self._core_key, self._actor = inputs, options, core_key, actor
        self._borrowed: Borrowed[Play] | None = None

    def decide(self, borrowed: Borrowed[BatchState]) -> None:
        """Make all decisions of the present date.

        ``borrowed``: the arrays of the simulation; they may be others than the last time, if logs have grown.
        """
        decide(self._follow(borrowed))

    def see(self, borrowed: Borrowed[BatchState]) -> int:
        """Take in a message; return the stage of the choice that is due, `compiled_play.rules.WAIT` if none is."""
        return see(self._follow(borrowed))

    def act(self, action: int) -> int:
        """Carry out a legal action; return the next stage at the same date."""
        return act(self._playing, action)

    def show_end(self) -> None:
        """Write the observation after the end of the simulation."""
        show(self._playing)

    @property
    def play(self) -> Play:
        """The arrays; what they show is good for the last decision."""
        return self._playing.arrays

    @property
    def _playing(self) -> Borrowed[Play]:
        if self._borrowed is None:
            raise SimulationError("no decision has been due yet")
        return self._borrowed

    def _follow(self, borrowed: Borrowed[BatchState]) -> Borrowed[Play]:
        if self._borrowed is None:
            self._borrowed = Borrowed(self._new_play(borrowed.arrays))
        elif self._borrowed.arrays.kernel is not borrowed.arrays:
            self._borrowed = Borrowed(self._borrowed.arrays._replace(kernel=borrowed.arrays))
        return self._borrowed

    def _new_play(self, state: BatchState) -> Play:
        inputs, options = self._inputs, self._options
        n_jobs = len(inputs.orders[0])
        shared = options.shared_arrays(inputs.columns, inputs.n_procs)
        pool = new_order_state(1, n_jobs, n_sums=len(state.sums), **shared)
        set_episode(pool, 0, 0, n_jobs)
        pool.scalars["first_submit_s"] = inputs.columns.submit_s[0]
        return new_play(
            state, pool, self._actor, order=inputs.orders[0], core_key=self._core_key, predicts=options.predicts
        )
