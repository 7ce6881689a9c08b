"""From requests and targets to chips: how many, divided how, at what cost."""
