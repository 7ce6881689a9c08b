"""Floor 0: words. Specs and their origins, number formats, units, errors, arithmetic."""
