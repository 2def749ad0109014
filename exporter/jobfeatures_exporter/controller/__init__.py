"""The controller role's process: polls batch systems about whole clusters, and computes schedule quality."""
