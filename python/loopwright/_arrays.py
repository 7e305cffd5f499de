"""Makes outputs for callers whose tensors offer no allocator of their own: NumPy arrays and array-API libraries."""
from . import _errors

_NUMPY_NAMES = {"bool": "bool_", "i8": "int8", "u8": "uint8", "i16": "int16", "i32": "int32", "i64": "int64",
                "f16": "float16", "f32": "float32", "f64": "float64"}


def allocate(like, shape, dtype):
    """An uninitialised array of the kind of `like` (NumPy's for buffers and for None)."""
    if dtype not in _NUMPY_NAMES:
        raise _errors.make("unsupported", f"unsupported: an output of dtype {dtype}: NumPy has no such dtype\n"
                                          "  works: torch tensors, or out=")
    name = _NUMPY_NAMES[dtype]
    if like is not None and hasattr(like, "__array_namespace__"):
        namespace = like.__array_namespace__()
        if namespace.__name__.split(".")[0] != "numpy":
            return namespace.empty(tuple(shape), dtype=getattr(namespace, name.rstrip("_")), device=like.device)
    elif like is not None and hasattr(like, "__dlpack__") and not hasattr(like, "__array_interface__"):
        raise _errors.make("unsupported", f"unsupported: an output for {type(like).__name__}: its type cannot make one\n"
                                          "  works: out=")
    import numpy

    return numpy.empty(tuple(shape), dtype=getattr(numpy, name))
