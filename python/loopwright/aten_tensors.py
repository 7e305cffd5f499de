"""Rows of the op table: sources, views, joins, gathers, writes of a part. See aten.py."""
from .aten import Uncovered, axes_of, broadcast, cast, constant, covers, is_term, operand, out_type, reshaped


# ---- sources
@covers("full.default", "full_like.default", "zeros.default", "ones.default", "zeros_like.default", "ones_like.default",
        "empty.memory_format", "new_zeros.default", "new_ones.default", "new_full.default", "scalar_tensor.default")
def full(lw, node, *arguments, **_):
    name = str(node.target).split(".")[1]
    if name == "scalar_tensor":
        value = arguments[0]
    else:
        value = 1 if "ones" in name else arguments[-1] if "full" in name else 0
    dtype, shape = out_type(lw, node)
    value = operand(lw, value, dtype)
    value = value if is_term(value) else lw.emit("constant", [value, dtype], dtype, [])
    return broadcast(lw, value, shape)


@covers("arange.start_step", "arange.default", "arange.start", remark="whole numbers")
def arange(lw, node, start, end=None, step=1, **_):
    dtype, shape = out_type(lw, node)
    if end is None:
        start = 0
    if any(hasattr(v, "text") or float(v) != int(v) for v in (start, step)):
        raise Uncovered("with a start or step that is no whole number")
    whole = lw.emit("iota", [], "i64", shape, shape=shape, axis=0, dtype="i64", start=int(start), step=int(step))
    return cast(lw, whole, dtype)


# ---- views
@covers("view.default", "reshape.default", "_unsafe_view.default", "unsqueeze.default", "squeeze.default", "squeeze.dim",
        "squeeze.dims", "view_copy.default", "_reshape_alias.default")
def reshape(lw, node, x, *_):
    return reshaped(lw, x, out_type(lw, node)[1])


@covers("expand.default")
def expand(lw, node, x, *_, **__):
    shape = out_type(lw, node)[1]
    return broadcast(lw, x, shape)


@covers("repeat.default")
def repeat(lw, node, x, times):
    dtype, shape = out_type(lw, node)
    sizes = ["1"] * (len(times) - x.rank) + list(x.shape)
    apart, wide = [], []
    for size, count in zip(sizes, times):
        if count != 1:
            apart, wide = [*apart, "1"], [*wide, lw.size(count)]
        apart, wide = [*apart, size], [*wide, size]
    return reshaped(lw, broadcast(lw, reshaped(lw, x, apart), wide), shape)


@covers("permute.default")
def permute(lw, node, x, axes):
    return permuted(lw, x, axes_of(axes, x.rank), out_type(lw, node)[1])


def permuted(lw, x, axes, shape):
    is_transpose = list(axes) == [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    if is_transpose and x.transpose_of is not None:
        return x.transpose_of
    result = lw.emit("permute", [x], x.dtype, shape, axes=axes)
    if is_transpose:
        result.transpose_of = x
    return result


@covers("transpose.int", "t.default")
def transpose(lw, node, x, a=0, b=1):
    axes = list(range(x.rank))
    if x.rank > 1:
        axes[a], axes[b] = axes[b], axes[a]
    return permuted(lw, x, axes, out_type(lw, node)[1])


def bound(lw, value, size, fallback):
    """A start or end of a slice as ATen means it: from the end when negative, and never outside."""
    if value is None:
        return fallback
    if hasattr(value, "text"):
        return value.text
    if size.isdigit():
        value = value + int(size) if value < 0 else value
        return str(max(0, min(value, int(size))))
    if value >= 2**62:
        return size
    return str(value) if value >= 0 else f"{size} - {-value}"


@covers("slice.Tensor", remark="of a symbolic axis: bounds as the traced sizes show them")
def slice_tensor(lw, node, x, axis=0, start=None, end=None, step=1):
    dtype, shape = out_type(lw, node)
    axis %= x.rank
    size = x.shape[axis]
    first, last = bound(lw, start, size, "0"), bound(lw, end, size, size)
    if shape[axis] == size and step == 1:
        return x
    if not size.isdigit() and not (hasattr(start, "text") or hasattr(end, "text")):
        # whether a constant bound lies inside a symbolic axis was decided when tracing: the result's size tells
        last = last if last == size else f"{first} + {shape[axis]}" if step == 1 else last
    return lw.emit("slice", [x], dtype, shape, axes=[axis], start=[first], stop=[last], step=None if step == 1 else [step])


@covers("select.int")
def select(lw, node, x, axis, index):
    dtype, shape = out_type(lw, node)
    axis %= x.rank
    first = bound(lw, index, x.shape[axis], "0")
    one = lw.emit("slice", [x], dtype, x.shape[:axis] + ["1"] + x.shape[axis + 1:], axes=[axis], start=[first],
                  stop=[f"{first} + 1"])
    return lw.emit("reshape", [one], dtype, shape, shape=shape)


@covers("split_with_sizes.default", "split.Tensor", "chunk.default", "unbind.int")
def split(lw, node, x, sizes=None, axis=0):
    parts, start = [], "0"
    if str(node.target) == "aten.unbind.int":
        raise Uncovered("unbind")
    axis %= x.rank
    for i in range(len(node.meta["val"])):
        dtype, shape = out_type(lw, node, i)
        stop = f"{start} + {shape[axis]}"
        parts.append(lw.emit("slice", [x], dtype, shape, axes=[axis], start=[start], stop=[stop]))
        start = stop
    return parts


@covers("cat.default")
def cat(lw, node, tensors, axis=0):
    dtype, shape = out_type(lw, node)
    kept = [cast(lw, t, dtype) for t in tensors if t.shape != ["0"]]
    return kept[0] if len(kept) == 1 else lw.emit("concat", kept, dtype, shape, axis=axis % len(shape))


@covers("stack.default")
def stack(lw, node, tensors, axis=0):
    dtype, shape = out_type(lw, node)
    axis %= len(shape)
    single = shape[:axis] + ["1"] + shape[axis + 1:]
    parts = [lw.emit("reshape", [cast(lw, t, dtype)], dtype, single, shape=single) for t in tensors]
    return lw.emit("concat", parts, dtype, shape, axis=axis)


@covers("constant_pad_nd.default", remark="not negative")
def pad(lw, node, x, padding, value=0):
    if any(hasattr(p, "text") or p < 0 for p in padding):
        raise Uncovered("negative or symbolic padding")
    low, high = [0] * x.rank, [0] * x.rank
    for i in range(len(padding) // 2):
        low[x.rank - 1 - i], high[x.rank - 1 - i] = padding[2 * i], padding[2 * i + 1]
    fill = constant(lw, value, x.dtype)
    return lw.emit("pad", [x, fill], x.dtype, out_type(lw, node)[1], low=low, high=high)


@covers("flip.default")
def flip(lw, node, x, axes):
    return lw.emit("flip", [x], x.dtype, x.shape, axes=axes_of(axes, x.rank)) if axes else x
