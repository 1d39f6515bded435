"""Gold-standard samples, and valid estimates from imperfect labels."""
