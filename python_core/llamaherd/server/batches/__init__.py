"""Files of clients, and batches of requests that the server works off by itself."""
