"""Floor 3: what people ask."""
