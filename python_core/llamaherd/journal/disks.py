"""Whether a file is on a disk of this machine or on a network drive."""

from __future__ import annotations

import re
import sys
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOUNTS = Path("/proc/self/mountinfo")
# Types of file systems that several machines see, by the names of their kinds.
_NETWORK = re.compile(
    r"(fuse\.|fuseblk\.)?"
    r"(nfs[0-9]*|cifs|smb[0-9]*|smbfs|ncpfs|afs|afpfs|webdav|davfs2?|9p|lustre|gpfs|mmfs"
    r"|beegfs|fhgfs|ceph(-fuse)?|cephfs|glusterfs|orangefs|pvfs2?|panfs|wekafs|gfs2?|ocfs2"
    r"|quobyte|moosefs|mfs|lizardfs|saunafs|juicefs|sshfs|rclone|s3fs|gcsfuse|blobfuse2?"
    r"|goofys|hdfs|vboxsf|prl_fs|acfs|dvs)",
    re.IGNORECASE,
)
_ESCAPE = re.compile(r"\\([0-7]{3})")  # of white space in names


def network_type(path: Path, mounts: Path = _MOUNTS) -> str | None:
    """The type of the network drive that a file is on, such as "nfs4".

    Args:
        path: Absolute, without links; the file need not be there.
        mounts: Where Linux tells what is mounted where.

    Returns:
        The type; None: it is on a disk of this machine, or nobody knows.

    Source: proc_pid_mountinfo(5).
    """
    try:
        found = _of_linux(mounts) if sys.platform == "linux" else _of_others()
        above = {path, *path.parents}
        # What is mounted later covers what was there before.
        kinds = [
            (len(place.parts), i, kind)
            for i, (place, kind) in enumerate(found)
            if place in above
        ]
    except (OSError, ValueError):
        return None
    kind = max(kinds)[2] if kinds else ""
    return kind if _NETWORK.fullmatch(kind) else None


def _of_linux(mounts: Path) -> Iterator[tuple[PurePath, str]]:
    """What is mounted: where, and of which type."""
    for line in mounts.read_bytes().decode(errors="surrogateescape").splitlines():
        before, dash, after = line.partition(" - ")
        fields = before.split(" ")
        if dash and len(fields) > 4:
            place = _ESCAPE.sub(lambda match: chr(int(match[1], 8)), fields[4])
            yield PurePath(place), after.split(" ")[0]


def _of_others() -> Iterator[tuple[PurePath, str]]:
    for part in psutil.disk_partitions(all=True):
        is_remote = "remote" in part.opts.split(",")  # as Windows says it
        yield PurePath(part.mountpoint), "smb" if is_remote else part.fstype
