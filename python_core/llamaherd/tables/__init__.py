"""Runs over a table, described by one TOML file: rows in, rows with answers out."""
