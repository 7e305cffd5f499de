#!/usr/bin/env python3
"""Checks the structure of the tree: who includes whom, sizes, READMEs, names and paths. Runs as a test.

Usage: check_tree.py [root]. Prints one line a finding and exits with 1 when there is one.
"""
import os
import re
import sys
from pathlib import Path

FILE_LINES = 600
FUNCTION_LINES = 100
README_LINES = 10

# Files that are tables: one row a line, no logic to split.
TABLE_FILES = {
    "src/graph/ops.cpp",
}
# Functions that are one `switch` or one `visit` over a closed list, as "file:function".
CLOSED_SWITCHES = set()

# Layer -> layers it may include. A folder may always include itself; `include` stands for include/loopwright.
ALLOWED = {
    "include": [],
    "src/support": ["include"],
    "src/shape": ["src/support", "include"],
    "src/artifact": ["src/shape", "src/support", "include"],
    "src/ir": ["src/shape", "src/support", "include"],
    "src/graph": ["src/ir", "src/shape", "src/support", "include"],
    "src/schedule": ["src/ir", "src/shape", "src/support", "include"],
    "src/lower": ["src/ir", "src/shape", "src/support", "include"],
    "src/codegen": ["src/ir", "src/artifact", "src/shape", "src/support", "include"],
    "src/codegen/*": ["src/codegen", "src/ir", "src/artifact", "src/shape", "src/support", "include"],
    "schedules": ["include"],
    "src/driver": ["src/graph", "src/schedule", "schedules", "src/lower", "src/codegen", "src/codegen/*", "src/ir",
                   "src/artifact", "src/shape", "src/support", "db", "src/runtime", "include"],
    "db": ["src/artifact", "src/shape", "src/support", "include"],
    "src/runtime": ["db/query.h", "src/artifact", "src/shape", "src/support", "include"],
    "tuner": ["src/driver", "db", "src/runtime", "src/graph", "src/schedule", "schedules", "src/lower", "src/codegen",
              "src/codegen/*", "src/ir", "src/artifact", "src/shape", "src/support", "include"],
    # `suggestion` of a near name; files that a user names.
    "src/cli": ["src/driver", "tuner", "db", "src/runtime", "src/graph/ops.h", "src/support/digest.h", "src/support/read_file.h", "include"],
    # As the program does, the package shows what databases hold.
    "python": ["include", "db/canonical.h", "db/doctor.h", "db/exchange.h", "db/query.h"],
    # A GPU's memory, graphs and bare launches are no part of the public interface.
    "bench": ["include", "src/runtime/cuda_device.h", "src/runtime/cuda_artifact.h", "src/runtime/cuda_graphs.h", "src/runtime/plan.h", "src/cli/rehearsal.h",
              "src/codegen/cuda/nvrtc.h", "bench/support", "tuner/replay_clock.h", "tuner/values.h", "src/driver/planner.h",
              # candidates of one template without a database
              "src/driver/build.h", "src/graph/group.h", "db/query.h", "src/runtime/device.h", "src/runtime/cuda_driver.h", "src/support/shared_library.h"],
    "examples": ["include"],
}
CODE_ROOTS = ("include", "src", "schedules", "tuner", "db", "python", "bench", "examples", "tests")
CODE_SUFFIXES = {".h", ".cpp", ".c", ".inc"}
SIZED_SUFFIXES = CODE_SUFFIXES | {".py", ".cmake"}
SKIPPED_FOLDERS = {".git", "build", ".ccache", ".cache", "__pycache__"}
BAD_NAMES = ("utils", "util", "common", "impl", "manager", "helper", "helpers")
BAD_TYPE = re.compile(r"\b(?:class|struct)\s+(\w*(?:Impl|Manager|Helper|Utils|Common))\b")
# Written in pieces so that this file passes its own check.
MACHINE_PATH = re.compile("/" + r"(?:home|root|work|Users)" + r"/\w")


def list_files(root):
    """Every file that belongs to the tree, as paths relative to the root, in order."""
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in SKIPPED_FOLDERS)
        found += [Path(folder, name).relative_to(root).as_posix() for name in names if name not in SKIPPED_FOLDERS]
    return sorted(found)


def layer_of(path):
    """The layer a file is in (a key of ALLOWED), or None for files that may include anything."""
    parts = path.split("/")
    if parts[:2] == ["src", "codegen"] and len(parts) > 3:
        return "src/codegen/*"
    if parts[0] == "src" and len(parts) > 2:
        return "/".join(parts[:2])
    return parts[0] if parts[0] in ALLOWED else None


