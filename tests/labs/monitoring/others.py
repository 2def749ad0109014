"""What node_exporter, lustre_exporter and gpfs_exporter would show of each node: counters that grow."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.labs.monitoring.plan import MACHINES

SERIES = (
    'node_infiniband_port_data_received_bytes_total{device="mlx5_0",port="1"}',
    'node_infiniband_port_data_transmitted_bytes_total{device="mlx5_0",port="1"}',
    'node_network_receive_bytes_total{device="eth0"}',
    'node_network_transmit_bytes_total{device="eth0"}',
    'node_mountstats_nfs_total_read_bytes_total{export="nfs:/home",mountaddr="192.0.2.1",protocol="tcp"}',
    'node_mountstats_nfs_total_write_bytes_total{export="nfs:/home",mountaddr="192.0.2.1",protocol="tcp"}',
    'lustre_read_bytes_total{component="client",target="scratch"}',
    'lustre_write_bytes_total{component="client",target="scratch"}',
    'gpfs_perf_read_bytes_total{fs="project"}',
    'gpfs_perf_write_bytes_total{fs="project"}',
)


class OtherExporters:
    """One listener that answers for all nodes; Prometheus gives the series each node's name."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._server: ThreadingHTTPServer | None = None

    def start(self) -> None:
        """Listen."""
        began = self._began

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                count = int((time.monotonic() - began) * 2**20)
                page = "".join(f"{each} {count}\n" for each in SERIES).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(page)

            def log_message(self, *_words: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def targets(self, cluster: str) -> list[dict]:
        """Return what Prometheus is to scrape."""
        assert self._server is not None
        address = f"127.0.0.1:{self._server.server_port}"
        return [
            {
                "targets": [address],
                "labels": {
                    "cluster": cluster,
                    "instance": f"{machine.name}:9819",
                    "__param_node": machine.name,  # tells targets of one address apart
                },
            }
            for machine in MACHINES
        ]

    def stop(self) -> None:
        """Close the listener."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
