"""Tuning a graph's kernels into a database."""
import html
import os
import re
import sys
from pathlib import Path

from . import _core, _errors

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def parse_budget(budget):
    """Seconds: a number, or text such as ``"90s"``, ``"2m"``, ``"1.5h"``."""
    if isinstance(budget, (int, float)) and budget > 0:
        return float(budget)
    match = re.fullmatch(r"([0-9.]+)\s*([smh]?)", str(budget))
    if not match or float(match.group(1)) <= 0:
        raise _errors.make("bad_argument", f"bad_argument: budget: {budget!r}\n  works: seconds, \"90s\", \"2m\", \"1h\"")
    return float(match.group(1)) * _UNITS[match.group(2)]


def find_worker():
    """The program that runs candidates: of the package; empty leaves the search to the library."""
    packaged = Path(__file__).parent / "bin" / "loopwright-worker"
    return str(packaged) if packaged.exists() and "LOOPWRIGHT_WORKER" not in os.environ else ""


class Report(dict):
    """What a tuning run did: run, workloads (list of dicts), cancelled, elapsed_s. Prints as a table."""

    def __str__(self):
        lines = [f"{'family':<24} {'default us':>11} {'best us':>11} {'gain':>6} {'trials':>7} {'ranges':>7}"]
        for w in self["workloads"]:
            gain = f"{w['default_ns'] / w['best_ns']:.2f}x" if w["best_ns"] else "-"
            lines.append(f"{w['family'][:24]:<24} {w['default_ns'] / 1e3:>11.2f} {w['best_ns'] / 1e3:>11.2f} {gain:>6} "
                         f"{w['trials']:>7} {w['ranges']:>7}")
        lines.append(f"{self['elapsed_s']:.1f} s" + (", stopped early" if self["cancelled"] else ""))
        return "\n".join(lines)


    def _repr_html_(self):
        return f"<pre>{html.escape(str(self))}</pre>"


class _Bar:
    """Progress on one line of a terminal or of a notebook's output."""

    def __call__(self, p):
        best = f"{p['default_ns'] / 1e3:.2f} -> {p['best_ns'] / 1e3:.2f} us" if p["best_ns"] else "no result yet"
        share = min(1.0, p["elapsed_s"] / max(p["elapsed_s"] + p["left_s"], 1e-9))
        done = round(20 * share)
        line = (f"[{'#' * done}{'.' * (20 - done)}] {p['left_s']:.0f} s left, kernel {p['workload_index'] + 1} of {p['workload_count']} "
                f"({p['workload'][:24]}, {p['phase']}), {p['trials']} trials, {best}")
        sys.stderr.write("\r" + line[:119].ljust(119))
        sys.stderr.flush()

    def finish(self):
        sys.stderr.write("\n")


def _choose_observer(progress):
    """Of `progress=` of tune. A notebook's kernel has no terminal and shows the line all the same."""
    if progress is None:
        progress = sys.stderr.isatty() or "ipykernel" in sys.modules
    return (_Bar() if progress else None) if isinstance(progress, bool) else progress


def tune(graph, db="loopwright.db", budget="60s", device="cpu", *, max_trials=0, seed=1, progress=None):
    """Tunes every kernel of `graph` on `device` and keeps the results in the database `db` (made when missing).

    `graph` is a Graph, or an object made by `loopwright.compile` that has been called once; all its graphs are tuned,
    and it uses the results from then on. `budget` is wall time for everything. `max_trials` limits each kernel, 0 is no limit.
    `progress`: True prints a bar, a function gets a dict some times a second; None prints to a terminal or a notebook only.
    Ctrl-C ends the run after the trials in flight, all committed. Raises DatabaseError (also when another run has the
    file) and ArgumentError. Returns a Report.
    """
    observer, budget_s = _choose_observer(progress), parse_budget(budget)
    compiled = None if isinstance(graph, _core.Graph) else getattr(graph, "details", None)
    if compiled is None and not isinstance(graph, _core.Graph):
        raise TypeError(f"tune takes a loopwright.Graph or a compiled function, not {type(graph).__name__}")
    try:
        if compiled is not None:
            return _tune_compiled(compiled, os.fspath(db), budget_s, (max_trials, seed), observer)
        return Report(_core.tune(graph, os.fspath(db), budget_s, max_trials, seed, device, find_worker(), observer))
    finally:
        if isinstance(observer, _Bar):
            observer.finish()


def _tune_compiled(compiled, db, budget_s, limits, observer):
    graphs = compiled.graphs_to_tune()
    total = Report(run="", workloads=[], cancelled=False, elapsed_s=0.0)
    for left, (graph, device) in zip(range(len(graphs), 0, -1), graphs):
        share = (budget_s - total["elapsed_s"]) / left
        one = _core.tune(graph, db, max(share, 1.0), *limits, device, find_worker(), observer)
        total["run"] = one["run"]
        total["workloads"] += one["workloads"]
        total["cancelled"] |= one["cancelled"]
        total["elapsed_s"] += one["elapsed_s"]
        if one["cancelled"]:
            break
    compiled.use_database(db)
    return total
