"""What a worker may read: Python's own library and the packages a submission may import, each by name.

Never a whole site-packages folder: references and other people's work may be installed there. Never this package.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

PACKAGES = ("numpy", "torch", "einops")
# What these import only when first used, so after the lock: an optimizer's first step imports torch._dynamo, which
# imports sympy; nvidia and triton are the folders of torch's default Linux wheel.
COMPANIONS = {
    "torch": (
        "torchgen", "functorch", "typing_extensions", "sympy", "mpmath", "networkx", "jinja2", "markupsafe", "fsspec",
        "filelock", "opt_einsum", "optree", "packaging", "setuptools", "_distutils_hack", "pkg_resources", "nvidia", "triton",
        "cuda", "intel_extension_for_pytorch",
    ),
    "numpy": ("mkl", "scipy_openblas64"),
}  # fmt: skip

_SYSTEM = (
    # NumPy and Python ask for randomness; output may be thrown away.
    "/dev/urandom", "/dev/random", "/dev/null", "/dev/zero",
    # The number and kind of processors: torch chooses its kernels by them on the first operation.
    "/sys/devices/system/cpu", "/sys/devices/system/node", "/proc/cpuinfo", "/proc/meminfo",
    # A process about itself: libffi looks for its own code in maps, tools for their own size in the others.
    "/proc/self/maps", "/proc/self/status", "/proc/self/statm",
    # Time zones and the names of locales; nothing private.
    "/etc/localtime", "/usr/share/zoneinfo", "/usr/lib/locale",
    # Where the dynamic linker finds the libraries of extension modules that are imported late (sqlite3, lzma, ...).
    "/etc/ld.so.cache", "/lib64", "/usr/lib64", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
)  # fmt: skip
_INSTALLED = ("site-packages", "dist-packages")
OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""This package's folder."""


@dataclass(frozen=True)
class View:
    """A file tree to build: ``paths`` with all below, of ``folders`` only the folder, of ``covered`` ones nothing."""

    paths: tuple[str, ...]
    folders: tuple[str, ...]
    covered: tuple[str, ...]


def default_read_paths(packages: Iterable[str] = PACKAGES, never: Iterable[str] = ()) -> tuple[str, ...]:
    """Every file and folder a worker may read, for the interpreter that runs this.

    ``never`` names what must stay unreadable (this package always does): a system folder around it is left out,
    a package in it raises ValueError. Nothing is imported to find this out.
    """
    library = _library()
    names = os.listdir(library)
    if any(name in _INSTALLED for name in names):
        # Installed packages live inside the library's own folder, so it is opened entry by entry.
        inside = [os.path.join(library, name) for name in sorted(names) if name not in _INSTALLED]
    else:
        inside = [library]
    return tuple(dict.fromkeys([*_packages(packages, never), *inside, *_beside_library(never)]))


def default_list_paths() -> tuple[str, ...]:
    """The folders whose names may be listed: Python lists a folder of its path before it imports from it."""
    return (*_installed(), _library())


def default_view(packages: Iterable[str] = PACKAGES, never: Iterable[str] = ()) -> View:
    """The same as a file tree, where the library is one entry with its installed packages covered up."""
    covered = (os.path.join(_library(), name) for name in _INSTALLED)
    paths = [*_packages(packages, never), _library(), *_beside_library(never)]
    return View(
        tuple(dict.fromkeys(paths)), tuple(_installed()), tuple(path for path in covered if os.path.isdir(path))
    )


def _packages(packages: Iterable[str], never: Iterable[str]) -> list[str]:
    asked = list(packages)
    wanted = dict.fromkeys([*asked, *(name for package in asked for name in COMPANIONS.get(package, ()))])
    found = [path for name in wanted for path in _package(name)]
    closed = _closed(never)
    for path in found:
        if any(_overlap(os.path.realpath(path), one) for one in closed):
            raise ValueError(f"{path} may not be readable for a submission and stay hidden from it at once")
    return found


def _beside_library(never: Iterable[str]) -> Iterator[str]:
    closed = _closed(never)
    paths = [entry for entry in sys.path if entry.endswith(".zip") or os.path.basename(entry) == "lib-dynload"]
    for path in (*paths, *_shared_libraries(), *_SYSTEM):
        if os.path.lexists(path) and not any(_overlap(os.path.realpath(path), one) for one in closed):
            yield path


def _closed(never: Iterable[str]) -> list[str]:
    return [os.path.realpath(path) for path in (OWN, *never)]


def _library() -> str:
    """The folder of Python's standard library."""
    return os.path.dirname(os.path.abspath(os.__file__))


def _installed() -> list[str]:
    # Not the rest of sys.path: a file in the current folder that is called torch.py is not torch.
    return [entry for entry in sys.path if os.path.basename(entry) in _INSTALLED and os.path.isdir(entry)]


def _shared_libraries() -> Iterator[str]:
    """The libraries beside Python itself (pyenv, conda, /usr/local): single files, since packages live there too."""
    folder = os.path.join(sys.base_prefix, "lib")
    if sys.base_prefix != "/usr" and os.path.isdir(folder):
        yield from (
            os.path.join(folder, name) for name in sorted(os.listdir(folder)) if ".so" in name or ".dylib" in name
        )


def _package(name: str) -> Iterator[str]:
    """The folders or the file of a top-level module, its bundled libraries, and its metadata."""
    spec = importlib.machinery.PathFinder.find_spec(name, _installed())
    if spec is None:
        return
    places = list(spec.submodule_search_locations or ([spec.origin] if spec.origin else []))
    yield from places
    for beside in dict.fromkeys(os.path.dirname(place) for place in places):
        for entry in os.listdir(beside):
            stem, dot, kind = entry.rpartition(".")
            libraries = kind == "libs" and stem == name
            metadata = kind == "dist-info" and _plain(stem.partition("-")[0]) == _plain(name)
            if dot and (libraries or metadata):
                yield os.path.join(beside, entry)


def _plain(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")


def _overlap(one: str, other: str) -> bool:
    return one == other or one.startswith(other + os.sep) or other.startswith(one + os.sep)
