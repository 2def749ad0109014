"""One file a dashboard, one line here each."""

from __future__ import annotations

from grafana.boards import cluster, drains, gpu, health, job, node, schedule, user

BOARDS = (
    cluster.board,
    node.board,
    job.board,
    user.board,
    gpu.board,
    drains.board,
    schedule.board,
    health.board,
)
