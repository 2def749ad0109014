"""Calls libbpf through ctypes: loads an object file, runs its iterator program, and reads its maps."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import logging
import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from struct import Struct

from jobfeatures.system.privatefile import opened

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
    "bpf_program__attach_cgroup": (_POINTER, _POINTER, _INT),
    "bpf_program__set_autoload": (_INT, _POINTER, ctypes.c_bool),
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
    """The libbpf library. Creating it raises OSError if the library or a required function is missing."""

    def __init__(self) -> None:
        self._library = _open()
        for name, (result, *arguments) in _FUNCTIONS.items():
            try:
                function = getattr(self._library, name)
            except AttributeError:
                raise OSError(errno.ENOSYS, f"libbpf has no function {name}") from None
            function.restype, function.argtypes = result, arguments
        if hasattr(self._library, "libbpf_set_strict_mode"):
            self._library.libbpf_set_strict_mode(_STRICT)
        # A callback needs memory that is both writable and executable: created for debugging only.
        self._log_line = _Print(_log_line) if log.isEnabledFor(logging.DEBUG) else None
        self._library.libbpf_set_print(self._log_line)

    def call(self, name: str, *arguments: object) -> int:
        """Call the function `name` of libbpf; return its result. Raises OSError if the result is negative."""
        ctypes.set_errno(0)
        result = getattr(self._library, name)(*arguments)
        if _FUNCTIONS[name][0] is None:
            return 0
        if result is None or result < 0:
            code = ctypes.get_errno() or (-result if result else errno.EINVAL)
            raise OSError(code, os.strerror(code), name)
        return int(result)

    def lookup(self, descriptor: int, key: bytes, size: int) -> bytes:
        """Return the value, which has `size` bytes, that a BPF map has for a key; `descriptor` is the map's.

        Raises OSError, and FileNotFoundError if the map does not have the key.
        """
        value = ctypes.create_string_buffer(size)
        self.call("bpf_map_lookup_elem", descriptor, key, value)
        return value.raw


def _log_line(level: int, form: bytes, arguments: int) -> int:
    """Log the library's messages, including the verifier's; level 2 (debug) is omitted."""
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
    raise OSError(errno.ENOENT, f"no libbpf: cannot load {' or '.join(NAMES)}")


def load_object(
    bpf: Bpf,
    path: str,
    *,
    constants: bytes,
    hooks: Sequence[str],
    iterator: str,
    packets: Sequence[str],
    group: str | None,
    maps: Mapping[str, int],
) -> dict[str, int]:
    """Load the BPF object file at `path` and attach its programs; return open descriptors by name.

    The result has a link for each attached program, the `maps`, and as ``NAME-program`` the programs in
    `hooks`. A program runs as long as its link is open. `constants` is the content of the object's read-only
    data. `maps` has the maximum number of entries of each map, 0: as in the file. The programs in `packets`
    are attached to the control group at `group`, or not loaded if it is None. If anything fails, OSError is
    raised and nothing stays attached.
    """
    stem = os.path.basename(path).partition(".")[0]
    links: list[int] = []
    found: dict[str, int] = {}
    it = bpf.call("bpf_object__open_file", path.encode(), None)

    def map_of(name: str) -> int:
        try:
            return bpf.call("bpf_object__find_map_by_name", it, name.encode())
        except OSError:  # 0.x names the sections' maps after the object too
            return bpf.call("bpf_object__find_map_by_name", it, f"{stem}{name}".encode())

    def program_of(name: str) -> int:
        return bpf.call("bpf_object__find_program_by_name", it, name.encode())

    def keep(name: str, descriptor: int) -> None:
        found[name] = os.dup(descriptor)  # the library closes its own

    try:
        size = ctypes.c_size_t(len(constants))
        bpf.call("bpf_map__set_initial_value", map_of(".rodata"), constants, size)
        for name, entries in maps.items():
            if entries:
                bpf.call("bpf_map__set_max_entries", map_of(name), entries)
        for name in packets:
            bpf.call("bpf_program__set_autoload", program_of(name), group is not None)
        bpf.call("bpf_object__load", it)
        for name in hooks:
            links.append(bpf.call("bpf_program__attach", program_of(name)))
            keep(name, bpf.call("bpf_link__fd", links[-1]))
            keep(f"{name}-program", bpf.call("bpf_program__fd", program_of(name)))
        if group is not None:
            with opened(group, os.O_RDONLY | os.O_DIRECTORY) as place:
                for name in packets:
                    links.append(bpf.call("bpf_program__attach_cgroup", program_of(name), place))
                    keep(name, bpf.call("bpf_link__fd", links[-1]))
        links.append(bpf.call("bpf_program__attach_iter", program_of(iterator), None))
        keep(iterator, bpf.call("bpf_link__fd", links[-1]))
        for name in maps:
            keep(name, bpf.call("bpf_map__fd", map_of(name)))
    except OSError:
        close_all(found)
        raise
    finally:
        for link in links:
            bpf.call("bpf_link__destroy", link)
        bpf.call("bpf_object__close", it)
    return found


def close_all(descriptors: Mapping[str, int]) -> None:
    """Close these descriptors. The kernel removes programs and maps that no other process holds open."""
    for each in descriptors.values():
        os.close(each)


def run_iterator(bpf: Bpf, link: int) -> None:
    """Run the BPF iterator program with this link's descriptor once. Raises OSError if that fails."""
    descriptor = bpf.call("bpf_iter_create", link)
    try:
        while os.read(descriptor, 4096):
            pass
    finally:
        os.close(descriptor)


def read_misses(bpf: Bpf, program: int) -> int:
    """Return how often the kernel has skipped a BPF program; `program` is the program's descriptor.

    It does so if the CPU is already running the program. Raises OSError if the count cannot be read.
    """
    info, size = ctypes.create_string_buffer(_INFO_BYTES), ctypes.c_uint32(_INFO_BYTES)
    bpf.call("bpf_obj_get_info_by_fd", program, info, ctypes.byref(size))
    misses: int = _KEY.unpack_from(info.raw, _MISSES_AT)[0]
    return misses


class Table:
    """A BPF hash map with keys of 8 bytes, of which all entries are read again and again."""

    def __init__(self, bpf: Bpf, descriptor: int, *, value_bytes: int, max_entries: int) -> None:
        self._bpf = bpf
        self._descriptor = descriptor
        self._value_bytes = value_bytes
        self._max_entries = max_entries
        # Pages that are never touched take no memory.
        self._keys = mmap.mmap(-1, max_entries * _KEY.size)
        self._values = mmap.mmap(-1, max_entries * value_bytes)
        self._addresses = [
            ctypes.addressof(ctypes.c_char.from_buffer(each)) for each in (self._keys, self._values)
        ]
        self._place = ctypes.create_string_buffer(8)

    def read(self) -> Iterator[tuple[int, bytes]]:
        """Yield each key of the map with its value as bytes. Raises OSError if that fails."""
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
        """Set the value of a key in the map. Raises OSError if that fails."""
        self._bpf.call("bpf_map_update_elem", self._descriptor, _KEY.pack(key), value, 0)

    def delete(self, key: int) -> None:
        """Delete a key from the map if it is there. Raises OSError if that fails."""
        with contextlib.suppress(FileNotFoundError):
            self._bpf.call("bpf_map_delete_elem", self._descriptor, _KEY.pack(key))
