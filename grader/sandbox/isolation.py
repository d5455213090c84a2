"""The lock around code that nobody trusts, and what of it holds on this machine.

Three moments:

- the launcher, before it forks the process that will be the zygote: `enter_namespaces`; that child, first of all: `settle`;
- a worker, right after its fork and before the submission: `lock` with a `Policy`;
- the grader, at its start: `probe`, which tries forbidden acts in a child and believes only the outcome.

Nothing here is needed for a right verdict: expected values never enter a process that hosts a submission. The lock
keeps a submission from the files, processes and network of whoever grades it.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from grader.sandbox import landlock, linux, namespaces, readable, seccomp
from grader.sandbox.readable import default_list_paths, default_read_paths

if sys.platform != "win32":
    import resource

__all__ = [
    "ENVIRONMENT",
    "Applied",
    "Entered",
    "Isolation",
    "Missing",
    "Policy",
    "default_list_paths",
    "default_read_paths",
    "enter_namespaces",
    "level_of",
    "lock",
    "probe",
    "settle",
]

NOBODY = 65534
"""The user a worker of root becomes: by convention it owns nothing."""

ENVIRONMENT = {
    # torch._dynamo, which an optimizer's first step imports, otherwise looks for a folder to write to, and fails.
    "TORCHINDUCTOR_CACHE_DIR": "/",
    # Otherwise asked of /etc/passwd, which a worker cannot read.
    "HOME": "/",
    "USER": "student",
}
"""What a worker's environment must say so that libraries do not ask for what the lock refuses."""

PROBE_SECONDS = 30.0


@dataclass(frozen=True)
class Missing:
    """A layer that does not hold: why, and what whoever runs the grader can do about it."""

    layer: str
    reason: str
    remedy: str = ""


@dataclass(frozen=True)
class Policy:
    """What a worker may do. Plain data: it crosses a pipe as JSON.

    ``read_paths`` may be read (folders with all below), names in ``list_paths`` listed, ``scratch`` written.
    ``memory_bytes`` is the address space above the size at the lock; ``tasks`` the threads above those of this user then;
    ``cpu_seconds`` a backstop behind the grader's own clock; ``file_bytes`` the size of one file in the scratch folder.
    ``uid`` is the user that a worker of root becomes, None to stay. ``layers`` is auto (all that the machine
    has) or off (limits only, for code that is trusted).
    """

    read_paths: tuple[str, ...] = ()
    list_paths: tuple[str, ...] = ()
    scratch: str | None = None
    memory_bytes: int = 2 << 30
    cpu_seconds: int = 60
    tasks: int = 64
    open_files: int = 256
    file_bytes: int = 16 << 20
    uid: int | None = NOBODY
    layers: str = "auto"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Policy:
        """Raises TypeError for a key it does not know."""
        paths = {name: tuple(data[name]) for name in ("read_paths", "list_paths") if name in data}
        return cls(**{**data, **paths})


