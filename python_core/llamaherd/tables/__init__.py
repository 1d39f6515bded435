"""A run over a table, described by one TOML file: rows in, rows out."""
