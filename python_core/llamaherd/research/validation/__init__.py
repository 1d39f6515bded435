"""How far labels and coders can be believed."""
