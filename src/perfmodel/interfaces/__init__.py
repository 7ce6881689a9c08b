"""Floor 4: ways in and out."""
