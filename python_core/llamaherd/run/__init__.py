"""Carries decisions out on an engine, in a thread of its own."""
