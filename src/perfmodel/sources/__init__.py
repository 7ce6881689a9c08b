"""Floor 2: where shapes and specs come from."""