@dataclass(frozen=True)
class Applied:
    """What `lock` set up, by its own account; `probe` says what holds."""

    layers: tuple[str, ...]
    missing: tuple[Missing, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Entered:
    """What `enter_namespaces` did. ``names`` is empty if nothing; ``uid`` is for `settle`."""

    names: tuple[str, ...]
    uid: int | None
    missing: tuple[Missing, ...]


@dataclass(frozen=True)
class Isolation:
    """What holds here, found by trying. ``level`` is full, no-namespaces or limits-only."""

    level: str
    layers: tuple[str, ...]
    missing: tuple[Missing, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def level_of(layers: Collection[str]) -> str:
    """The level that a set of layers amounts to."""
    if not {"landlock", "seccomp", "limits"} <= set(layers):
        return "limits-only"
    return "full" if "namespaces" in layers else "no-namespaces"


# --- The launcher and the zygote ---------------------------------------------------------------------------------------


def enter_namespaces(
    packages: Iterable[str] = readable.PACKAGES, also: Iterable[str] = (), writable: str | None = None
) -> Entered:
    """Enter namespaces in which only Python, ``packages`` and ``also`` exist, or change nothing at all. Never raises.

    Call it in a small, single-threaded process and then fork; only the child is inside, and it must call `settle` first.
    The worker's own modules are visible there, to be imported before a lock. ``writable`` is the folder that holds the
    scratch folders of workers.
    """
    if not linux.SUPPORTED:
        return Entered((), None, (_not_linux("namespaces"),))
    view = readable.default_view(packages)
    own = (os.path.join(readable.OWN, name) for name in ("__init__.py", "__pycache__", "sandbox", "worker"))
    steps = namespaces.plan_view(replace(view, paths=(*view.paths, *also, *own)))
    uid = NOBODY if os.geteuid() == 0 else None
    missing: tuple[Missing, ...] = ()
    said = _rehearse(steps, writable, uid, view.paths)
    if uid is not None and said.startswith("unreadable "):
        missing = (_unreadable(uid, said.removeprefix("unreadable ")),)
        uid = None
        said = _rehearse(steps, writable, uid, view.paths)
    if said != "ok":
        return Entered((), None, (_no_namespaces(said),))
    try:
        return Entered(namespaces.enter(steps, writable), uid, missing)
    except OSError as error:
        return Entered((), None, (_no_namespaces(_words(error)),))


def settle(entered: Entered) -> Entered:
    """Finish in the child of the launcher. Returns what holds; raises OSError, which the rehearsal makes unlikely."""
    if not entered.names:
        if linux.SUPPORTED:
            linux.die_with_parent()
        return entered
    names = namespaces.settle(entered.names, entered.uid)
    return Entered(names, entered.uid, entered.missing)


def _rehearse(steps: tuple[namespaces.Step, ...], writable: str | None, uid: int | None, needed: Iterable[str]) -> str:
    """Do it all in a child that then ends: "ok", "unreadable PATH", or what went wrong.

    Some systems let a process into a user namespace and then refuse it everything there; the way back is closed.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = "it died"
        try:
            names = namespaces.enter(steps, writable)
            grandchild = os.fork()
            if grandchild:
                os.close(writing)
                os.waitpid(grandchild, 0)
                os._exit(0)
            namespaces.settle(names, uid)
            blocked = _first_unreadable(needed if uid is not None else ())
            said = "ok" if blocked is None else f"unreadable {blocked}"
        except OSError as error:
            said = _words(error)
        finally:
            os.write(writing, said.encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(child, 0)
    return said or "it died"


def _first_unreadable(paths: Iterable[str]) -> str | None:
    """The first existing path that this user cannot read, in a folder also the file that makes it a package.

    Where a folder on the way is closed, that folder.
    """
    for path in paths:
        for one in (path, os.path.join(path, "__init__.py")):
            try:
                os.stat(one)
            except PermissionError:
                return _barrier(one)
            except OSError:
                continue
            if not os.access(one, os.R_OK | (os.X_OK if os.path.isdir(one) else 0), effective_ids=True):
                return one
    return None


def _barrier(path: str) -> str:
    at = "/"
    for part in os.path.dirname(path).split("/"):
        at = os.path.join(at, part)
        if not os.access(at, os.X_OK, effective_ids=True):
            return at
    return path


# --- The worker --------------------------------------------------------------------------------------------------------


def prepare(read_paths: tuple[str, ...], list_paths: tuple[str, ...]) -> int | None:
    """The file rules of a policy without a scratch folder, as a descriptor for `lock`; None where there is no Landlock.

    A zygote does this once: hundreds of rules are most of what a lock costs, and its workers inherit them. What a
    process may read of itself in /proc has another path in each; `lock` adds rules that leave nothing else there.
    """
    if not linux.SUPPORTED:
        return None
    try:
        shared = tuple(path for path in read_paths if not path.startswith("/proc/"))
        return landlock.build(_rules(Policy((*shared, "/proc"), list_paths)))
    except OSError:
        # Each lock tries anew, and says why it could not.
        return None


def lock(policy: Policy, keep_fds: Collection[int], parent: int | None = None, prepared: int | None = None) -> Applied:
    """Lock this process for good, before it runs anything of a submission's. The order is part of the design.

    ``keep_fds`` stay open, all others are closed. ``parent`` is the pid of the process that forked this one: if it has
    died already, this one ends. ``prepared`` are the policy's file rules from `prepare`. Layers that the machine lacks are reported, not raised; raises RuntimeError if there
    is a second thread, which would stay outside.
    """
    layers: list[str] = []
    missing: list[Missing] = []
    if not linux.SUPPORTED:
        missing = [_not_linux(layer) for layer in ("namespaces", "landlock", "seccomp")]
        _limit(policy, None, 0, layers, missing)
        return Applied(tuple(layers), tuple(missing))
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        raise RuntimeError(f"a process of {threads} threads cannot be locked: only this thread would be")
    size = _address_space()
    _volunteer_for_out_of_memory()
    if policy.layers == "off":
        _close_all_but(keep_fds, layers)
        _limit(policy, size, _count_tasks(), layers, missing)
        _follow(parent)
        return Applied(tuple(layers), tuple(missing))

    _change_user(policy, layers, missing)
    linux.prctl(linux.PR_SET_DUMPABLE, 1)
    _attempt("capabilities", linux.drop_capabilities, layers, missing)
    _close_all_but({*keep_fds, prepared} if prepared is not None else keep_fds, layers)
    # As the user it is now, and while /proc can still be listed.
    tasks = _count_tasks()
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    try:
        if prepared is None:
            landlock.enforce(landlock.build(_rules(policy)))
        else:
            own = landlock.build(_rules_of_its_own(policy))
            landlock.enforce(prepared)
            landlock.enforce(own)
        layers.append("landlock")
    except OSError as error:
        missing.append(_no_landlock(error))
    _limit(policy, size, tasks, layers, missing)
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
    _follow(parent)
    machine = seccomp.architecture()
    if machine is None:
        missing.append(
            Missing(
                "seccomp",
                f"no table of system calls for this machine ({seccomp.describe_machine()})",
                "grade on x86-64 or aarch64 with a 64-bit Python",
            )
        )
    else:
        confined = "landlock" in layers
        scratch = policy.scratch is not None and confined
        code = seccomp.program(machine, os.getpid(), scratch=scratch, read_only=not confined)
        try:
            seccomp.install(code)
            layers.append("seccomp")
        except OSError as error:
            missing.append(_no_seccomp(error))
    return Applied(tuple(layers), tuple(missing))


def _rules(policy: Policy) -> list[tuple[str, int]]:
    rules = [(path, landlock.DISCARD if path == os.devnull else landlock.READ) for path in policy.read_paths]
    rules += [(path, landlock.LIST) for path in policy.list_paths]
    return rules + ([(policy.scratch, landlock.WRITE)] if policy.scratch is not None else [])


def _rules_of_its_own(policy: Policy) -> list[tuple[str, int]]:
    """Of /proc what the policy names, seen from this process; all else is left to the rules that were prepared."""
    elsewhere = [(f"/{name}", landlock.ANYTHING) for name in os.listdir("/") if name != "proc"]
    return elsewhere + [(path, landlock.READ) for path in policy.read_paths if path.startswith("/proc/")]


def _change_user(policy: Policy, layers: list[str], missing: list[Missing]) -> None:
    if os.geteuid() != 0:
        layers.append("uid")
        return
    uid = policy.uid
    if uid is None:
        missing.append(Missing("uid", "asked to stay root"))
        return
    try:
        # Looked at as that user: late imports must not fail afterwards.
        os.setgroups([])
        os.setegid(uid)
        os.seteuid(uid)
        blocked = _first_unreadable(policy.read_paths)
        os.seteuid(0)
        os.setegid(0)
        if blocked is not None:
            missing.append(_unreadable(uid, blocked))
            return
        namespaces.become(uid)
        layers.append("uid")
    except OSError as error:
        missing.append(
            Missing("uid", f"root could not become user {uid}: {_words(error)}", "run the grader as an ordinary user")
        )


def _close_all_but(keep: Collection[int], layers: list[str]) -> None:
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        if fd not in keep and fd > 2:
            try:
                os.close(fd)
            except OSError:
                # The descriptor that listed the folder itself.
                pass
    for fd in {0, 1, 2} - set(keep):
        # Not left free: the next file opened would become standard output.
        null = os.open(os.devnull, os.O_RDWR)
        if null != fd:
            os.dup2(null, fd)
            os.close(null)
    layers.append("descriptors")


def _limit(policy: Policy, size: int | None, tasks: int, layers: list[str], missing: list[Missing]) -> None:
    """Resource limits, soft and hard alike, so that they cannot be raised again."""
    if sys.platform == "win32":
        missing.append(Missing("limits", "Windows has no resource limits", "grade on Linux (WSL 2 will do)"))
        return
    wanted = {
        "RLIMIT_CORE": 0,
        "RLIMIT_CPU": policy.cpu_seconds,
        "RLIMIT_NOFILE": policy.open_files,
        "RLIMIT_FSIZE": policy.file_bytes if policy.scratch is not None else 0,
        "RLIMIT_MEMLOCK": 0,
        "RLIMIT_MSGQUEUE": 0,
    }
    if size is not None:
        wanted["RLIMIT_AS"] = size + policy.memory_bytes
        wanted["RLIMIT_NPROC"] = tasks + policy.tasks
    refused = []
    for name, value in wanted.items():
        number = getattr(resource, name, None)
        if number is None:
            continue
        hard = resource.getrlimit(number)[1]
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        try:
            resource.setrlimit(number, (most, most))
        except (OSError, ValueError) as error:
            refused.append(f"{name}: {error}")
    if refused:
        missing.append(Missing("limits", "; ".join(refused)))
    elif size is None:
        layers.append("limits")
        missing.append(Missing("memory", f"{sys.platform} does not hold a process to a size; only polling does"))
    else:
        layers.append("limits")


def _address_space() -> int:
    """Virtual size in bytes; torch alone is more than half a gigabyte before it computes anything."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def _count_tasks() -> int:
    """Threads of this user that can be seen: the kernel counts them all against RLIMIT_NPROC."""
    uid, count = os.getuid(), 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                # This folder has one link for each thread, besides its own two.
                status = os.stat(f"/proc/{name}/task")
                count += status.st_nlink - 2 if status.st_uid == uid else 0
            except OSError:
                continue
    return count


def _volunteer_for_out_of_memory() -> None:
    """If the machine itself runs out, let the kernel end this process and not the grader."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass


def _follow(parent: int | None) -> None:
    linux.die_with_parent()
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _attempt(layer: str, step: Any, layers: list[str], missing: list[Missing]) -> None:
    try:
        step()
        layers.append(layer)
    except OSError as error:
        missing.append(Missing(layer, _words(error)))


# --- What holds --------------------------------------------------------------------------------------------------------


def probe(enter: bool = True, layers: str = "auto", python: str = sys.executable) -> Isolation:
    """Try forbidden acts in a process of its own and report which layers refused them. Never raises.

    ``enter=False`` leaves namespaces out, as on a machine that denies them.
    """
    if not linux.SUPPORTED:
        applied = ("limits",) if sys.platform != "win32" else ()
        return Isolation(
            "limits-only", applied, tuple(_not_linux(name) for name in ("namespaces", "landlock", "seccomp"))
        )
    # Only the grader probes; workers need neither.
    import json
    import subprocess

    root = os.path.dirname(readable.OWN)
    boot = f"import sys; sys.path.insert(0, {root!r}); from grader.sandbox import probe; probe.main(sys.argv[1:])"
    environment = {"LANG": "C.UTF-8", **ENVIRONMENT}
    try:
        done = subprocess.run(
            [python, "-I", "-B", "-c", boot, "enter" if enter else "stay", layers],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd="/",
            timeout=PROBE_SECONDS,
            check=True,
        )
        data = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        words = getattr(error, "stderr", None) or b""
        reason = words.decode("utf-8", "replace").strip().rpartition("\n")[2] or str(error)
        return Isolation("limits-only", (), (Missing("probe", f"the probe did not finish: {reason}"),))
    missing = tuple(Missing(**entry) for entry in data["missing"])
    return Isolation(level_of(data["layers"]), tuple(data["layers"]), missing)


# --- Reasons and remedies ----------------------------------------------------------------------------------------------


def _words(error: OSError) -> str:
    where = f" ({error.filename})" if error.filename else ""
    return f"{error.strerror or error}{where}"


def _not_linux(layer: str) -> Missing:
    name = {"darwin": "macOS", "win32": "Windows"}.get(sys.platform, sys.platform)
    return Missing(
        layer,
        f"{name} does not have it; only limits hold",
        "grade untrusted code on Linux (a container or WSL 2 will do)",
    )


def _no_namespaces(reason: str) -> Missing:
    remedy = "in a container: run it with --cap-add SYS_ADMIN, or with a seccomp profile that allows unshare"
    for path, denies, key in (
        ("/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces=10000"),
        ("/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
        (
            "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    ):
        try:
            with open(path) as file:
                if file.read().strip() == denies:
                    remedy = f"sysctl -w {key}"
        except OSError:
            continue
    return Missing("namespaces", f"the system denies them: {reason}", remedy)


def _no_landlock(error: OSError) -> Missing:
    if error.errno == errno.ENOSYS:
        return Missing("landlock", "this kernel has no Landlock", "use Linux 5.13 or newer, built with it")
    if error.errno == errno.EOPNOTSUPP:
        return Missing("landlock", "Landlock was switched off at boot", "add landlock to the kernel's lsm= parameter")
    return Missing(
        "landlock", f"Landlock was refused: {_words(error)}", "allow its calls in the container's seccomp profile"
    )


def _no_seccomp(error: OSError) -> Missing:
    return Missing(
        "seccomp", f"the filter was refused: {_words(error)}", "use a kernel built with CONFIG_SECCOMP_FILTER"
    )


def _unreadable(uid: int, path: str) -> Missing:
    return Missing(
        "uid",
        f"root stays root, without its privileges: user {uid} cannot read {path}",
        "run the grader as an ordinary user, or install Python where every user can read it",
    )
