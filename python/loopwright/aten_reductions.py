"""Rows of the op table: reductions, normalisation, products, convolutions. See aten.py."""
import math

from .aten import Uncovered, axes_of, cast, covers, number, out_type, reshaped, times


# ---- reductions
def at_least_one_axis(lw, x):
    """A number as a tensor of one axis."""
    return x if x.rank else reshaped(lw, x, ["1"])


def reduce(lw, op, x, shape, axes, keepdim):
    """The largest and the smallest of bool are any and all."""
    op = {"reduce_max": "any", "reduce_min": "all"}.get(op, op) if x.dtype == "bool" else op
    return lw.emit(op, [x], x.dtype, shape, axes=axes, keepdim=bool(keepdim))


def reduction(names, op):
    @covers(*names)
    def lower(lw, node, x, dims=None, keepdim=False, dtype=None):
        dtype, shape = out_type(lw, node)
        x = cast(lw, x, dtype)
        return reduce(lw, op, x, shape, axes_of(dims, x.rank), keepdim) if x.rank else x


reduction(("sum.dim_IntList", "sum.default"), "sum")
reduction(("mean.dim", "mean.default"), "mean")
reduction(("amax.default",), "reduce_max")
reduction(("amin.default",), "reduce_min")


@covers("max.default", "min.default", "prod.default", "prod.dim_int")
def whole(lw, node, x, dim=None, keepdim=False, dtype=None):
    out, shape = out_type(lw, node)
    op = {"max": "reduce_max", "min": "reduce_min", "prod": "product"}[node.target._schema.name.split("::")[1]]
    return reduce(lw, op, cast(lw, x, out), shape, axes_of(dim, x.rank), keepdim) if x.rank else cast(lw, x, out)


@covers("max.dim", "min.dim")
def with_indices(lw, node, x, dim, keepdim=False):
    kind = node.target._schema.name.split("::")[1]
    axes, (dtype, shape) = axes_of(dim, x.rank), out_type(lw, node, 0)
    x, keepdim = at_least_one_axis(lw, x), keepdim and x.rank
    return [reduce(lw, f"reduce_{kind}", x, shape, axes, keepdim),
            lw.emit(f"arg{kind}", [cast(lw, x, "u8") if dtype == "bool" else x], "i64", shape, axes=axes, keepdim=bool(keepdim))]


@covers("argmax.default", "argmin.default")
def arg(lw, node, x, dim=None, keepdim=False):
    axes, keepdim = (axes_of(dim, x.rank) or [0]), keepdim and x.rank
    return lw.emit(node.target._schema.name.split("::")[1], [at_least_one_axis(lw, x)], "i64", out_type(lw, node)[1], axes=axes,
                   keepdim=bool(keepdim))


@covers("any.default", "any.dim", "any.dims", "all.default", "all.dim", "all.dims")
def any_all(lw, node, x, dims=None, keepdim=False):
    return lw.emit(node.target._schema.name.split("::")[1], [cast(lw, x, "bool")], "bool", out_type(lw, node)[1],
                   axes=axes_of(dims, x.rank), keepdim=bool(keepdim))


@covers("var.correction", remark="whole correction")
def var(lw, node, x, dims=None, correction=1, keepdim=False):
    correction = 1 if correction is None else correction
    if correction != int(correction):
        raise Uncovered(f"correction {correction}")
    return lw.emit("variance", [x], x.dtype, out_type(lw, node)[1], axes=axes_of(dims, x.rank), keepdim=bool(keepdim),
                   correction=int(correction))


@covers("cumsum.default")
def cumsum(lw, node, x, axis, dtype=None):
    out, shape = out_type(lw, node)
    return lw.emit("cumulative_sum", [cast(lw, x, out)], out, shape, axis=axis % x.rank) if x.rank else x


@covers("linalg_vector_norm.default", remark="orders 1, 2 and inf")
def vector_norm(lw, node, x, order=2, dims=None, keepdim=False, dtype=None):
    out, shape = out_type(lw, node)
    x, options = cast(lw, x, out), {"axes": axes_of(dims, x.rank), "keepdim": bool(keepdim)}
    if order == 2:
        return lw.emit("sqrt", [lw.emit("sum", [lw.emit("mul", [x, x], out, x.shape)], out, shape, **options)], out, shape)
    if order not in (1, math.inf):
        raise Uncovered(f"order {order}")
    return lw.emit("sum" if order == 1 else "reduce_max", [lw.emit("abs", [x], out, x.shape)], out, shape, **options)


@covers("_softmax.default", "_log_softmax.default", "softmax.int", "log_softmax.int")
def softmax(lw, node, x, axis, *_, **__):
    dtype, shape = out_type(lw, node)
    op = "log_softmax" if "log" in str(node.target) else "softmax"
    x = at_least_one_axis(lw, cast(lw, x, dtype))
    return reshaped(lw, lw.emit(op, [x], dtype, x.shape, axis=axis % x.rank), shape)


