"""Scheduling: decisions about which request runs when, as data."""
