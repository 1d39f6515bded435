"""Hosts, calls, handles and jobs: they turn a caller's requests into results."""
