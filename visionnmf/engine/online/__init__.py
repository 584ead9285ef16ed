"""Learning from streams: each file is one method, which sees the samples once, in the order in which they come."""
