"""The search space, its rules, and the pool of trials: the only room that imports optuna."""
