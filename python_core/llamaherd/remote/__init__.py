"""Servers in separate processes, and their jobs.

A server is identified by its name. Its folder contains its data. Jobs therefore survive
the end of the server, and of the process that started the server.
"""

from llamaherd.remote.client import RemoteServer
from llamaherd.remote.jobs import (
    JobOutput,
    RemoteJob,
    Task,
    cancel_job,
    job_results,
    job_status,
    list_jobs,
    submit_job,
)
from llamaherd.remote.models import Models
from llamaherd.remote.processes import (
    FOLDER_VARIABLE,
    list_servers,
    server_named,
    start_server,
    stop_server,
)

__all__ = [
    "FOLDER_VARIABLE",
    "JobOutput",
    "Models",
    "RemoteJob",
    "RemoteServer",
    "Task",
    "cancel_job",
    "job_results",
    "job_status",
    "list_jobs",
    "list_servers",
    "server_named",
    "start_server",
    "stop_server",
    "submit_job",
]
