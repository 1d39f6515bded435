"""Results on the disk as they come."""
