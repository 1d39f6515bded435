"""Memory: needs of a context, hardware of the machine."""
