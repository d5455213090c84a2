"""Planning the private file tree: what is bound, what is only a parent, and what links become."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from grader.sandbox import namespaces
from grader.sandbox.readable import View


def plan(
    paths: list[Path] | None = None, folders: list[Path] | None = None, covered: list[Path] | None = None
) -> dict[str, str]:
    view = View(*(tuple(str(path) for path in group or ()) for group in (paths, folders, covered)))
    return {step.path: step.kind for step in namespaces.plan_view(view)}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = Path(os.path.realpath(tmp_path))
    for name in ("library/site-packages/numpy", "library/site-packages/reference", "library/json", "other"):
        (root / name).mkdir(parents=True)
    (root / "library" / "os.py").write_text("")
    return root


def below(steps: dict[str, str], root: Path) -> dict[str, str]:
    return {os.path.relpath(path, root): kind for path, kind in steps.items() if path.startswith(str(root) + "/")}


def test_parents_are_folders_and_the_path_is_bound(tree: Path) -> None:
    steps = plan([tree / "library" / "json"])
    assert steps[str(tree / "library" / "json")] == "bind"
    assert all(steps[str(parent)] == "folder" for parent in (tree / "library", tree))
    assert str(tree / "other") not in steps


def test_what_lies_in_a_bound_folder_needs_nothing(tree: Path) -> None:
    assert below(plan([tree / "library", tree / "library" / "os.py"]), tree) == {"library": "bind"}


def test_a_covered_folder_shows_only_what_is_bound_in_it(tree: Path) -> None:
    packages = tree / "library" / "site-packages"
    steps = plan([tree / "library", packages / "numpy"], [packages], [packages])
    assert below(steps, tree) == {
        "library": "bind",
        "library/site-packages": "cover",
        "library/site-packages/numpy": "bind",
    }
    order = list(below(steps, tree))
    assert order == sorted(order)


def test_a_folder_is_covered_only_where_something_shows_it(tree: Path) -> None:
    assert below(plan([tree / "other"], [], [tree / "library" / "site-packages"]), tree) == {
        "other": "bind",
        "library": "folder",
    }


def test_links_are_made_again_and_followed(tree: Path) -> None:
    (tree / "absolute").symlink_to(tree / "library")
    (tree / "other" / "relative").symlink_to("../library/os.py")
    steps = plan([tree / "absolute" / "json", tree / "other" / "relative"])
    assert below(steps, tree) == {
        "absolute": "link",
        "library": "folder",
        "library/json": "bind",
        "other": "folder",
        "other/relative": "link",
        "library/os.py": "bind",
    }


def test_links_without_end_and_missing_paths_are_left_out(tree: Path) -> None:
    (tree / "a").symlink_to("b")
    (tree / "b").symlink_to("a")
    steps = plan([tree / "a", tree / "missing" / "file", Path("/proc/self/maps")])
    assert "bind" not in steps.values()
