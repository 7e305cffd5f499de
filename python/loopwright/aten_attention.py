"""Rows of the op table: attention. Scores are a tensor, in f32 or wider. See aten.py."""
import math

from .aten import Uncovered, cast, covers, number, out_type, reshaped


def find_scores(lw, q, k, mask, causal, scale):
    """(scores, their dtype): q k^T times the scale, with the mask."""
    wide = "f64" if q.dtype == "f64" else "f32"
    shape = q.shape[:-2] + [q.shape[-2], k.shape[-2]]
    scores = lw.emit("matmul", [q, k], wide, shape, transpose_b=True, out=wide if q.dtype != wide else None)
    scores = lw.emit("mul", [scores, number(scale, wide)], wide, shape)
    if causal:
        at = [lw.emit("iota", [], "i64", [n, "1"] if i == 0 else ["1", n], shape=[n, "1"] if i == 0 else ["1", n], axis=i,
                      dtype="i64") for i, n in enumerate(shape[-2:])]
        seen = lw.emit("le", [at[1], at[0]], "bool", shape[-2:])
        scores = lw.emit("select", [seen, scores, "-inf"], wide, shape)
    if mask is not None:
        scores = (lw.emit("select", [mask, scores, "-inf"], wide, shape) if mask.dtype == "bool"
                  else lw.emit("add", [scores, cast(lw, mask, wide)], wide, shape))
    return scores, wide


def scale_of(q, scale):
    return float(scale) if scale is not None else 1 / math.sqrt(int(q.shape[-1]))


def repeat_heads(lw, x, times):
    lead, heads, rest = x.shape[:-3], x.shape[-3], x.shape[-2:]
    apart = lw.emit("reshape", [x], x.dtype, lead + [heads, "1"] + rest, shape=lead + [heads, "1"] + rest)
    wide = lead + [heads, str(times)] + rest
    repeated = lw.emit("broadcast", [apart], x.dtype, wide, shape=wide)
    return reshaped(lw, repeated, lead + [str(int(heads) * times)] + rest)


@covers("scaled_dot_product_attention.default", remark="without dropout; scores in f32")
def attention(lw, node, q, k, v, mask=None, dropout=0.0, causal=False, scale=None, enable_gqa=False):
    if dropout:
        raise Uncovered("with dropout: call eval()")
    dtype, shape = out_type(lw, node)
    if enable_gqa and q.shape[-3] != k.shape[-3]:
        k, v = (repeat_heads(lw, t, int(q.shape[-3]) // int(k.shape[-3])) for t in (k, v))
    scores, wide = find_scores(lw, q, k, mask, causal, scale_of(q, scale))
    weights = lw.emit("softmax", [scores], wide, scores.shape, axis=-1) if mask is None else weigh(lw, scores, wide)[0]
    return lw.emit("matmul", [cast(lw, weights, dtype), v], dtype, shape)


def weigh(lw, scores, wide):
    """Softmax along the last axis, where a line that is masked as a whole gives 0; also what was subtracted, and the sums."""
    one_each, options = [*scores.shape[:-1], "1"], {"axes": [-1], "keepdim": True}
    most = lw.emit("reduce_max", [scores], wide, one_each, **options)
    most = lw.emit("select", [lw.emit("eq", [most, "-inf"], "bool", one_each), "0", most], wide, one_each)
    parts = lw.emit("exp", [lw.emit("sub", [scores, most], wide, scores.shape)], wide, scores.shape)
    total = lw.emit("sum", [parts], wide, one_each, **options)
    empty = lw.emit("eq", [total, "0"], "bool", one_each)
    return lw.emit("div", [parts, lw.emit("select", [empty, "1", total], wide, one_each)], wide, scores.shape), most, total


# ---- what PyTorch makes of it on a CPU before a backend sees it
def check_flash(q, k, dropout):
    if dropout:
        raise Uncovered("with dropout: call eval()")
    if q.shape[1] != k.shape[1]:
        raise Uncovered("with fewer heads of keys than of queries")


@covers("_scaled_dot_product_flash_attention_for_cpu.default", remark="without dropout; scores are a tensor")
def flash(lw, node, q, k, v, dropout=0.0, causal=False, attn_mask=None, scale=None):
    """The result and the logarithms of the sums. A query that sees nothing gives 0."""
    check_flash(q, k, dropout)
    dtype, shape = out_type(lw, node, 0)
    scores, wide = find_scores(lw, q, k, attn_mask, causal, scale_of(q, scale))
    rows = scores.shape[:-1]
    one_each = [*rows, "1"]
    weights, most, total = weigh(lw, scores, wide)
    result = lw.emit("matmul", [cast(lw, weights, dtype), v], dtype, shape)
    if not any(u.args[1] == 1 and u.users for u in node.users):
        return [result, None]
    return [result, reshaped(lw, lw.emit("add", [most, lw.emit("log", [total], wide, one_each)], wide, one_each), rows)]


@covers("_scaled_dot_product_flash_attention_for_cpu_backward.default", remark="without dropout; scores are a tensor")
def flash_backward(lw, node, grad, q, k, v, out, sums, dropout, causal, attn_mask=None, scale=None):
    check_flash(q, k, dropout)
    scale = scale_of(q, scale)
    scores, wide = find_scores(lw, q, k, attn_mask, causal, scale)
    full, rows, dtype = scores.shape, [*scores.shape[:-1], "1"], q.dtype
    sums = lw.emit("reshape", [cast(lw, sums, wide)], wide, rows, shape=rows)
    empty = lw.emit("eq", [sums, "-inf"], "bool", rows)
    weights = lw.emit("exp", [lw.emit("sub", [scores, sums], wide, full)], wide, full)
    weights = lw.emit("select", [empty, "0", weights], wide, full)

    def product(a, b, shape, **flags):
        return lw.emit("matmul", [a, b], dtype, shape, **flags)

    grad_v = product(cast(lw, weights, dtype), grad, v.shape, transpose_a=True)
    of_weights = lw.emit("matmul", [grad, v], wide, full, transpose_b=True, out=wide if dtype != wide else None)
    both = lw.emit("mul", [cast(lw, grad, wide), cast(lw, out, wide)], wide, grad.shape)
    inner = lw.emit("sum", [both], wide, rows, axes=[-1], keepdim=True)
    of_scores = lw.emit("mul", [weights, lw.emit("sub", [of_weights, inner], wide, full)], wide, full)
    of_scores = cast(lw, lw.emit("mul", [of_scores, number(scale, wide)], wide, full), dtype)
    return [product(of_scores, k, q.shape), product(of_scores, q, k.shape, transpose_a=True), grad_v]
