"""Rows of the op table: gathers and scatters. See aten.py."""
from .aten import Uncovered, broadcast, cast, constant, covers, is_term, operand, out_type, reshaped
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


def times(sizes):
    return "*".join(s if s.isidentifier() or s.isdigit() else f"({s})" for s in sizes if s != "1") or "1"


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


@covers("index_put.default", "_unsafe_index_put.default", remark="integer indices of the first axes; CPU")
def index_put(lw, node, x, indices, values, accumulate=False):
    refuse_serial(node)
    places = index_places(indices)
    if places[0] != 0:
        raise Uncovered("with indices behind the first axis")
    count, dtype = len(places), x.dtype
    chosen, shape = flat_index(lw, x.shape[:count], indices[:count])
    rows, inner = times(shape), x.shape[count:]
    flat = reshaped(lw, x, [times(x.shape[:count]), times(inner)])
    source = reshaped(lw, broadcast(lw, cast(lw, values, dtype), [*shape, *inner]), [rows, flat.shape[1]])
    at = broadcast(lw, reshaped(lw, chosen, [rows, "1"]), [rows, flat.shape[1]])
    written = lw.emit("scatter", [flat, at, source], dtype, flat.shape, axis=0, reduce="add" if accumulate else None)
    return reshaped(lw, written, x.shape)


@covers("scatter.src", "scatter.value", "scatter_add.default", remark="on a GPU: at most 8 elements of each line")
def scatter(lw, node, x, axis, index, source):
    adds = "scatter_add" in str(node.target)
    if x.rank == 0:
        raise Uncovered("of a number")
    axis, dtype = axis % x.rank, x.dtype
    if is_term(source) and list(source.shape) != list(index.shape):
        shape = index.shape
        source = lw.emit("slice", [source], source.dtype, shape, axes=list(range(x.rank)), start=["0"] * x.rank, stop=list(shape))
    whole_lines = [s for d, s in enumerate(index.shape) if d != axis] == [s for d, s in enumerate(x.shape) if d != axis]
    if whole_lines and index.shape[axis].isdigit() and int(index.shape[axis]) <= MOST_CHOICES:
        return choose_between(lw, x, axis, index, source, adds)
    refuse_serial(node)
    source = cast(lw, source, dtype) if is_term(source) else broadcast(lw, constant(lw, source, dtype), index.shape)
    return lw.emit("scatter", [x, index, source], dtype, x.shape, axis=axis, reduce="add" if adds else None)


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
            value = lw.emit("add", [x, value], x.dtype, x.shape)
        x = lw.emit("select", [here, value, x], x.dtype, x.shape)
    return x


@covers("slice_scatter.default", remark="step 1")
def slice_scatter(lw, node, x, part, axis=0, start=None, end=None, step=1):
    if step != 1:
        raise Uncovered(f"step {step}")
    axis %= x.rank
    first = bound(lw, start, x.shape[axis], "0")
    place = operand(lw, int(first) if first.isdigit() else _SizeText(first), "i64")
    place = place if is_term(place) else lw.emit("constant", [place, "i64"], "i64", [])
    return lw.emit("slice_update", [x, cast(lw, part, x.dtype), place], x.dtype, x.shape, axis=axis)
