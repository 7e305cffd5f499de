"""Tuned kernels for tensor graphs. `load` makes a callable of a graph, `compile` of a PyTorch function or module, `tune` fills a
`Database`. See docs/python.md."""
from ._core import Graph, __version__
from ._errors import ArgumentError, DatabaseError, Error, GraphError, NotFound, Unsupported
from .compiling import compile, coverage
from .database import Database
from .loading import load
from .report import explain
from .tuning import tune

__all__ = ["ArgumentError", "Database", "DatabaseError", "Error", "Graph", "GraphError", "NotFound", "Unsupported",
           "__version__", "compile", "coverage", "explain", "load", "tune"]
