"""Gold samples: texts drawn with known probabilities, and the codes of people."""
