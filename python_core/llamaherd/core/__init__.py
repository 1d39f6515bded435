"""Code of all other packages: argument checks, settings, results, statistics, errors."""
