"""Detection of files on network drives."""

from __future__ import annotations

import re
import sys
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOUNTS = Path("/proc/self/mountinfo")
# Types of file systems that several machines share.
_NETWORK = re.compile(
    r"(fuse\.|fuseblk\.)?"
    r"(nfs[0-9]*|cifs|smb[0-9]*|smbfs|ncpfs|afs|afpfs|webdav|davfs2?|9p|lustre|gpfs|mmfs"
    r"|beegfs|fhgfs|ceph(-fuse)?|cephfs|glusterfs|orangefs|pvfs2?|panfs|wekafs|gfs2?|ocfs2"
    r"|quobyte|moosefs|mfs|lizardfs|saunafs|juicefs|sshfs|rclone|s3fs|gcsfuse|blobfuse2?"
    r"|goofys|hdfs|vboxsf|prl_fs|acfs|dvs)",
    re.IGNORECASE,
)
_ESCAPE = re.compile(r"\\([0-7]{3})")  # white space in names is escaped


def network_type(path: Path, mounts: Path = _MOUNTS) -> str | None:
    """Return the type of the network drive that contains a file, such as "nfs4".

    Args:
        path: Absolute path without symbolic links; the file need not exist.
        mounts: Path of the table of mounts of Linux.

    Returns:
        The type; None for a local disk or if unknown.

    Source: proc_pid_mountinfo(5).
    """
    if sys.platform == "win32" and _is_share(path):
        return "smb"
    try:
        found = _of_linux(mounts) if sys.platform == "linux" else _of_others()
        above = {path, *path.parents}
        # A later mount hides earlier mounts at the same path.
        kinds = [
            (len(mount_point.parts), i, kind)
            for i, (mount_point, kind) in enumerate(found)
            if mount_point in above
        ]
    except (OSError, ValueError):
        return None
    kind = max(kinds)[2] if kinds else ""
    return kind if _NETWORK.fullmatch(kind) else None


def _is_share(path: PurePath) -> bool:
    r"""Whether a path of Windows names a shared folder, as `\\server\folder`.

    `os.path.realpath` returns such a path also for a letter that a shared folder has.
    """
    text = str(path).upper()
    is_device = text.startswith(("\\\\?\\", "\\\\.\\"))
    return text.startswith("\\\\?\\UNC\\" if is_device else "\\\\")


def _of_linux(mounts: Path) -> Iterator[tuple[PurePath, str]]:
    """Yield the mount points and types of file systems."""
    for line in mounts.read_bytes().decode(errors="surrogateescape").splitlines():
        before, dash, after = line.partition(" - ")
        fields = before.split(" ")
        if dash and len(fields) > 4:
            mount_point = _ESCAPE.sub(lambda match: chr(int(match[1], 8)), fields[4])
            yield PurePath(mount_point), after.split(" ")[0]


def _of_others() -> Iterator[tuple[PurePath, str]]:
    for part in psutil.disk_partitions(all=True):
        is_remote = "remote" in part.opts.split(",")  # on Windows
        yield PurePath(part.mountpoint), "smb" if is_remote else part.fstype
