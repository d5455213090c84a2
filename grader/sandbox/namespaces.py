"""Namespaces: a network without interfaces, processes that cannot see others, and a file tree of a few folders.

Two steps in two processes, because only a child lives in a new pid namespace: the launcher calls `enter` and forks;
the child, pid 1 of that namespace, calls `settle`. When pid 1 dies, the kernel kills all that it started.

Root unshares directly and gives up its user in `settle`; an ordinary user first enters a user namespace, which is what
entitles it to the others. Both raise OSError and may leave the process halfway, so `grader.sandbox.isolation`
rehearses them in a child first.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from grader.sandbox import linux
from grader.sandbox.readable import View

_ALL_BUT_USER = linux.CLONE_NEWNS | linux.CLONE_NEWNET | linux.CLONE_NEWPID | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS
_NAMES = ("mount", "net", "pid", "ipc", "uts")
_OLD_ROOT = "/.old"
_MOST_LINKS = 40  # the kernel's own limit on following symbolic links


@dataclass(frozen=True)
class Step:
    """One entry of the file tree to build.

    ``kind`` is folder, link (to ``target``), bind (of the same path in the old tree) or cover (an empty folder over one
    that a bind shows).
    """

    kind: str
    path: str
    target: str = ""


def plan_view(view: View) -> tuple[Step, ...]:
    """The steps that make ``view`` reachable under its own names: parents and symbolic links on the way included.

    Missing paths are left out, and /proc is not planned: it gets a mount of its own.
    """
    wanted = {os.path.abspath(path): "bind" for path in view.paths if not path.startswith("/proc/")}
    wanted |= {os.path.abspath(path): "folder" for path in view.folders}
    wanted |= {os.path.abspath(path): "cover" for path in view.covered}
    steps: dict[str, Step] = {}
    # In this order a folder comes before what lies in it.
    for path in sorted(wanted):
        _plan(path, wanted[path], steps)
    return tuple(steps.values())


def _plan(path: str, kind: str, steps: dict[str, Step]) -> None:
    here, ahead, links = "/", path.split("/"), 0
    while ahead:
        part = ahead.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            here = os.path.dirname(here)
            continue
        at = os.path.join(here, part)
        try:
            mode = os.lstat(at).st_mode
            target = os.readlink(at) if stat.S_ISLNK(mode) else ""
        except OSError:
            return
        shown = _shown(at, steps)
        if target:
            links += 1
            if links > _MOST_LINKS:
                return
            if not shown:
                steps[at] = Step("link", at, target)
            ahead = target.split("/") + ahead
            here = "/" if target.startswith("/") else here
            continue
        here = at
        if any(rest not in ("", ".") for rest in ahead):
            if not shown:
                steps.setdefault(at, Step("folder", at))
        elif shown == (kind == "cover"):
            # Put last: it may replace a folder that was planned as another path's parent.
            steps.pop(at, None)
            steps[at] = Step(kind, at)


def _shown(path: str, steps: dict[str, Step]) -> bool:
    """Whether a planned bind already brings ``path`` along."""
    while path != "/":
        if path in steps and steps[path].kind in ("bind", "cover"):
            return steps[path].kind == "bind"
        path = os.path.dirname(path)
    return False


def enter(steps: tuple[Step, ...], writable: str | None) -> tuple[str, ...]:
    """Move this process into new namespaces and the file tree of ``steps``; returns their names. Raises OSError.

    ``writable`` is the one folder that may be changed there (within what Landlock leaves to each worker).
    """
    linux.prctl(linux.PR_SET_DUMPABLE, 1)
    names = _unshare()
    _build_view(steps, writable)
    return names


def _unshare() -> tuple[str, ...]:
    if os.geteuid() == 0:
        try:
            linux.unshare(_ALL_BUT_USER)
            return _NAMES
        except PermissionError:
            # Root of a container, without CAP_SYS_ADMIN: it has only what an ordinary user has.
            pass
    uid, gid = os.geteuid(), os.getegid()
    linux.unshare(linux.CLONE_NEWUSER | _ALL_BUT_USER)
    _map_user(uid, gid)
    return ("user", *_NAMES)


def _map_user(uid: int, gid: int) -> None:
    # The process keeps its own number: it is not even called root. The kernel demands setgroups=deny before gid_map.
    for name, text in (("setgroups", "deny"), ("gid_map", f"{gid} {gid} 1"), ("uid_map", f"{uid} {uid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _build_view(steps: tuple[Step, ...], writable: str | None) -> None:
    linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)
    # A small file system in memory becomes the root; the folder it is first mounted on reappears with the old root.
    _mount_memory("/tmp")
    os.mkdir("/tmp" + _OLD_ROOT)
    linux.pivot_root("/tmp", "/tmp" + _OLD_ROOT)
    os.chdir("/")
    mask = os.umask(0o022)
    try:
        for step in steps:
            if step.kind == "link":
                os.symlink(step.target, step.path)
            elif step.kind == "folder":
                os.makedirs(step.path, exist_ok=True)
            elif step.kind == "cover":
                _mount_memory(step.path)
            else:
                _bind(step.path)
                linux.freeze_mounts(step.path, below=True)
        if writable is not None:
            _bind(writable)
        # Also what the kernel compares a fresh /proc with: it mounts one only where it sees one.
        _bind("/proc")
    finally:
        os.umask(mask)
    linux.unmount(_OLD_ROOT, linux.MNT_DETACH)
    os.rmdir(_OLD_ROOT)
    for path in ("/", *(step.path for step in steps if step.kind == "cover")):
        linux.freeze_mounts(path, below=False)


def _mount_memory(path: str) -> None:
    linux.mount("tmpfs", path, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=755,size=1m")


def _bind(path: str) -> None:
    old = _OLD_ROOT + path
    if stat.S_ISDIR(os.stat(old).st_mode):
        os.makedirs(path, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    linux.mount(old, path, None, linux.MS_BIND | linux.MS_REC)


def settle(names: tuple[str, ...], uid: int | None) -> tuple[str, ...]:
    """Finish in pid 1: a /proc of this namespace only, no root (if ``uid`` is given), no capabilities.

    ``names`` is what `enter` returned; returns it with what was added. Raises OSError.
    """
    try:
        linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
    except OSError:
        # A container that masks parts of /proc may not mount a fresh one. The outer one stays; Landlock closes it.
        pass
    if uid is not None:
        become(uid)
    if "user" not in names:
        # Not needed to get here, but in one of its own this user's threads are counted apart from all others.
        try:
            own = os.geteuid(), os.getegid()
            linux.unshare(linux.CLONE_NEWUSER)
            _map_user(*own)
            names = ("user", *names)
        except OSError:
            pass
    linux.drop_capabilities()
    linux.die_with_parent()
    # Neither memory nor descriptors of this process are open to another one of the same user.
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    return names


def become(uid: int) -> None:
    """Turn root into the user and group ``uid`` for good. Raises OSError."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    # The change of user made /proc/self root's; without this the process could not even write its own maps.
    linux.prctl(linux.PR_SET_DUMPABLE, 1)
