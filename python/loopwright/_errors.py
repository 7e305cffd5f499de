"""Exceptions of loopwright. Each has `code`, the word of the library's error code, e.g. ``"out_of_range"``."""


class Error(Exception):
    """Anything that can fail without a bug; the message says what was asked, found, where, and what works."""

    code = "bug"


class ArgumentError(Error, ValueError):
    """A call or an option that does not fit: dtype, device, rank, size, strides, aliasing."""


class GraphError(Error, ValueError):
    """A graph that is not well-formed; the message has file, line and column."""


class NotFound(Error, LookupError):
    """No plan of that name, or no variant that may serve."""


class DatabaseError(Error, OSError):
    """A database or a file that cannot be used."""


class Unsupported(Error, NotImplementedError):
    """Something that this version, this build or this device cannot do."""


_CLASSES = {
    ArgumentError: "wrong_arguments out_of_range misaligned aliasing bad_argument",
    GraphError: "syntax unknown_name duplicate_name unknown_op wrong_arity dtype_mismatch shape_mismatch bad_attribute "
                "size_overflow bad_symbol bad_strides malformed_ir",
    NotFound: "not_found no_variant",
    DatabaseError: "db_locked db_read_only db_corrupt db_newer db_foreign db_full db_other io busy",
    Unsupported: "unsupported unsupported_target",
}
_CLASS_OF = {code: cls for cls, codes in _CLASSES.items() for code in codes.split()}


def make(code, message):
    """The exception for an error code."""
    error = _CLASS_OF.get(code, Error)(message)
    error.code = code
    return error


def refuse_gradients(called, names, values):
    """The exception for tensors among `values` that require a gradient where none is made."""
    needing = [name for name, value in zip(names, values) if getattr(value, "requires_grad", False)]
    return make("unsupported", f"unsupported: call {called}: `{'`, `'.join(needing)}` requires a gradient, and gradients are not made here\n"
                               "  works: torch.no_grad(), torch.inference_mode(), requires_grad_(False), or loopwright.compile")
