"""The life of a run: plan, directory, state, signals, evaluation, timers and messages."""
