"""What every room knows: arguments checked, settings, results, statistics, errors."""
