"""The controller role: polls batch systems about the whole cluster, and judges its schedule."""
