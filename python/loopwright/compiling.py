"""`compile`: a PyTorch function or module as one callable object. The object itself is in C; this is what it asks when a call
does not fit what was traced so far."""
import functools
import inspect
import re
import threading

from . import _core, _errors, aten, database, keeping
from . import accuracy as _accuracy
from .report import Made, sizes_in, sizes_of, whole_piece

MAX_PROGRAMS = 16


def _parse_dynamic(dynamic):
    """parameter name -> dimension -> (name or None, lo, hi)."""
    from .tracing import DEFAULT_RANGE, Symbol

    parsed = {}
    for argument, dims in dynamic.items():
        items = dims.items() if isinstance(dims, dict) else enumerate(dims)
        for d, spec in items:
            if spec is None or spec is False:
                continue
            if isinstance(spec, str):
                symbol = Symbol(spec, *DEFAULT_RANGE)
            elif isinstance(spec, tuple) and len(spec) == 3 and isinstance(spec[0], str):
                symbol = Symbol(*spec)
            elif isinstance(spec, tuple) and len(spec) == 2:
                symbol = Symbol(f"{argument}_{d}", *spec)
            elif spec is True:
                symbol = Symbol(f"{argument}_{d}", *DEFAULT_RANGE)
            else:
                raise _errors.make("bad_argument", f"bad_argument: dynamic: {argument}, dimension {d}: {spec!r}\n  works: a name, "
                                                   "(name, low, high), (low, high) or True")
            parsed.setdefault(argument, {})[d] = symbol
    return parsed


