"""Floor 1: what must be done. FLOPs and bytes of a model's step; knows no chip."""
