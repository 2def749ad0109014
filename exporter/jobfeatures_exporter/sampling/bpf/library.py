"""libbpf by ctypes: loading an object, running its iterator, reading its maps."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import logging
import mmap
import os
from collections.abc import Iterator, Mapping
from struct import Struct

log = logging.getLogger(__name__)

NAMES = ("libbpf.so.1", "libbpf.so.0")
_STRICT = 0xFFFFFFFF  # 0.x then returns NULL and sets errno, as 1.x does
_POINTER, _INT, _TEXT = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
_FUNCTIONS = {
    "bpf_object__open_file": (_POINTER, _TEXT, _POINTER),
    "bpf_object__load": (_INT, _POINTER),
    "bpf_object__close": (None, _POINTER),
    "bpf_object__find_program_by_name": (_POINTER, _POINTER, _TEXT),
    "bpf_object__find_map_by_name": (_POINTER, _POINTER, _TEXT),
    "bpf_program__attach": (_POINTER, _POINTER),
    "bpf_program__attach_iter": (_POINTER, _POINTER, _POINTER),
    "bpf_program__fd": (_INT, _POINTER),
    "bpf_link__fd": (_INT, _POINTER),
    "bpf_link__destroy": (_INT, _POINTER),
    "bpf_map__fd": (_INT, _POINTER),
    "bpf_map__set_initial_value": (_INT, _POINTER, _POINTER, ctypes.c_size_t),
    "bpf_map__set_max_entries": (_INT, _POINTER, ctypes.c_uint32),
    "bpf_iter_create": (_INT, _INT),
    "bpf_map_lookup_elem": (_INT, _INT, _POINTER, _POINTER),
    "bpf_map_update_elem": (_INT, _INT, _POINTER, _POINTER, ctypes.c_uint64),
    "bpf_map_delete_elem": (_INT, _INT, _POINTER),
    "bpf_map_lookup_batch": (_INT, _INT, _POINTER, _POINTER, _POINTER, _POINTER, _POINTER, _POINTER),
    "bpf_obj_get_info_by_fd": (_INT, _INT, _POINTER, _POINTER),
    "libbpf_set_print": (_POINTER, _POINTER),
}
_Print = ctypes.CFUNCTYPE(_INT, _INT, _TEXT, _POINTER)
_KEY = Struct("=Q")
_INFO_BYTES = 256
_MISSES_AT = 208  # recursion_misses of struct bpf_prog_info, since Linux 5.12


class Bpf:
    """The library. Raises OSError where it is not there, or lacks what is called."""

    def __init__(self) -> None:
        self._library = _open()
        for name, (result, *arguments) in _FUNCTIONS.items():
            try:
                function = getattr(self._library, name)
            except AttributeError:
                raise OSError(errno.ENOSYS, f"libbpf has no {name}") from None
            function.restype, function.argtypes = result, arguments
        if hasattr(self._library, "libbpf_set_strict_mode"):
            self._library.libbpf_set_strict_mode(_STRICT)
        # What the library calls takes memory that is written and run: made for debugging only.
        self._tell = _Print(_tell) if log.isEnabledFor(logging.DEBUG) else None
        self._library.libbpf_set_print(self._tell)

    def call(self, name: str, *arguments: object) -> int:
        """Call what returns a pointer, or a number that is negative for failure. Raises OSError."""
        ctypes.set_errno(0)
        result = getattr(self._library, name)(*arguments)
        if _FUNCTIONS[name][0] is None:
            return 0
        if result is None or result < 0:
            code = ctypes.get_errno() or (-result if result else errno.EINVAL)
            raise OSError(code, os.strerror(code), name)
        return int(result)

    def lookup(self, descriptor: int, key: bytes, size: int) -> bytes:
        """Return a map's value. Raises OSError, FileNotFoundError where there is none."""
        value = ctypes.create_string_buffer(size)
        self.call("bpf_map_lookup_elem", descriptor, key, value)
        return value.raw


def _tell(level: int, form: bytes, arguments: int) -> int:
    """Log what the library says, with it the verifier's words; at level 2 it tells every step."""
    if level < 2:
        text = ctypes.create_string_buffer(2**16)
        print_to = ctypes.CDLL(None).vsnprintf
        print_to.argtypes = (_TEXT, ctypes.c_size_t, _TEXT, _POINTER)
        print_to(text, len(text), form, arguments)
        log.debug("%s", text.value.decode("utf-8", "replace").rstrip())
    return 0


def _open() -> ctypes.CDLL:
    for name in NAMES:
        try:
            return ctypes.CDLL(name, use_errno=True)
        except OSError:
            continue
    raise OSError(errno.ENOENT, f"no {' or '.join(NAMES)}")


