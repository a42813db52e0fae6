"""What answers a model request: the Anthropic API, or a scripted stand-in."""
