"""Public names of predictors of run times of batch jobs.

They live in `hdrl.settings.batch.predict`; scripts import them from here.
"""

from hdrl.settings.batch.predict.evaluation import Bin, Evaluation, evaluate_predictors, predictions_of
from hdrl.settings.batch.predict.predictors import PREDICTORS, Predictor, true_run_times

__all__ = [
    "PREDICTORS",
    "Bin",
    "Evaluation",
    "Predictor",
    "evaluate_predictors",
    "predictions_of",
    "true_run_times",
]
