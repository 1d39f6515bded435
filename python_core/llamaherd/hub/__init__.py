"""Where model files come from: the Hugging Face hub, the web, Ollama, the cache."""
