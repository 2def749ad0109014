"""The controller role: the state of a whole cluster, and the quality of its schedule."""
