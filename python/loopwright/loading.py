"""A graph as a callable."""
import inspect

from . import _core, _errors, database, keeping
from .compiling import check_mode
from .report import Made, whole_piece


class Loaded:
    """What a callable made by `load` knows of itself. Attributes of the callable are read from here."""

    def __init__(self, plan, graph, device):
        self.plan, self.device = plan, device
        self.graph = graph
        self.__name__ = plan.name
        self.__doc__ = f"{plan.name}({', '.join(plan.inputs)}) -> {', '.join(plan.outputs)}"
        self.__signature__ = inspect.Signature(
            [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in plan.inputs])

    def __repr__(self):
        return f"<loopwright callable {self.__doc__}>"

    @property
    def notes(self):
        """One line for each database that was looked into by name."""
        return self.plan.notes

    def explain(self, **sizes):
        """Which variant serves each kernel at these values of the symbols, and why: text for people."""
        return self.plan.explain(sizes)

    def list_pieces(self):
        """For `loopwright.explain`."""
        return [whole_piece("inference", Made(self.plan, self.device, self.plan, {}))]

    def graphs_to_tune(self):
        raise TypeError("tune takes the graph that was loaded, not the callable")

    def _miss(self, values, error, seen):
        raise error

    def _differentiate(self, values):
        raise _errors.refuse_gradients(self.__name__, self.plan.inputs, values)

    def _refuse_copy(self):
        raise TypeError(f"{self!r} holds machine code and cannot be copied or pickled; ship the database and load again")


def load(graph, db=None, on_miss=None, device="cpu", mode=None):
    """A callable for `graph`: a Graph, or the name (or digest) of a plan in the databases `db`, most important first.

    `on_miss` says what happens at sizes that no tuned range serves: "strict" fails, "default" takes the general variant
    of the database, "jit" compiles the default schedule. None is "jit" for a Graph and "default" for a name, which needs no
    compiler. `device`: "cpu", "cuda" or "cuda:N". `mode`: "reduce-overhead" as in `compile`.

    The callable takes the graph's inputs in order or by name: NumPy arrays and buffers (CPU), torch tensors, or any DLPack
    producer. It returns one array or a tuple, of the kind of the inputs; `out=` gives where to write instead; `stream=`
    is a CUDA stream as an integer (default: torch's current one, else the default stream). It raises ArgumentError
    with the argument's name for a wrong dtype, device, rank, size or strides.

    Raises NotFound for an unknown name or without a variant, Unsupported for a device that is not there.
    """
    paths, by_graph = database.list_paths(db), check_mode(mode)
    if isinstance(graph, _core.Graph):
        plan = keeping.plan_graph(graph, paths, on_miss or "jit", device)
    elif isinstance(graph, str):
        plan, graph = _core.load_plan(graph, paths, on_miss or "default", device), None
    else:
        raise TypeError(f"load takes a loopwright.Graph or a name, not {type(graph).__name__}")
    names = tuple(plan.inputs)
    if set(names) & {"out", "stream"}:
        raise _errors.make("unsupported", "unsupported: an input named out or stream, which are arguments of every call")
    call = _core.Call(names, (...,) * len(names), Loaded(plan, graph, device), 0, by_graph)
    count = len(plan.outputs)
    call.add(plan, list(range(len(names))), [], [], [("output", i) for i in range(count)], None if count == 1 else tuple)
    return call
