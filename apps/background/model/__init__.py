"""The background model of a whole clip: learning, its parts for difficult scenes, and the decision on a mask."""
