"""The controller role: what is known about a whole cluster, and how good its schedule is."""
