"""A far side of Sonar's documents: `farside.py PORT FILE` notes each in a line before it says that it has it."""

from __future__ import annotations

import hashlib
import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer


class Handler(BaseHTTPRequestHandler):
    """Takes what is posted."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        line = f"{self.path.rpartition('/')[2]} {hashlib.sha256(body).hexdigest()}\n"
        os.write(FILE, line.encode())
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    FILE = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
