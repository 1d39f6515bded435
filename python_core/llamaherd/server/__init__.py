"""HTTP server for one context: prompts of all clients share batches.

The server needs the packages of the extra `server`. Only this package imports them.
"""
