"""Finding the type of a model that this processor computes fastest."""
