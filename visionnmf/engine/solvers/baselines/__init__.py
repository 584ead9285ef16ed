"""Published algorithms for comparison only; newer solvers in the parent package are better."""
