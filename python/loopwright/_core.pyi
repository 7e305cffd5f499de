"""The extension. Errors are those of loopwright._errors."""
from collections.abc import Callable, Sequence
from typing import Any

__version__: str

class Graph:
    """A tensor graph: symbols, inputs, ops, outputs. Immutable; equal when its text is; can be pickled."""
    @staticmethod
    def parse(text: str, file: str = "graph") -> Graph:
        """Reads graph text (docs/lw.md). GraphError names file, line and column."""
    @staticmethod
    def load(path: str) -> Graph:
        """Reads a graph file."""
    @property
    def name(self) -> str: ...
    @property
    def text(self) -> str:
        """Canonical text; reads back to an equal graph."""
    @property
    def inputs(self) -> dict[str, str]:
        """Type of each input as text, e.g. ``f32[tokens, 2880]``, in order."""
    @property
    def outputs(self) -> dict[str, str]: ...
    @property
    def symbols(self) -> dict[str, tuple[int, int]]:
        """Smallest and largest value (inclusive) of each symbol."""

class Plan:
    """A graph made ready for one device."""
    @property
    def name(self) -> str: ...
    @property
    def inputs(self) -> list[str]: ...
    @property
    def outputs(self) -> list[str]: ...
    @property
    def symbols(self) -> dict[str, tuple[int, int]]: ...
    @property
    def kernels(self) -> list[str]: ...
    @property
    def compiled(self) -> int:
        """How many kernels' default schedules were compiled for it."""
    @property
    def kept(self) -> int:
        """How many kernels' default schedules came from the cache."""
    @property
    def trouble(self) -> str:
        """Why the cache could not be read or written; empty when it could."""
    @property
    def notes(self) -> list[str]: ...
    def explain(self, sizes: dict[str, int]) -> str: ...
    def choose(self, sizes: dict[str, int]) -> list[dict[str, Any]]:
        """What serves each kernel: `family`, `workload`, `label`, `guard`, `origin` ("tuned", "stored default", "kept default" or
        "default"), `match`, `median_ns` (what the database measured at the main sizes of its range, or 0), `loss_mean`, `loss_worst`."""
    def flush_wanted(self) -> None: ...

class Call:
    """The callable object. Positional and keyword arguments by `names`, and `out=`, `stream=`. Unknown attributes are those of
    `details`. Of these, ``_miss(values, error, seen)`` is asked when no program fits: it may `add` one and return None, or return where a
    tensor is that requires a gradient, as a source of `add`; then, and as long as that tensor does, ``_differentiate(values)`` gives the
    result. `nesting` 1: ``_call_nested(values, out, stream)`` takes calls with lists, tuples or dicts as arguments; 2:
    ``_call_unbound(positional, named)`` takes every call. `by_graph`: what a call launches on a GPU may go as one CUDA graph."""
    def __new__(cls, names: tuple[str, ...], defaults: tuple[Any, ...], details: Any, nesting: int = 0,
                by_graph: bool = False) -> Call: ...
    def __call__(self, *arguments: Any, out: Any = None, stream: int | None = None, **named: Any) -> Any: ...
    @property
    def details(self) -> Any: ...
    @property
    def by_graph(self) -> bool: ...
    def add(self, plan: Plan, sources: list[Any], guards: list[tuple[Any, Any, Any]], constants: list[tuple[int, Any]],
            returned: list[tuple[str, Any]], unflatten: Callable[[tuple[Any, ...]], Any] | None) -> None:
        """One more way to serve calls. `sources`, one for each input of the plan: an argument's position, (dict, key), or (tensor,).
        `guards`: (dict, key, object) or (cell, None, object) that must be that very object. `constants`: (position, value).
        `returned`: ("output", i), ("argument", i) or ("object", value); `unflatten` None returns the one element itself."""
    def reset(self) -> None:
        """Forgets every way to serve calls."""

def plan_graph(graph: Graph, databases: Sequence[str], on_miss: str, device: str, cache: str = "", record: str = "") -> Plan:
    """`cache`: database that keeps default schedules compiled here. `record`: database for the shapes of calls."""
def write_recordings() -> None:
    """Writes what plans with `record` were called with since the last time."""
def load_plan(name: str, databases: Sequence[str], on_miss: str, device: str) -> Plan: ...
def tune(graph: Graph, database: str, budget_s: float, max_trials: int, seed: int, device: str, worker: str,
         observer: Callable[[dict[str, Any]], None] | None) -> dict[str, Any]: ...
def database_info(path: str) -> dict[str, Any]: ...
def database_rows(path: str, what: str) -> list[str]: ...
def database_best(path: str) -> list[dict[str, Any]]: ...
def database_merge(path: str, source: str, policy: str, dry_run: bool, reason: str) -> dict[str, Any]: ...
def database_import(path: str, file: str, policy: str, dry_run: bool, reason: str) -> dict[str, Any]: ...
def database_export(path: str, file: str, with_trials: bool, with_artifacts: bool) -> None: ...
def database_check(path: str) -> list[dict[str, Any]]: ...
