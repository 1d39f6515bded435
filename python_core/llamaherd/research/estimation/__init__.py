"""Gold samples, and estimates that are right although labels are not."""
