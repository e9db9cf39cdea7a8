"""How long jobs will run: predictors of run times, and how good they are."""
