# ruff: noqa: PT009, PT027  # unittest is in every Python
"""What the client does on any Python from 3.6 on: run as ``pythonX clientcases.py FOLDER_OF_CLIENT``."""

import http.server
import os
import sys
import tempfile
import threading
import time
import unittest

client = None  # imported from the folder that is named, as the one file that a pilot takes along


class Cases(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.features = client.Features(job=self.folder)

    def fill(self, **values):
        for name, value in values.items():
            with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
                file.write(f"{value}\n")

    def test_values_are_read(self):
        self.fill(job_id="12 ü")
        self.assertEqual(self.features.get("job", "job_id"), "12 ü")
        self.assertIsNone(self.features.find("allocated_cpu"))

    def test_nobody_to_ask_is_an_error(self):
        for features in (client.Features(), client.Features(job=self.folder + "/gone")):
            with self.assertRaises(client.FeaturesUnreachableError):
                features.remaining(0)

    def test_remaining_time(self):
        self.assertIsNone(self.features.remaining(0).seconds)
        self.fill(jobstart_secs=1000, wall_limit_secs=600, cpu_limit_secs=2000, allocated_cpu=4)
        left = self.features.remaining(1100, 1200)
        self.assertEqual((left.seconds, left.bases), (200, {"wall_limit": 500, "cpu_limit": 200}))
        self.assertLessEqual(self.features.remaining(1100).bases["cpu_limit"], 500)
        self.assertEqual(self.features.remaining(1700.5, 0).seconds, -101)

    def test_an_address_is_asked(self):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = b"8\n" if self.path.endswith("/allocated_cpu") else b""
                self.send_response(200 if body or self.path == "/token/" else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/"
            features = client.Features(job=url + "token")
            self.assertEqual(features.get("job", "allocated_cpu"), "8")
            self.assertIsNone(features.get("job", "job_id"))
            with self.assertRaises(client.FeaturesUnreachableError):
                client.Features(job=url + "expired").get("job", "job_id")
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def test_a_status_is_written_and_amended(self):
        with client.StatusWriter(self.folder, allocated_cpu=8) as status:
            status.update(used_CPU=5, last_job_start=int(time.time()), can_postpone_last_job=True)
            status.amend(used_CPU=6, can_postpone_last_job=None)
            with self.assertRaises(ValueError):
                status.update(used_CPU=9)
        self.assertEqual(sorted(os.listdir(self.folder)), ["last_job_start", "used_CPU"])
        with open(os.path.join(self.folder, "used_CPU"), encoding="ascii") as file:
            self.assertEqual(file.read(), "6\n")


if __name__ == "__main__":
    sys.path.insert(0, sys.argv.pop(1))
    import client

    unittest.main()
