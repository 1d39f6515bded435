"""Tasks over texts: the requests of each kind of task, and its result columns."""
