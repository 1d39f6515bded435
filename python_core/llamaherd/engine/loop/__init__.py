"""The loop of a context: carries out the scheduler's decisions on an engine."""
