"""Calls whose arguments hold tensors in lists, tuples and dicts: a callable of the tensors for each structure of arguments."""
import collections
import inspect
import threading

import torch
import torch.utils._pytree as pytree

from . import _core, _errors
from .compiling import Compiled

MAX_STRUCTURES = 16


def name_leaf(whole, path):
    """``x[0]['a']`` for what is in the argument x; what `**kwargs` collects is named as it was given."""
    first, rest = path[0].key, path[1:]
    if rest and whole.__signature__.parameters[first].kind == inspect.Parameter.VAR_KEYWORD:
        first, rest = rest[0].key, rest[1:]
    return first + pytree.keystr(rest)


def holds_tensors(value):
    return any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(value))


class Flat(Compiled):
    """One structure of the arguments of `whole`: a function of the leaves."""

    def __init__(self, whole, spec, leaves):
        self.whole, self.spec = whole, spec
        self.target, self.accuracy, self.on_miss, self.retrace = whole.target, whole.accuracy, whole.on_miss, whole.retrace
        self.databases, self.by_graph = whole.databases, whole.by_graph
        self.__signature__, self.__name__, self.__doc__ = whole.__signature__, whole.__name__, whole.__doc__
        self.programs, self.training, self.nested, self._lock = [], None, [], threading.RLock()
        self.names, self.declared = [], None if whole.declared is None else {}
        for path, leaf in leaves:
            name = name_leaf(whole, path)
            self.names.append(name)
            if not isinstance(leaf, torch.Tensor) or whole.declared is None:
                continue
            of_argument = {d: s for d, s in whole.declared.get(path[0].key, {}).items() if len(path) == 1 or d < leaf.dim()}
            if dims := {**of_argument, **whole.declared.get(name, {})}:
                self.declared[name] = dims
        self.call = _core.Call(tuple(self.names), (...,) * len(self.names), self, 0, self.by_graph)

    def arrange(self, values):
        arguments = pytree.tree_unflatten(list(values), self.spec)
        bound = inspect.BoundArguments(self.__signature__, collections.OrderedDict(arguments))
        return bound.args, bound.kwargs


def call_flat(whole, arguments, out, stream):
    """The result of `whole` for these arguments by name."""
    leaves, spec = pytree.tree_flatten(arguments)
    flat = next((flat for known, flat in whole.nested if known == spec), None)
    if flat is None:
        with whole._lock:
            flat = next((flat for known, flat in whole.nested if known == spec), None)
            if flat is None:
                if len(whole.nested) >= MAX_STRUCTURES:
                    raise _errors.make("unsupported", f"unsupported: call {whole.__name__}: {MAX_STRUCTURES} structures of arguments were "
                                                      "traced already\n  works: lists and dicts that keep their length and keys")
                flat = Flat(whole, spec, pytree.tree_flatten_with_path(arguments)[0])
                whole.nested.append((spec, flat))
    return flat.call(*leaves, out=out, stream=stream)
