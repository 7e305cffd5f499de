"""Rows of the op table: gathers and scatters. See aten.py."""
from .aten import Uncovered, broadcast, cast, constant, covers, is_term, operand, out_type, reshaped, times
from .aten_tensors import bound

MOST_CHOICES = 8  # scatters of that many elements into each line become choices between values, without a write


@covers("embedding.default")
def embedding(lw, node, weight, indices, *_, **__):
    return lw.emit("embedding", [weight, indices], weight.dtype, out_type(lw, node)[1])


@covers("index_select.default")
def index_select(lw, node, x, axis, index):
    return lw.emit("index_select", [x, index], x.dtype, out_type(lw, node)[1], axis=axis % x.rank)


@covers("gather.default")
def gather(lw, node, x, axis, index, sparse_grad=False):
    return lw.emit("gather", [x, index], x.dtype, out_type(lw, node)[1], axis=axis % x.rank)


class _SizeText:
    def __init__(self, text):
        self.text = text


def size_operand(lw, text, dtype):
    return operand(lw, int(text) if text.isdigit() else _SizeText(text), dtype)


def joined_shape(terms):
    """The shape that tensors are broadcast to."""
    rank = max(t.rank for t in terms)
    shapes = [["1"] * (rank - t.rank) + list(t.shape) for t in terms]
    return [next((s[d] for s in shapes if s[d] != "1"), "1") for d in range(rank)]


def flat_index(lw, sizes, indices):
    """(one index over axes of these sizes, their joined shape): negative indices count from the end."""
    shape = joined_shape(indices)
    whole = None
    for size, index in zip(sizes, indices):
        if index.dtype == "bool":
            raise Uncovered("with a mask")
        index = cast(lw, index, "i64")
        n = size_operand(lw, size, "i64")
        below = lw.emit("lt", [index, "0"], "bool", index.shape)
        index = lw.emit("select", [below, lw.emit("add", [index, n], "i64", index.shape), index], "i64", index.shape)
        if whole is not None:
            sum_shape = joined_shape([whole, index])
            scaled = lw.emit("mul", [whole, n], "i64", whole.shape)
            whole = lw.emit("add", [scaled, index], "i64", sum_shape)
        else:
            whole = index
    return broadcast(lw, whole, shape), shape


def index_places(indices):
    """The axes that are indexed, which must follow each other."""
    places = [i for i, t in enumerate(indices) if t is not None]
    if places != list(range(places[0], places[0] + len(places))):
        raise Uncovered("with indices apart from each other")
    return places


@covers("index.Tensor", "_unsafe_index.Tensor", remark="integer indices of neighbouring axes")
def index(lw, node, x, indices):
    places = index_places(indices)
    first, last = places[0], places[-1] + 1
    chosen, shape = flat_index(lw, x.shape[first:last], indices[first:last])
    x = reshaped(lw, x, x.shape[:first] + [times(x.shape[first:last])] + x.shape[last:])
    flat = reshaped(lw, chosen, [times(shape)])
    picked = lw.emit("index_select", [x, flat], x.dtype, x.shape[:first] + flat.shape + x.shape[first + 1:], axis=first)
    return reshaped(lw, picked, out_type(lw, node)[1])


# ---- writing a part
def on_gpu(node):
    return node.meta["val"].device.type == "cuda"


def refuse_serial(node):
    """Generated kernels write one element after the other."""
    if on_gpu(node):
        raise Uncovered("on a GPU, where it would be written by one thread")


@covers("index_put.default", "_unsafe_index_put.default", remark="integer indices of neighbouring axes; on a GPU: of one place")
def index_put(lw, node, x, indices, values, accumulate=False):
    places = index_places(indices)
    first, last = places[0], places[-1] + 1
    before, behind = x.shape[:first], x.shape[last:]
    chosen, shape = flat_index(lw, x.shape[first:last], indices[first:last])
    rows = times(shape)
    flat = reshaped(lw, x, [*before, times(x.shape[first:last]), *behind])
    source = reshaped(lw, broadcast(lw, cast(lw, values, x.dtype), [*before, *shape, *behind]), [*before, rows, *behind])
    if rows == "1" and not accumulate:
        written = lw.emit("slice_update", [flat, source, reshaped(lw, chosen, [])], x.dtype, flat.shape, axis=first)
    else:
        refuse_serial(node)
        at = broadcast(lw, reshaped(lw, chosen, ["1"] * first + [rows] + ["1"] * len(behind)), source.shape)
        written = lw.emit("scatter", [flat, at, source], x.dtype, flat.shape, axis=first, reduce="add" if accumulate else None)
    return reshaped(lw, written, x.shape)


