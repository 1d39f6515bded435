"""Code that all packages use: argument checks, settings, results, statistics, errors."""
