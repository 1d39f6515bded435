"""Sources of model files: the Hugging Face hub, the web, Ollama, the cache."""
