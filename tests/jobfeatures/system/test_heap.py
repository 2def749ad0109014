"""The heap of a program with threads stays one, and what is free in it is given back."""

import platform
import subprocess
import sys

import pytest

from jobfeatures.system import heap

# All threads live while each allocates: none takes over the arena of one that has ended.
PROGRAM = """
import ctypes, sys, threading
from jobfeatures.system import heap
if sys.argv[1] == "one":
    heap.share_one_arena()
libc, start = ctypes.CDLL(None), threading.Barrier(4)
libc.malloc.restype, libc.malloc_info.argtypes = ctypes.c_void_p, (ctypes.c_int, ctypes.c_void_p)
def work():
    libc.malloc(ctypes.c_size_t(1000))
    start.wait()
threads = [threading.Thread(target=work) for _ in range(4)]
for each in threads:
    each.start()
for each in threads:
    each.join()
libc.fopen.restype = ctypes.c_void_p
libc.fopen.argtypes = (ctypes.c_char_p, ctypes.c_char_p)
libc.fflush.argtypes = (ctypes.c_void_p,)
out = libc.fopen(b"/dev/stdout", b"w")
libc.malloc_info(0, out)
libc.fflush(out)
"""


@pytest.mark.program
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="this machine has no glibc")
@pytest.mark.parametrize("how", ["one", "many"])
def test_threads_share_one_heap_once_they_are_told_to(how):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how], stdout=subprocess.PIPE, text=True, check=True, timeout=60
    )
    assert (done.stdout.count("<heap nr=") == 1) is (how == "one")


def test_another_c_library_is_left_alone(monkeypatch):
    monkeypatch.setattr(heap.ctypes, "CDLL", lambda _name: object())
    heap.share_one_arena()
    heap.give_back_free_memory()
