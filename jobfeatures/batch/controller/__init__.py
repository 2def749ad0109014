"""What the controller role tells a node of its jobs, asked in place of the batch system itself.

One question of the controller role's serves all nodes. `answer` is the text
that goes over the wire, `credential` by what a node is known, `client` asks,
and `source` makes a node's `BatchSource` of it.
"""