def find_includes(text):
    """(line number, path) of every include written with quotes."""
    return [(text.count("\n", 0, m.start()) + 1, m.group(1))
            for m in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', text, re.M)]


def check_includes(path, text):
    layer = layer_of(path)
    if layer is None:
        return
    if layer not in ALLOWED:
        yield f"{path}: no include rule for this folder; add it to ALLOWED in scripts/check_tree.py"
        return
    for line, target in find_includes(text):
        if target.startswith("generated/"):
            continue
        full = "include/" + target if target.startswith("loopwright/") else target
        if "/" not in target or full.split("/")[0] not in CODE_ROOTS:
            yield f"{path}:{line}: \"{target}\" is not written from the root of the tree (like \"src/ir/nodes.h\")"
            continue
        theirs = layer_of(full)
        same_backend = layer != "src/codegen/*" or path.split("/")[2] == full.split("/")[2]
        if theirs == layer and same_backend:
            continue
        if layer == "src/codegen/*" and theirs == layer:
            yield f"{path}:{line}: a backend may not include another: \"{target}\""
        elif theirs not in ALLOWED[layer] and full not in ALLOWED[layer]:
            yield f"{path}:{line}: {layer} may not include \"{target}\"; allowed: {', '.join(ALLOWED[layer]) or 'nothing'}"


def strip_text(text):
    """The code without comments, literals and preprocessor lines; line breaks stay where they are."""
    token = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^(\s]*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])*\''
        r"|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.S | re.M)
    return token.sub(lambda m: "\n" * m.group(0).count("\n") + " ", text)


def find_functions(text):
    """(name, first line, lines) of each function body at namespace or class scope; a heuristic on braces."""
    code = strip_text(text)
    scopes = []  # (is_function, name, first line)
    head = 0  # where the text before the next brace begins
    line = 1
    for position, c in enumerate(code):
        if c == "\n":
            line += 1
        elif c == "{":
            before = code[head:position]
            inside = any(s[0] == "function" for s in scopes)
            kind, name = classify(before) if not inside else ("block", "")
            first = line - before.lstrip().count("\n")
            scopes.append((kind, name, first))
            head = position + 1
        elif c == "}" and scopes:
            kind, name, first = scopes.pop()
            if kind == "function":
                yield name, first, line - first + 1
            head = position + 1
        elif c == ";":
            head = position + 1


def classify(before):
    """What a brace opens, from the text between it and the previous brace or semicolon."""
    if re.search(r"\bnamespace\b|\bextern\b\s*$", before):
        return "scope", ""
    signature = re.search(r"(~?\w+|operator\s*\S+?)\s*\(", before)
    if re.search(r"\b(class|struct|union|enum)\b", before) and not re.search(r"\)\s*(const|noexcept|override|\s)*$", before):
        return "scope", ""
    if signature and "=" not in before.split("(")[0].replace("operator=", "").replace("==", ""):
        return "function", signature.group(1)
    return "block", ""


def check_sizes(path, text):
    lines = text.count("\n")
    if lines > FILE_LINES and path not in TABLE_FILES:
        yield f"{path}: {lines} lines, the limit is {FILE_LINES}"
    if Path(path).suffix not in {".h", ".cpp"}:
        return
    for name, first, length in find_functions(text):
        if length > FUNCTION_LINES and f"{path}:{name}" not in CLOSED_SWITCHES:
            yield f"{path}:{first}: {name} has {length} lines, the limit is {FUNCTION_LINES}"


def check_names(path, text):
    for part in path.split("/"):
        if any(word in BAD_NAMES for word in re.split(r"[_.\-]", part.lower())):
            yield f"{path}: \"{part}\" says nothing about what is in it"
    for match in BAD_TYPE.finditer(strip_text(text)):
        yield f"{path}:{text.count(chr(10), 0, match.start()) + 1}: \"{match.group(1)}\" is a name for anything; say what it is"


def needs_readme(folder):
    """Folders of sources; in tests only the kinds (tests/unit, tests/db), not what is below them."""
    parts = folder.split("/")
    if parts[0] == "tests":
        return len(parts) == 2
    return parts[0] in CODE_ROOTS


def check_readmes(root, files):
    folders = {os.path.dirname(f) for f in files if Path(f).suffix in CODE_SUFFIXES | {".py", ".lw"}}
    for folder in sorted(f for f in folders if needs_readme(f)):
        readme = f"{folder}/README.md"
        if readme not in files:
            yield f"{folder}: no README.md"
    for readme in (f for f in files if f.endswith("/README.md") and f.split("/")[0] in CODE_ROOTS):
        lines = (root / readme).read_text().count("\n")
        if lines > README_LINES:
            yield f"{readme}: {lines} lines, the limit is {README_LINES}"


def check_paths(path, text):
    for match in MACHINE_PATH.finditer(text):
        before = text[: match.start()]
        if before and (before[-1].isalnum() or before[-1] in "._-}$)<"):
            continue  # the middle of a longer path or of an address
        yield f"{path}:{before.count(chr(10)) + 1}: a path of one machine: {text[match.start():match.start() + 24]!r}"


def check_tree(root):
    root = Path(root)
    files = list_files(root)
    findings = list(check_readmes(root, set(files)))
    for path in files:
        try:
            text = (root / path).read_text()
        except UnicodeDecodeError:
            continue  # databases and corpora
        in_code = path.split("/")[0] in CODE_ROOTS
        suffix = Path(path).suffix
        if in_code and suffix in CODE_SUFFIXES:
            findings += check_includes(path, text)
            findings += check_names(path, text)
        if suffix in SIZED_SUFFIXES and not path.startswith("tests/golden/"):
            findings += check_sizes(path, text)
        findings += check_paths(path, text)
    return findings


def main(arguments):
    root = arguments[0] if arguments else Path(__file__).resolve().parent.parent
    findings = check_tree(root)
    for finding in findings:
        print(finding)
    print(f"check_tree: {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
