"""Choices and defaults shared by estimators and command line; imports nothing heavy."""

LOSSES = ("manhattan", "frobenius", "kullback-leibler")
SOLVERS = ("auto", "admm", "rri", "hals", "ccd")
STARTS = ("random", "nndsvd")

# visionnmf segment
SEGMENTS = 5
SEGMENT_RANK = 5
SUPERPIXELS = 500

# visionnmf background
BACKGROUND_RANK = 2

# visionnmf masquerade
SESSION_SIZE = 100
FALSE_ALARM_RATE = 0.02

SEED = 0
