"""What a worker may read: named packages and Python itself, and nothing that lies beside them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from grader.sandbox import readable

SITE = ("site-packages", "dist-packages")


def covers(path: str, paths: tuple[str, ...]) -> bool:
    real = os.path.realpath(path)
    return any(real == one or real.startswith(one + os.sep) for one in map(os.path.realpath, paths))


def test_packages_are_readable_and_their_neighbours_are_not() -> None:
    paths = readable.default_read_paths()
    import numpy
    import pytest as neighbour

    assert covers(numpy.__file__, paths)
    assert covers(os.__file__, paths)
    assert not covers(neighbour.__file__, paths)
    assert not covers(__file__, paths)
    assert not any(os.path.basename(path) in SITE for path in paths)


def test_the_grader_itself_is_never_readable() -> None:
    paths = readable.default_read_paths()
    assert not covers(readable.__file__, paths)
    assert not any(os.path.realpath(readable.OWN).startswith(os.path.realpath(path) + os.sep) for path in paths)


def test_an_installed_grader_may_not_be_among_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy

    monkeypatch.setattr(readable, "OWN", numpy.__path__[0])
    with pytest.raises(ValueError, match="numpy"):
        readable.default_read_paths(("numpy",))


def test_a_package_that_must_stay_hidden_is_an_error() -> None:
    import numpy

    for hidden in (numpy.__path__[0], os.path.dirname(numpy.__path__[0]), os.path.join(numpy.__path__[0], "linalg")):
        with pytest.raises(ValueError, match="numpy"):
            readable.default_read_paths(never=(hidden,))


def test_a_system_folder_around_something_hidden_is_left_out() -> None:
    zone = "/usr/share/zoneinfo/Pacific/Tongatapu"
    assert covers(zone, readable.default_read_paths(())) == os.path.exists("/usr/share/zoneinfo")
    assert not covers(zone, readable.default_read_paths((), never=("/usr/share/zoneinfo/right",)))


def test_an_unknown_package_is_simply_not_there() -> None:
    assert readable.default_read_paths(("no_such_package_anywhere",)) == readable.default_read_paths(())


def test_a_file_in_the_current_folder_is_not_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "numpy.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not covers(str(tmp_path / "numpy.py"), readable.default_read_paths())


def test_packages_inside_the_library_folder_are_kept_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in Docker's images of Python, where site-packages lies in the library's own folder."""
    library = tmp_path / "lib" / "python3"
    for name in (
        "json",
        "site-packages/numpy",
        "site-packages/numpy-2.0.dist-info",
        "site-packages/numpy.libs",
        "site-packages/x",
    ):
        (library / name).mkdir(parents=True)
    (library / "site-packages" / "numpy" / "__init__.py").write_text("")
    (library / "os.py").write_text("")
    monkeypatch.setattr(os, "__file__", str(library / "os.py"))
    monkeypatch.setattr(sys, "path", [str(library), str(library / "site-packages")])
    paths = readable.default_read_paths(("numpy",))
    inside = {os.path.relpath(path, library) for path in paths if path.startswith(str(library))}
    site = "site-packages/"
    assert inside == {"json", "os.py", site + "numpy", site + "numpy-2.0.dist-info", site + "numpy.libs"}
    view = readable.default_view(("numpy",))
    assert str(library) in view.paths
    assert view.covered == (str(library / "site-packages"),)
    assert str(library / "site-packages") in readable.default_list_paths()


def test_finding_out_imports_nothing() -> None:
    root = str(Path(readable.OWN).parent)
    script = (
        f"import sys; sys.path.insert(0, {root!r}); from grader.sandbox import readable; before = set(sys.modules); "
        "readable.default_read_paths(); print(*[m for m in set(sys.modules) - before if m.startswith(('numpy', 'torch'))])"
    )
    done = subprocess.run([sys.executable, "-I", "-B", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
