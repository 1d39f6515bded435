"""Pages on which people code texts in a browser; no model is needed."""
