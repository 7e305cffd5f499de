"""Tuning databases: what they hold, merging, text."""
import json
import os

from . import _core

_LISTS = ("best", "workloads", "plans", "runs", "devices", "trials")


class Database:
    """One SQLite file with tuned kernels. The file is opened by each method and never kept open.

    Methods raise DatabaseError when the file is missing, damaged, locked or newer than this version.
    """

    def __init__(self, path):
        self.path = os.fspath(path)

    def __repr__(self):
        return f"<loopwright.Database {self.path}>"

    def __fspath__(self):
        return self.path

    def info(self):
        """A dict: path, uuid, created_by, schema, generation, bytes, access, and rows by table."""
        return _core.database_info(self.path)

    def list(self, what="best"):
        """Rows as dicts. `what`: best, workloads, plans, runs, devices or trials. Times are nanoseconds."""
        if what == "best":
            return _core.database_best(self.path)
        return [json.loads(line) for line in _core.database_rows(self.path, what)]

    def merge(self, source, policy="newest", dry_run=False, reason=""):
        """Takes the rows of the database `source`. Machine code is not taken: it is rebuilt here and verified.

        `policy` says which of two results for one range and device stays: newest, fastest, most-rigorous, or fail.
        Returns counts by table, conflicts, and how many results are to be verified before they are served.
        """
        return _core.database_merge(self.path, os.fspath(source), policy, dry_run, reason)

    def export(self, path, with_trials=False, with_artifacts=False):
        """Writes JSON lines to `path`: the same content gives the same bytes."""
        _core.database_export(self.path, os.fspath(path), with_trials, with_artifacts)

    def import_lines(self, path, policy="newest", dry_run=False, reason=""):
        """Merges a file that `export` wrote."""
        return _core.database_import(self.path, os.fspath(path), policy, dry_run, reason)

    def check(self):
        """Looks the file over: a list of dicts with severity (fine, note, warning, damage), check and detail."""
        return _core.database_check(self.path)


def list_paths(db):
    """Paths of `db`, which is nothing, one database or path, or several, most important first."""
    if db is None:
        return []
    if isinstance(db, (str, os.PathLike)):
        return [os.fspath(db)]
    return [os.fspath(d) for d in db]