@covers("scatter.src", "scatter.value", "scatter_add.default", remark="on a GPU: at most 8 elements of each line")
def scatter(lw, node, x, axis, index, source):
    if x.rank == 0:
        x, index, source = (reshaped(lw, t, ["1"]) if is_term(t) else t for t in (x, index, source))
        return reshaped(lw, scatter(lw, node, x, 0, index, source), [])
    adds, axis, dtype = "scatter_add" in str(node.target), axis % x.rank, x.dtype
    if is_term(source) and list(source.shape) != list(index.shape):
        shape = index.shape
        source = lw.emit("slice", [source], source.dtype, shape, axes=list(range(x.rank)), start=["0"] * x.rank, stop=list(shape))
    whole_lines = [s for d, s in enumerate(index.shape) if d != axis] == [s for d, s in enumerate(x.shape) if d != axis]
    if whole_lines and index.shape[axis].isdigit() and int(index.shape[axis]) <= MOST_CHOICES:
        return choose_between(lw, x, axis, index, source, adds)
    refuse_serial(node)
    if adds and dtype == "bool":
        raise Uncovered("of bool")
    source = cast(lw, source, dtype) if is_term(source) else broadcast(lw, constant(lw, source, dtype), index.shape)
    return lw.emit("scatter", [x, index, source], dtype, x.shape, axis=axis, reduce="add" if adds else None)


def write_apart(lw, x, part, axis, first, last, step):
    """x with `part` at every `step`-th place from `first` on, before `last`."""
    line = [x.shape[axis]]
    wide = ["1"] * axis + line + ["1"] * (x.rank - axis - 1)
    place = lw.emit("iota", [], "i64", line, shape=line, axis=0, dtype="i64")
    behind = lw.emit("sub", [place, size_operand(lw, first, "i64")], "i64", line)
    tests = [lw.emit("ge", [behind, "0"], "bool", line), lw.emit("lt", [place, size_operand(lw, last, "i64")], "bool", line),
             lw.emit("eq", [lw.emit("mod", [behind, str(step)], "i64", line), "0"], "bool", line)]
    inside = lw.emit("and", [lw.emit("and", tests[:2], "bool", line), tests[2]], "bool", line)
    source = lw.emit("index_select", [part, lw.emit("floor_div", [behind, str(step)], "i64", line)], x.dtype, x.shape, axis=axis)
    return lw.emit("select", [reshaped(lw, inside, wide), source, x], x.dtype, x.shape)


def choose_between(lw, x, axis, index, source, adds):
    """x with the few elements of each line, the last of those at one place."""
    line = ["1"] * axis + [x.shape[axis]] + ["1"] * (x.rank - axis - 1)
    place = lw.emit("iota", [], index.dtype, line, shape=line, axis=axis, dtype=index.dtype)
    for i in range(int(index.shape[axis])):
        one = x.shape[:axis] + ["1"] + x.shape[axis + 1:]
        cut = lambda t: t if t.shape[axis] == "1" else lw.emit(  # noqa: E731
            "slice", [t], t.dtype, one, axes=[axis], start=[str(i)], stop=[str(i + 1)])
        here = lw.emit("eq", [place, cut(index)], "bool", x.shape)
        value = cast(lw, cut(source), x.dtype) if is_term(source) else operand(lw, source, x.dtype)
        if adds:
            value = lw.emit("or" if x.dtype == "bool" else "add", [x, value], x.dtype, x.shape)
        x = lw.emit("select", [here, value, x], x.dtype, x.shape)
    return x


@covers("slice_scatter.default")
def slice_scatter(lw, node, x, part, axis=0, start=None, end=None, step=1):
    axis %= x.rank
    first = bound(lw, start, x.shape[axis], "0")
    if step != 1:
        return write_apart(lw, x, cast(lw, part, x.dtype), axis, first, bound(lw, end, x.shape[axis], x.shape[axis]), step)
    place = operand(lw, int(first) if first.isdigit() else _SizeText(first), "i64")
    place = place if is_term(place) else lw.emit("constant", [place, "i64"], "i64", [])
    return lw.emit("slice_update", [x, cast(lw, part, x.dtype), place], x.dtype, x.shape, axis=axis)
