"""Hosts, calls, handles and jobs: from the requests of a caller to its results."""
