"""Starts programs from argument lists, with limits of time and size, in the C locale.

No other module starts programs.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, NamedTuple

from jobfeatures.errors import CommandError, SourceError, shown

KEPT_VARIABLES = ("PATH", "HOME")
MAX_COMPLAINT = 240  # characters of a program's own error message
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Python's own descriptors close at exec. With close_fds they would be closed one by one before it, and one on
# a hung file system would block all our threads, which wait until the program has started.
CLOSES_FILES = False


class CommandOutput(NamedTuple):
    """What a program printed, and its exit status (negative: the signal that ended it)."""

    stdout: bytes
    stderr: bytes
    status: int


def run_command(
    argv: Sequence[str],
    *,
    timeout_secs: float,
    stdin: bytes = b"",
    max_bytes: int = 64 * 2**20,
    environment: Mapping[str, str] | None = None,
    kept: Sequence[str] = (),
) -> CommandOutput:
    """Run a program without a shell and return its output.

    Its environment is minimal (PATH, HOME and LC_ALL=C), plus `environment`, plus this process's own
    variables named in `kept`. The program runs in its own session, so that a timeout ends its children too.
    At most 64 KiB of `stdin` are passed.

    Raises CommandError: "missing" if it cannot be started, "timeout", "too large" past `max_bytes`. Checking
    the exit status is left to the caller.
    """
    ours = {name: os.environ[name] for name in (*KEPT_VARIABLES, *kept) if name in os.environ}
    deadline = time.monotonic() + timeout_secs
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": DEFAULT_PATH, **ours, "LC_ALL": "C", **(environment or {})},
            start_new_session=True,
            close_fds=CLOSES_FILES,
        )
    except OSError as error:
        raise CommandError("missing", f"{argv[0]}: {error.strerror}") from error
    try:
        return _talk(process, argv[0], stdin, deadline, timeout_secs, max_bytes)
    finally:
        end_program(process)


def ask_command(argv: Sequence[str], **bounds: Any) -> str:
    """Run a program as `run_command` does, and return its standard output.

    Raises SourceError, also if it exits with a status other than 0.
    """
    return checked(argv[0], run_command(argv, **bounds)).stdout.decode("utf-8", "replace")


def checked(name: str, output: CommandOutput) -> CommandOutput:
    """Return the output of the program `name` unchanged if it exited with 0, else raise SourceError."""
    if output.status != 0:
        raise SourceError(f"{name}: failed with exit status {output.status}: {first_line(output.stderr)}")
    return output


def _talk(
    process: subprocess.Popen[bytes],
    name: str,
    stdin: bytes,
    deadline: float,
    timeout_secs: float,
    max_bytes: int,
) -> CommandOutput:
    assert process.stdin is not None  # noqa: S101  # for the type checker: all three were asked for
    assert process.stdout is not None  # noqa: S101
    assert process.stderr is not None  # noqa: S101
    chunks: dict[object, list[bytes]] = {process.stdout: [], process.stderr: []}
    size = 0
    try:
        process.stdin.write(stdin)  # 64 KiB fit into the pipe: this does not block
        process.stdin.close()
    except BrokenPipeError:
        pass
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        selector.register(process.stderr, selectors.EVENT_READ)
        while selector.get_map():
            left = deadline - time.monotonic()
            ready = selector.select(left) if left > 0 else []
            if not ready:
                raise _late(name, timeout_secs, chunks[process.stderr])
            for key, _ in ready:
                data = os.read(key.fd, 65536)
                if not data:
                    selector.unregister(key.fileobj)
                    continue
                size += len(data)
                if size > max_bytes:
                    raise CommandError("too large", f"{name}: more than {max_bytes} bytes of output")
                chunks[key.fileobj].append(data)
    try:
        status = process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise _late(name, timeout_secs, chunks[process.stderr]) from None
    return CommandOutput(b"".join(chunks[process.stdout]), b"".join(chunks[process.stderr]), status)


def _late(name: str, timeout_secs: float, stderr: list[bytes]) -> CommandError:
    """Return the timeout error, with the program's last error output, which may say why it hangs."""
    printed = b"".join(stderr).decode("utf-8", "replace").strip()
    words = f"; its last output: {shown(printed.splitlines()[-1], MAX_COMPLAINT)}" if printed else ""
    return CommandError("timeout", f"{name}: not finished after {timeout_secs:g} s{words}")


def end_program(process: subprocess.Popen[bytes]) -> None:
    """Kill a program that still runs, and its session; close our ends of its pipes."""
    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except OSError:
            process.kill()
        # A program stuck in the kernel cannot be waited for; it is reaped later or by init.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.5)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def first_line(output: bytes) -> str:
    """Return the first line of a program's error output, made safe for an error message."""
    text = output.decode("utf-8", "replace").strip()
    return shown(text.splitlines()[0], MAX_COMPLAINT) if text else "no message"


class BackgroundProcess:
    """A program that runs in the background in its own session, and so its own process group."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start a program. Raises CommandError "missing"."""
        try:
            self._process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                env=dict(environment),
                start_new_session=True,
                close_fds=CLOSES_FILES,
            )
        except OSError as error:
            raise CommandError("missing", f"{argv[0]}: {error.strerror}") from error
        self.pid = self._process.pid

    @property
    def has_ended(self) -> bool:
        """Return whether the program has exited or been terminated."""
        return self._process.poll() is not None

    def end(self, grace_secs: float = 1.0) -> None:
        """End the program and its process group: by SIGTERM, and after `grace_secs` by SIGKILL."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(grace_secs)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()


@contextlib.contextmanager
def conversation(argv: Sequence[str], *, end_secs: float) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Run a program in a ``with`` block that writes to its standard input and reads its standard output.

    Yields both streams. After the block the input is closed, which should end the program; it is killed if it
    has not exited `end_secs` later. Raises OSError if the program cannot be started.
    """
    with subprocess.Popen(
        list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=CLOSES_FILES
    ) as process:
        assert process.stdin is not None  # noqa: S101  # for the type checker: both were asked for
        assert process.stdout is not None  # noqa: S101
        try:
            yield process.stdin, process.stdout
        finally:
            with contextlib.suppress(OSError):  # it may have exited before reading everything
                process.stdin.close()
            try:
                process.wait(end_secs)
            except subprocess.TimeoutExpired:
                process.kill()
