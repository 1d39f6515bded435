"""From texts to a data set: codebooks, labels, and what people make of them."""