class Object:
    """A loaded object; what is attached stays so until `close` or the process ends."""

    def __init__(
        self,
        bpf: Bpf,
        path: str,
        *,
        constants: bytes,
        hooks: tuple[str, ...],
        iterator: str,
        sizes: Mapping[str, int],
    ) -> None:
        """Load and attach everything, with maps of these sizes. Raises OSError, with nothing left behind."""
        self._bpf = bpf
        self._links: list[int] = []
        self._stem = os.path.basename(path).partition(".")[0]
        self._object = bpf.call("bpf_object__open_file", path.encode(), None)
        try:
            size = ctypes.c_size_t(len(constants))
            bpf.call("bpf_map__set_initial_value", self._map(".rodata"), constants, size)
            for name, entries in sizes.items():
                bpf.call("bpf_map__set_max_entries", self._map(name), entries)
            bpf.call("bpf_object__load", self._object)
            for name in hooks:
                self._links.append(bpf.call("bpf_program__attach", self._program(name)))
            self._links.append(bpf.call("bpf_program__attach_iter", self._program(iterator), None))
            self._iterator = bpf.call("bpf_link__fd", self._links[-1])
        except OSError:
            self.close()
            raise
        self._hooks = [bpf.call("bpf_program__fd", self._program(name)) for name in hooks]

    def close(self) -> None:
        """Detach and unload."""
        for link in self._links:
            self._bpf.call("bpf_link__destroy", link)
        self._links.clear()
        if self._object:
            self._bpf.call("bpf_object__close", self._object)
            self._object = 0

    def run(self) -> None:
        """Let the iterator go over all tasks. Raises OSError."""
        descriptor = self._bpf.call("bpf_iter_create", self._iterator)
        try:
            while os.read(descriptor, 4096):
                pass
        finally:
            os.close(descriptor)

    def misses(self) -> int:
        """Return how often hooks were not run because the processor was in one of them. Raises OSError."""
        total = 0
        for descriptor in self._hooks:
            info, size = ctypes.create_string_buffer(_INFO_BYTES), ctypes.c_uint32(_INFO_BYTES)
            self._bpf.call("bpf_obj_get_info_by_fd", descriptor, info, ctypes.byref(size))
            total += _KEY.unpack_from(info.raw, _MISSES_AT)[0]
        return total

    def map(self, name: str) -> int:
        """Return a map's descriptor. Raises OSError."""
        return self._bpf.call("bpf_map__fd", self._map(name))

    def _map(self, name: str) -> int:
        try:
            return self._bpf.call("bpf_object__find_map_by_name", self._object, name.encode())
        except OSError:  # 0.x names the sections' maps after the object too
            full = f"{self._stem}{name}".encode()
            return self._bpf.call("bpf_object__find_map_by_name", self._object, full)

    def _program(self, name: str) -> int:
        return self._bpf.call("bpf_object__find_program_by_name", self._object, name.encode())


class Table:
    """A hash with keys of 8 bytes, read whole, again and again."""

    def __init__(self, bpf: Bpf, descriptor: int, *, value_bytes: int, max_entries: int) -> None:
        self._bpf = bpf
        self._descriptor = descriptor
        self._value_bytes = value_bytes
        self._max_entries = max_entries
        # What is never touched takes no memory.
        self._keys = mmap.mmap(-1, max_entries * _KEY.size)
        self._values = mmap.mmap(-1, max_entries * value_bytes)
        self._addresses = [
            ctypes.addressof(ctypes.c_char.from_buffer(each)) for each in (self._keys, self._values)
        ]
        self._place = ctypes.create_string_buffer(8)

    def read(self) -> Iterator[tuple[int, bytes]]:
        """Yield keys and values. Raises OSError."""
        begun = False
        more = True
        size = self._value_bytes
        while more:
            count = ctypes.c_uint32(self._max_entries)
            place = self._place if begun else None
            try:
                self._bpf.call(
                    "bpf_map_lookup_batch",
                    self._descriptor,
                    place,
                    self._place,
                    *self._addresses,
                    ctypes.byref(count),
                    None,
                )
            except FileNotFoundError:
                more = False
            begun = True
            values = self._values[: count.value * size]
            keys = _KEY.iter_unpack(self._keys[: count.value * _KEY.size])
            for number, (key,) in enumerate(keys):
                yield key, values[number * size : (number + 1) * size]

    def put(self, key: int, value: bytes) -> None:
        """Set an element. Raises OSError."""
        self._bpf.call("bpf_map_update_elem", self._descriptor, _KEY.pack(key), value, 0)

    def delete(self, key: int) -> None:
        """Delete an element; one that is not there is as good."""
        with contextlib.suppress(FileNotFoundError):
            self._bpf.call("bpf_map_delete_elem", self._descriptor, _KEY.pack(key))
