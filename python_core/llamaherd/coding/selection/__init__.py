"""Selection of codebooks on separate parts of a gold sample."""
