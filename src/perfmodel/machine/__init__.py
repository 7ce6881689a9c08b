"""Floor 1: what a chip can do. Bandwidth, peaks, capacity, efficiency; knows no model."""