# ---- normalisation
def flat_last(lw, x, count):
    """x with its last `count` axes as one."""
    if count == 1:
        return x
    return reshaped(lw, x, x.shape[:-count] + ["*".join(f"({s})" for s in x.shape[-count:])])


@covers("layer_norm.default")
def layer_norm(lw, node, x, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True, shape=None):
    count, shape = len(normalized_shape), shape or out_type(lw, node)[1]
    x, weight, bias = (t if t is None else flat_last(lw, t, count) for t in (x, weight, bias))
    operands = [x] if weight is None else [x, weight] if bias is None else [x, weight, bias]
    result = lw.emit("layer_norm", operands, x.dtype, x.shape, eps=float(eps))
    if weight is None and bias is not None:
        result = lw.emit("add", [result, cast(lw, bias, x.dtype)], x.dtype, x.shape)
    return reshaped(lw, result, shape)


@covers("rms_norm.default")
def rms_norm(lw, node, x, normalized_shape, weight=None, eps=None):
    import torch

    count, shape = len(normalized_shape), out_type(lw, node)[1]
    if eps is None:
        eps = torch.finfo(node.meta["val"].dtype).eps
    operands = [flat_last(lw, t, count) for t in (x, weight) if t is not None]
    return reshaped(lw, lw.emit("rms_norm", operands, x.dtype, operands[0].shape, eps=float(eps)), shape)


@covers("native_layer_norm.default")
def native_layer_norm(lw, node, x, normalized_shape, weight, bias, eps):
    result = layer_norm(lw, node, x, normalized_shape, weight, bias, eps, shape=out_type(lw, node, 0)[1])
    dtype, shape = out_type(lw, node, 1)
    axes = list(range(x.rank - len(normalized_shape), x.rank))
    return [result, *mean_and_rstd(lw, x, dtype, shape, axes, True, eps)]


def mean_and_rstd(lw, x, dtype, shape, axes, keepdim, eps):
    """What the backward pass of a normalisation reads."""
    wide, options = cast(lw, x, dtype), {"axes": axes, "keepdim": keepdim}
    mean = lw.emit("mean", [wide], dtype, shape, **options)
    spread = lw.emit("add", [lw.emit("variance", [wide], dtype, shape, correction=0, **options), number(eps, dtype)], dtype, shape)
    return mean, lw.emit("rsqrt", [spread], dtype, shape)


