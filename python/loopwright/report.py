"""What ran where: the tables of `loopwright.explain`."""
import collections
import re
import types
import weakref


# Compilation of Dynamo, as text -> what the backend made of it. Whoever compiled keeps it alive.
_compiled = weakref.WeakValueDictionary()


class Made:
    """One graph as kernels: its plan, where it runs, and the sizes of the call that it was made at."""

    def __init__(self, graph, device, plan, sizes):
        self.graph, self.device, self.plan = graph, device, plan
        self.sizes = {name: min(max(sizes.get(name, lo), lo), hi) for name, (lo, hi) in plan.symbols.items()}


def sizes_of(words, shapes):
    """Symbol -> value. `words`: for each tensor the text of its sizes; `shapes`: the sizes of one call."""
    return {word: size for texts, shape in zip(words, shapes) for word, size in zip(texts, shape) if word.isidentifier()}


def sizes_in(text):
    """The words of ``f32[tokens, 2880]``."""
    return re.search(r"\[(.*?)\]", text).group(1).split(", ")


class Piece:
    """An FX graph of the backend: `parts` became kernels, `others` are (op, reason, source line) that PyTorch runs."""

    def __init__(self, kind):
        self.kind, self.parts, self.others = kind, [], []


class Compilation:
    """Everything that the backend made of one compilation of Dynamo."""

    def __init__(self):
        self.pieces = []

    @property
    def made(self):
        """(graph, device, plan) of each program so far."""
        return [(m.graph, m.device, m.plan) for piece in self.pieces for part in piece.parts for m in part.made]

    def note(self, compile_id):
        _compiled[str(compile_id)] = self


# ---- text
def table(rows):
    """Lines with aligned columns."""
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def time_text(ns):
    return "" if ns == 0 else f"{ns / 1e3:.4g} us"


def describe_made(made, sizes):
    """A heading, and one line for each kernel: where its schedule comes from, and the time that the database knows."""
    asked = {name: sizes.get(name, value) for name, value in made.sizes.items()}
    at = ", ".join(f"{n} = {v}" for n, v in asked.items())
    chosen = made.plan.choose(asked)
    known = sum(c["median_ns"] for c in chosen)
    total = f", {time_text(known)}" + (" and more" if any(not c["median_ns"] for c in chosen) else "") if known else ""
    lines = [f"{made.graph.name} on {made.device}{' at ' + at if at else ''}: {count(len(chosen), 'kernel')}{total}"]
    rows = [[f"  {i}: {c['family']}", c["origin"], time_text(c["median_ns"]), c["label"]] for i, c in enumerate(chosen)]
    return lines + (table(rows) if rows else [])


def describe_others(others):
    """One line for each op and reason."""
    counts = collections.Counter(others)
    return table([[f"  PyTorch: {op}" + (f" x{n}" if n > 1 else ""), why, line] for (op, why, line), n in counts.items()])


def count(n, what):
    return f"{n} {what}" + ("" if n == 1 else "s")


def describe_piece(piece, sizes):
    lines = [f"{piece.kind}: {count(len(piece.parts), 'part')} of kernels, {count(len(piece.others), 'op')} in PyTorch"]
    for part in piece.parts:
        for made in part.made:
            lines += describe_made(made, sizes)
        if part.trouble:
            lines.append(f"{'a part' if part.made else 'a part, all of it'} runs in PyTorch: {part.trouble}")
        elif not part.made:
            lines.append("a part that has not run yet")
    return lines + (describe_others(piece.others) if piece.others else [])


def describe(pieces, sizes):
    """Text of a list of pieces."""
    return "\n".join(line for piece in pieces for line in describe_piece(piece, sizes))


# ---- functions of torch.compile
def find_pieces(function):
    """The pieces of what `torch.compile` returned, or of a module after its `compile()`; None for anything else."""
    from torch._dynamo import convert_frame, eval_frame

    function = getattr(function, "_compiled_call_impl", None) or function
    cells = [c.cell_contents for c in getattr(function, "__closure__", None) or ()]
    context = next((c for c in [getattr(function, "dynamo_ctx", None), *cells] if isinstance(c, eval_frame.OptimizeContext)), None)
    if context is None:
        return None
    backend = eval_frame.innermost_backend(context.callback)
    codes = [code for code in (ref() for ref in convert_frame.input_codes.seen) if code is not None]
    entries = [e for code in codes for e in eval_frame._debug_get_cache_entry_list(code) if e.backend is backend]
    made = [_compiled.get(str(e.compile_id)) for e in sorted(entries, key=lambda e: str(e.compile_id))]
    return [piece for compilation in made if compilation is not None for piece in compilation.pieces]


def explain(function, **sizes):
    """What ran where, and why: a table for people, of a callable of `compile` or `load`, or of a function or module of
    ``torch.compile(backend="loopwright")``.

    For each graph its kernels with the origin of their schedules: "tuned" (measured for a range of sizes that holds here), "stored
    default" (a database's, outside its tuned ranges), "kept default" (compiled by an earlier process) or "default" (compiled by this
    one), the time that the database measured at the main sizes of that range, and the schedule. Then the ops that ran in PyTorch, the
    reason, and the user's line. `sizes`: values of symbols by name; others are those of the call that the graph was made at.

    ``call.explain(**sizes)`` of callables of `compile` and `load` tells of every variant why it serves or not.

    Raises TypeError for anything else.
    """
    details = getattr(function, "details", None)
    if hasattr(details, "list_pieces"):
        return describe(details.list_pieces(), sizes) or f"{details.__name__} has not been called yet"
    try:
        import torch  # noqa: F401
    except ImportError:
        pieces = None
    else:
        pieces = find_pieces(function)
    if pieces is None:
        raise TypeError(f"explain takes a callable of loopwright.compile or load, or of torch.compile, not {type(function).__name__}")
    return describe(pieces, sizes) or "nothing was compiled by this backend yet"


def whole_piece(kind, made):
    """A graph that is one program of kernels."""
    piece = Piece(kind)
    piece.parts.append(types.SimpleNamespace(made=[made], trouble=""))
    return piece
