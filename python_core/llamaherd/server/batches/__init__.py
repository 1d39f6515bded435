"""Files of clients, and batches of requests that run in the background."""
