"""Several models on one server: which are in memory, and who waits for one."""
