"""Runs: read a table, answer each row and write the table with new columns."""
