"""The public calls: from arguments to requests."""