@covers("native_group_norm.default")
def group_norm(lw, node, x, weight, bias, n, channels, size, groups, eps):
    dtype, shape = out_type(lw, node, 0)
    per_group = [shape[0], str(groups), str(int(channels) // groups) + "".join(f"*({s})" for s in shape[2:])]
    grouped = reshaped(lw, x, per_group)
    result = reshaped(lw, lw.emit("layer_norm", [grouped], dtype, per_group, eps=float(eps)), shape)
    one_each = ["1", shape[1]] + ["1"] * (len(shape) - 2)
    for op, t in (("mul", weight), ("add", bias)):
        if t is not None:
            result = lw.emit(op, [result, reshaped(lw, cast(lw, t, dtype), one_each)], dtype, shape)
    return [result, *mean_and_rstd(lw, grouped, *out_type(lw, node, 1), [2], False, eps)]


# ---- products
@covers("linear.default")
def linear(lw, node, x, weight, bias=None):
    dtype, shape = out_type(lw, node)
    rows = x if x.rank > 1 else reshaped(lw, x, ["1", *x.shape])
    result = lw.emit("linear", [rows, weight] + ([bias] if bias is not None else []), dtype,
                     shape if x.rank > 1 else ["1", *shape])
    return reshaped(lw, result, shape)


@covers("matmul.default", "mm.default", "bmm.default", "dot.default", "mv.default")
def matmul(lw, node, a, b):
    dtype, shape = out_type(lw, node)
    left = a if a.rank > 1 else reshaped(lw, a, ["1", *a.shape])
    right = b if b.rank > 1 else reshaped(lw, b, [*b.shape, "1"])
    full_shape = shape[:len(shape) - (a.rank > 1) - (b.rank > 1)] + [left.shape[-2], right.shape[-1]]
    return reshaped(lw, product(lw, left, right, dtype, full_shape), shape)


def product(lw, a, b, dtype, shape):
    """a @ b. What torch transposes and flattens for it, as a linear layer does, is read in place."""
    if a.rows_of is not None and b.rank == 2:
        apart = [*a.rows_of.shape[:-1], shape[-1]]
        return reshaped(lw, product(lw, a.rows_of, b, dtype, apart), shape)
    flags = {f"transpose_{side}": True for side, term in (("a", a), ("b", b)) if term.transpose_of is not None}
    operands = [term.transpose_of or term for term in (a, b)]
    return lw.emit("matmul", operands, dtype, shape, **flags, out=dtype if dtype != a.dtype else None)


@covers("_grouped_mm.default", remark="[rows, k] by [groups, k, n], and batches without offsets")
def grouped_mm(lw, node, x, w, offs=None, bias=None, *_, **__):
    dtype, shape = out_type(lw, node)
    if bias is not None or w.rank != 3 or (offs is None) != (x.rank == 3):
        raise Uncovered("other than groups of rows, each times a matrix of its own")
    if offs is None:
        return product(lw, x, w, dtype, shape)
    flags = {"transpose_b": True} if w.transpose_of is not None else {}
    return lw.emit("grouped_matmul", [x, w.transpose_of or w, offs], dtype, shape, **flags, out=dtype if dtype != x.dtype else None)


@covers("addmm.default", "baddbmm.default")
def addmm(lw, node, c, a, b, beta=1, alpha=1):
    dtype, shape = out_type(lw, node)
    wide = "f32" if dtype in ("bf16", "f16") else dtype  # one rounding, behind the sum
    result, c = product(lw, a, b, wide, shape), cast(lw, c, wide)
    if c.rank < 2 and result.rows_of is not None:
        result = result.rows_of
    if alpha != 1:
        result = lw.emit("mul", [result, number(alpha, wide)], wide, result.shape)
    if beta != 1:
        c = lw.emit("mul", [c, number(beta, wide)], wide, c.shape)
    return reshaped(lw, cast(lw, lw.emit("add", [result, c], wide, result.shape), dtype), shape)


# ---- convolutions
def patch_sizes(x, weight, stride, padding, dilation, transposed, groups):
    """(sizes of a patch, how many there are along each axis): of convolutions whose patches lie beside each other."""
    patch, image = weight.shape[2:], x.shape[2:]
    plain = not any(padding) and all(d == 1 for d in dilation) and not transposed and groups == 1
    beside = (plain and list(stride) == [int(p) for p in patch] and all(n.isdigit() and int(n) % int(p) == 0 for n, p in zip(image, patch)))
    if not beside:
        raise Uncovered("with patches that do not lie beside each other")
    return patch, [str(int(n) // int(p)) for n, p in zip(image, patch)]


def permuted_apart(lw, x, apart, order):
    wide = reshaped(lw, x, apart)
    return lw.emit("permute", [wide], x.dtype, [apart[i] for i in order], axes=order)


def as_patches(lw, x, patch, counts):
    """[images, places, numbers of a patch]"""
    apart = x.shape[:2] + [size for pair in zip(counts, patch) for size in pair]
    order = [0, *range(2, len(apart), 2), 1, *range(3, len(apart), 2)]
    return reshaped(lw, permuted_apart(lw, x, apart, order), [x.shape[0], times(counts), times([x.shape[1], *patch])])


@covers("convolution.default", remark="patches beside each other, as of a picture's tokens")
def convolution(lw, node, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    dtype, shape = out_type(lw, node)
    patch, counts = patch_sizes(x, weight, stride, padding, dilation, transposed, groups)
    flat = reshaped(lw, weight, [weight.shape[0], times(weight.shape[1:])])
    tokens = lw.emit("linear", [as_patches(lw, x, patch, counts), flat] + ([bias] if bias is not None else []), dtype,
                     [shape[0], times(counts), shape[1]])
    return reshaped(lw, lw.emit("permute", [tokens], dtype, [shape[0], shape[1], times(counts)], axes=[0, 2, 1]), shape)


@covers("convolution_backward.default", remark="patches beside each other")
def convolution_backward(lw, node, grad, x, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask):
    dtype = x.dtype
    patch, counts = patch_sizes(x, weight, stride, padding, dilation, transposed, groups)
    channels, width = weight.shape[0], times(weight.shape[1:])
    rows = reshaped(lw, grad, [grad.shape[0], channels, times(counts)])
    results = [None, None, None]
    if mask[0]:
        n, flat = len(counts), reshaped(lw, weight, [channels, width])
        spread = lw.emit("matmul", [rows, flat], dtype, [x.shape[0], times(counts), width], transpose_a=True)
        order = [0, n + 1, *(axis for i in range(n) for axis in (1 + i, n + 2 + i))]
        apart = [x.shape[0], *counts, x.shape[1], *patch]
        results[0] = reshaped(lw, permuted_apart(lw, spread, apart, order), x.shape)
    if mask[1]:
        # one product over all places of all images
        places = times([grad.shape[0], *counts])
        left = lw.emit("permute", [rows], dtype, [channels, grad.shape[0], times(counts)], axes=[1, 0, 2])
        left, right = reshaped(lw, left, [channels, places]), reshaped(lw, as_patches(lw, x, patch, counts), [places, width])
        results[1] = reshaped(lw, lw.emit("matmul", [left, right], dtype, [channels, width]), weight.shape)
    if mask[2]:
        results[2] = lw.emit("sum", [rows], dtype, [channels], axes=[0, 2])
    return results
