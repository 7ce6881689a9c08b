"""One function a family, from its keys to layers; ``table`` lists them all."""
