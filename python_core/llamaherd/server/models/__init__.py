"""Several models on one server: loading, unloading and waiting requests."""
