"""The least that a Python program can do for a scrape: the floor in bench_noise.py.

It reads each kernel file that another exporter keeps open, without using what they say, and answers with that exporter's
page, compressed anew. No thread, no event loop, nothing imported but what it needs.

Usage: bareexporter.py PORT PID PAGE
"""

import os
import socket
import sys
import zlib
from collections.abc import Iterator


def files_of(pid: str) -> Iterator[str]:
    """Yield the files of the kernel that a process has open, each once."""
    folder = f"/proc/{pid}/fd"
    paths = {os.readlink(f"{folder}/{each}") for each in os.listdir(folder)}
    return (each for each in paths if each.startswith(("/proc/", "/sys/")) and os.path.isfile(each))


def main() -> None:
    port, pid, page = sys.argv[1:]
    descriptors = [os.open(each, os.O_RDONLY) for each in files_of(pid)]
    with open(page, "rb") as file:
        text = file.read()
    with socket.create_server(("127.0.0.1", int(port))) as server:
        while True:
            connection, _ = server.accept()
            with connection:
                while connection.recv(65536):  # a request, as small as these are
                    for each in descriptors:
                        try:
                            os.pread(each, 65536, 0)
                        except OSError:  # its process has ended
                            pass
                    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
                    body = packer.compress(text) + packer.flush()
                    head = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: "
                    connection.sendall(f"{head}{len(body)}\r\n\r\n".encode() + body)


if __name__ == "__main__":
    main()
