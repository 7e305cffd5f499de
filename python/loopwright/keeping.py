"""What outlives a process: default schedules in a database of the user's own, and the shapes that programs were called with."""
import atexit
import logging
import os
from pathlib import Path

from . import _core, _errors

log = logging.getLogger("loopwright")
_said = set()


def _say(level, topic, message, *values):
    """Once a process for each topic."""
    if topic not in _said:
        _said.add(topic)
        log.log(level, message, *values)


def find_cache():
    """Path of the database that keeps compiled default schedules; empty when nothing is kept. ``LOOPWRIGHT_CACHE`` is a folder, or
    ``0`` or ``off``; without it XDG_CACHE_HOME or ~/.cache hold the folder ``loopwright``."""
    folder = os.environ.get("LOOPWRIGHT_CACHE")
    if folder is not None and folder.lower() in ("", "0", "off"):
        return ""
    try:
        folder = Path(folder) if folder else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "loopwright"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:  # a user without a home
        _say(logging.WARNING, "cache", "compiled kernels are not kept: %s", error)
        return ""
    return str(folder / "kernels.db")


def find_record():
    """Path of the database that gets the shapes of calls (``LOOPWRIGHT_RECORD``), or empty."""
    return os.environ.get("LOOPWRIGHT_RECORD", "")


def plan_graph(graph, databases, on_miss, device):
    """A plan of a graph for a device. Tuned kernels come from the databases, then from the one of LOOPWRIGHT_RECORD; default
    schedules from the cache, where those that are compiled here are kept."""
    record = find_record()
    if record and os.path.exists(record):
        databases = [*databases, record]
    plan = _core.plan_graph(graph, databases, on_miss, device, find_cache() if on_miss == "jit" else "", record)
    if plan.trouble:
        _say(logging.WARNING, "cache", "compiled kernels are not kept: %s", plan.trouble)
    if plan.compiled or plan.kept:
        _say(logging.INFO, "defaults", "default schedules serve %s and what follows: loopwright.tune, or LOOPWRIGHT_RECORD=FILE and "
             "`loopwright tune --wanted --db FILE`, finds quicker ones", graph.name)
    return plan


@atexit.register
def write_recordings():
    """Writes the shapes of calls that no tuned kernel served since the last time; also done at exit."""
    try:
        _core.write_recordings()
    except _errors.Error as error:
        _say(logging.WARNING, "record", "shapes are not recorded: %s", error)