class Compiled:
    """What a compiled callable knows of itself. Attributes of the callable are read from here."""

    def __init__(self, target, dynamic, db, accuracy, on_miss, retrace, by_graph):
        import torch

        self.target = target
        self.databases = database.list_paths(db)
        self.accuracy = accuracy
        self.on_miss = on_miss
        self.retrace = retrace
        self.by_graph = by_graph
        self.declared = None if dynamic is None else _parse_dynamic(dynamic)
        self.programs = []
        self.training = None  # made by the first call that a gradient flows through
        self._lock = threading.RLock()
        try:
            self.__signature__ = inspect.signature(target.forward if isinstance(target, torch.nn.Module) else target)
        except ValueError:
            raise TypeError(f"compile takes a Python function or a torch.nn.Module; {target!r} does not tell its parameters, a "
                            "lambda that calls it does") from None
        self.__name__ = getattr(target, "__name__", type(target).__name__)
        self.__doc__ = getattr(target, "__doc__", None)
        self.parameters = list(self.__signature__.parameters.values())
        self.names = [p.name for p in self.parameters]
        self.takes_any = any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in self.parameters)
        self.nested = []  # (structure, Flat) of calls whose arguments hold tensors
        bases = {re.match(r"\w*", name).group() for name in self.declared or ()}
        unknown = set() if any(p.kind == p.VAR_KEYWORD for p in self.parameters) else bases - set(self.names)
        if unknown or {"out", "stream"} & set(self.names):
            raise _errors.make("bad_argument", f"bad_argument: compile {self.__name__}: dynamic names {sorted(unknown)}; the "
                                               f"parameters are {self.names}, and none may be named out or stream")

    def make_call(self):
        defaults = tuple(... if p.default is p.empty else p.default for p in self.parameters)
        self.call = _core.Call(tuple(self.names), defaults, self, 2 if self.takes_any else 1, self.by_graph)
        return self.call

    def arrange(self, values):
        """Positional and named arguments of the target."""
        split = sum(p.kind != p.KEYWORD_ONLY for p in self.parameters)
        return values[:split], dict(zip(self.names[split:], values[split:]))

    def __repr__(self):
        return f"<loopwright.compile({self.__name__}{self.__signature__}), {len(self.programs)} programs>"

    # ---- what a person may ask
    def _list_made(self):
        """(graph, device, plan) of everything made so far: inference, then forward and backward parts of training."""
        made = [(traced.graph, traced.device, plan) for traced, plan in self.programs] + (self.training.compilation.made if self.training else [])
        return made + [part for _, flat in self.nested for part in flat._list_made()]

    @property
    def graphs(self):
        """The graphs traced so far, as loopwright.Graph."""
        return [graph for graph, _, _ in self._list_made()]

    @property
    def graph(self):
        """The graph traced last. Raises ArgumentError before the first call."""
        if not self.graphs:
            raise _errors.make("wrong_arguments", f"wrong_arguments: {self.__name__} has not been called yet, so there is no graph")
        return self.graphs[-1]

    def list_pieces(self):
        """For `loopwright.explain`: inference, then what was made for training."""
        pieces = []
        for traced, plan in self.programs:
            given = [(text, traced.key[source][2]) for text, source in zip(traced.graph.inputs.values(), traced.sources)
                     if isinstance(source, int)]
            sizes = sizes_of([sizes_in(text) for text, _ in given], [shape for _, shape in given])
            pieces.append(whole_piece("inference", Made(traced.graph, traced.device, plan, sizes)))
        pieces += self.training.compilation.pieces if self.training else []
        return pieces + [piece for _, flat in self.nested for piece in flat.list_pieces()]

    def explain(self, **sizes):
        """Text for people: for each graph, its kernels and which variant serves each at these values of the symbols."""
        lines = []
        for graph, device, plan in self._list_made():
            values = {name: sizes.get(name, lo) for name, (lo, hi) in plan.symbols.items()}
            at = ", ".join(f"{n} = {v}" for n, v in values.items())
            lines.append(f"{graph.name} on {device}{' at ' + at if at else ''}: {len(plan.kernels)} kernels")
            lines.append(plan.explain(values))
        return "\n".join(lines) or f"{self.__name__} has not been called yet"

    def graphs_to_tune(self):
        if not self.graphs:
            raise _errors.make("wrong_arguments", f"wrong_arguments: tune {self.__name__}: it has not been called yet, so its sizes "
                                                  "and dtypes are unknown\n  works: one call, then tune")
        return [(graph, device) for graph, device, _ in self._list_made()]

    def use_database(self, path):
        """Looks the kernels up again, in `path` first."""
        with self._lock:
            self.databases = [path] + [d for d in self.databases if d != path]
            traced = [t for t, _ in self.programs]
            self.programs, self.training = [], None
            self.call.reset()
            for t in traced:
                self._add(t)
            for _, flat in self.nested:
                flat.use_database(path)

    # ---- what the callable asks
    def _refuse_copy(self):
        raise TypeError(f"{self!r} holds machine code and cannot be copied or pickled; compile the function again, or ship "
                        "its graph (.graph.text) and a database and use loopwright.load")

    def _add(self, traced):
        plan = keeping.plan_graph(traced.graph, self.databases, self.on_miss, traced.device)
        self.call.add(plan, traced.sources, traced.guards, traced.constants, traced.returned, traced.unflatten)
        self.programs.append((traced, plan))

    def _miss(self, values, error, seen):
        """A call fits none of the `seen` programs: traces again where that is allowed, else raises what was wrong. What it returns is
        a tensor that a gradient has to flow to in this call, as `find_trained` tells it, or None."""
        from .tracing import find_trained, trace

        with self._lock:
            if len(self.programs) > seen:
                return None  # of another thread; it may fit
            if (trained := find_trained(self.target, values)) is not None:
                return trained
            key = self._check(values)
            symbols = self._choose_symbols(values, key, error)
            if len(self.programs) >= MAX_PROGRAMS:
                raise _errors.make("unsupported", f"unsupported: call {self.__name__}: {MAX_PROGRAMS} programs were traced already, for "
                                                  "other sizes, strides or modules\n  works: dynamic= for sizes that change, "
                                                  "contiguous() tensors") from error
            traced = trace(self.target, self.names, values, self.arrange, symbols, self.accuracy)
            traced.key = key
            self._add(traced)
            return None

    def _differentiate(self, values):
        """The result of a call that a gradient flows through: forward now, backward later, both by generated kernels."""
        from .training import Training

        if any(isinstance(v, (list, tuple, dict)) for v in values):
            return self._call_nested(values, None, None)
        self._check(values)
        if self.declared is not None:
            self._check_declared(values)
        with self._lock:
            if self.training is None:
                self.training = Training(self.target, self.arrange, self.databases, self.on_miss, self.accuracy, self.by_graph)
            training = self.training
        return training(self.names, values, self.declared or {})

    def _call_nested(self, values, out, stream):
        """The result of a call whose arguments are or hold lists, tuples or dicts."""
        from .nesting import call_flat, holds_tensors

        for i, (name, value) in enumerate(zip(self.names, values)):
            if isinstance(value, (list, tuple, dict)) and not holds_tensors(value) and any(t.key[i][2] is not None for t, _ in self.programs):
                raise TypeError(f"argument `{name}`: a {type(value).__name__} without tensors, and a tensor was traced there")
        return call_flat(self, dict(zip(self.names, values)), out, stream)

    def _call_unbound(self, positional, named):
        """The same where the function takes any arguments."""
        from .nesting import call_flat

        out, stream = named.pop("out", None), named.pop("stream", None)
        bound = self.__signature__.bind(*positional, **named)
        bound.apply_defaults()
        return call_flat(self, dict(bound.arguments), out, stream)

    def _check(self, values):
        """What tells programs apart: for each argument its type, and of a tensor dtype, device and sizes."""
        import torch

        key = []
        for name, value in zip(self.names, values):
            if isinstance(value, torch.Tensor):
                if type(value) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
                    raise TypeError(f"argument `{name}`: {type(value).__name__} is a subclass of torch.Tensor with behaviour of its "
                                    "own; plain tensors work")
                if value.layout != torch.strided:
                    raise TypeError(f"argument `{name}`: a tensor of layout {value.layout}; dense tensors work")
                key.append((value.dtype, value.device, tuple(value.shape)))
            elif value is None or isinstance(value, (bool, int, float, str, torch.dtype, torch.device)):
                key.append((type(value), value, None))
            else:
                raise TypeError(f"argument `{name}`: a {type(value).__name__}; tensors and plain values work")
        return key

    def _choose_symbols(self, values, key, error):
        """The symbols to trace with; raises `error`, or one of the same kind, when these arguments are not allowed."""
        from .tracing import Symbol

        for traced, _ in self.programs:
            kinds = [(a, b, len(s) if s is not None else None) for a, b, s in traced.key]
            if not self.retrace and kinds != [(a, b, len(s) if s is not None else None) for a, b, s in key]:
                raise self._refuse(traced.key, key, error)
        if self.declared is not None:
            self._check_declared(values)
            if not self.retrace and self.programs and all(not self._sizes_fit(t.key, key) for t, _ in self.programs):
                raise error
            return self.declared
        symbols = {}
        for i, (name, value) in enumerate(zip(self.names, values)):
            marks = set(getattr(value, "_dynamo_dynamic_indices", ())) | set(getattr(value, "_dynamo_weak_dynamic_indices", ()))
            for d in range(len(key[i][2] or ())):
                changed = any(t.key[i][2] is not None and t.key[i][2][d:d + 1] != key[i][2][d:d + 1] for t, _ in self.programs)
                if d in marks or (changed and key[i][2][d] > 1):
                    hi = max(65536, 4 * key[i][2][d])
                    symbols.setdefault(name, {})[d] = Symbol(None, 1 if d in marks else 2, hi)
        return symbols

    def _sizes_fit(self, old, new):
        """Whether only sizes that are declared dynamic differ."""
        for name, (_, _, a), (_, _, b) in zip(self.names, old, new):
            dynamic = self.declared.get(name, {})
            if a is not None and any(x != y and d not in dynamic for d, (x, y) in enumerate(zip(a, b))):
                return False
        return True

    def _check_declared(self, values):
        for name, value in zip(self.names, values):
            for d, symbol in self.declared.get(name, {}).items():
                shape = getattr(value, "shape", ())
                if d >= len(shape) or not symbol.lo <= shape[d] <= symbol.hi:
                    raise _errors.make("out_of_range", f"out_of_range: call {self.__name__}: argument `{name}` has shape {list(shape)}\n  "
                                                       f"dimension {d} is {symbol.name} in {symbol.lo}..{symbol.hi}")

    def _refuse(self, old, new, error):
        """The exception for arguments of another kind than was traced."""
        for name, a, b in zip(self.names, old, new):
            if a[:2] == b[:2] or (a[2] is not None and b[2] is not None and error is not None):
                continue
            was, now = (f"{x[0]} on {x[1]}" if x[2] is not None else repr(x[1]) for x in (a, b))
            return _errors.make("wrong_arguments", f"wrong_arguments: call {self.__name__}: argument `{name}` is {now}\n  traced "
                                                   f"with {was}\n  works: the same kind, or compile(..., retrace=True)")
        return error


