"""Code that all rooms share: argument checks, settings, results, statistics, errors."""