def check_mode(mode):
    """Whether calls go by CUDA graphs. Raises ArgumentError for another mode than there are."""
    if mode not in (None, "default", "reduce-overhead"):
        raise _errors.make("bad_argument", f"bad_argument: mode {mode!r}\n  works: \"default\" or \"reduce-overhead\"")
    return mode == "reduce-overhead"


def compile(target=None, *, dynamic=None, db=None, accuracy=None, on_miss="jit", retrace=False, mode=None):
    """A callable that computes what the function or module `target` does, by generated kernels.

    It is traced at the first call, on the arguments of that call, and reads parameters and buffers anew at each call, so
    that `load_state_dict` and reassignment stay right. A replaced submodule or `train()` is traced again.

    `dynamic`: which sizes change between calls, e.g. ``{"x": {0: "tokens"}}``, ``{"x": {0: ("tokens", 1, 8192)}}`` or
    ``{"x": {1: True}}``; a name alone means 1 to 65536, and one name is one size. Other sizes are then fixed, and another
    one is an ArgumentError. None: a size that changes becomes a symbol by tracing once more, and dimensions marked by
    `torch._dynamo.mark_dynamic` are symbols at once. Nothing is traced or compiled again for sizes that are symbols.
    `db`: databases with tuned kernels, most important first. `on_miss`: "jit" compiles default schedules where there is no
    tuned kernel, "default" and "strict" as in `load`. `accuracy`: "strict", no worse than float32 arithmetic with one
    rounding a tensor; "tf32", products of float32 tensors may round their factors as TF32 does; None, what PyTorch is set to for
    CUDA when the function is traced (`torch.set_float32_matmul_precision`), and strict on a CPU. `retrace`: whether another dtype, device, rank or plain value is traced again instead of an error.
    `mode`: "reduce-overhead" launches the kernels of calls that repeat as one CUDA graph where that takes the host less (docs/runtime.md,
    Graphs); results, memory and what a call may be given stay as they are. On a CPU it changes nothing.

    Arguments may be lists, tuples and dicts that hold tensors, and the function may take ``*args`` and ``**kwargs``: each structure is
    traced of its own. There `dynamic` names a tensor as ``"x[0]"`` or all of an argument as ``"x"``.

    Tensors may be views with any strides; each pattern of strides is traced once. Results are fresh dense tensors of torch's
    allocator (also where eager PyTorch would return a view), or those given by `out=`, on the current stream.

    Where gradients are enabled and a tensor requires one, the call goes through PyTorch's autograd: forward and backward are
    captured by torch.compile and AOTAutograd, and ops that are not covered run in PyTorch. `out=`, `stream=` and `retrace` are for inference.

    Raises Unsupported naming ops and source lines that are not covered; ArgumentError naming the argument that does not fit.
    """
    if target is None:
        return functools.partial(compile, dynamic=dynamic, db=db, accuracy=accuracy, on_miss=on_miss, retrace=retrace,
                                 mode=mode)
    _accuracy.check(accuracy)
    if on_miss not in ("jit", "default", "strict"):
        raise _errors.make("bad_argument", f"bad_argument: on_miss {on_miss!r}\n  works: \"jit\", \"default\" or \"strict\"")
    by_graph = check_mode(mode)
    if not callable(target):
        raise TypeError(f"compile takes a function or a torch.nn.Module, not {type(target).__name__}")
    return Compiled(target, dynamic, db, accuracy, on_miss, retrace, by_graph).make_call()


def coverage():
    """The table of ATen ops that `compile` covers, as text: one line an op, with a remark where not every use is."""
    from . import lowering  # noqa: F401: it adds rows

    names = {name: name if name.startswith("prims.") else f"aten.{name}" for name in sorted(aten.TABLE)}
    width = max(map(len, names.values()))
    return "\n".join(f"{full:<{width}}  {aten.TABLE[name].remark}".rstrip() for name, full in names.items())
