"""Tests of scripts/check_tree.py: each rule on a small made-up tree."""
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import check_tree  # noqa: E402


def findings_of(files, readmes=True):
    """What check_tree says about a tree of the given files (path -> text)."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            target = Path(root, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
            if readmes and "/" in path and not Path(target.parent, "README.md").exists():
                Path(target.parent, "README.md").write_text("One line.\n")
        return check_tree.check_tree(root)


class Includes(unittest.TestCase):
    def assert_clean(self, path, include):
        self.assertEqual(findings_of({path: f'#include "{include}"\n'}), [])

    def assert_refused(self, path, include):
        found = findings_of({path: f'#include "{include}"\n'})
        self.assertEqual(len(found), 1, found)
        self.assertIn(include, found[0])

    def test_downward_is_allowed(self):
        self.assert_clean("src/ir/print.cpp", "src/support/text.h")
        self.assert_clean("src/codegen/llvm/emit.cpp", "src/codegen/backend.h")
        self.assert_clean("src/schedule/steps/split.cpp", "src/schedule/schedule.h")
        self.assert_clean("src/runtime/lookup.cpp", "db/query.h")
        self.assert_clean("schedules/matmul.cpp", "loopwright/schedule.h")
        self.assert_clean("db/schema.cpp", "generated/db/schema.sql.inc")
        self.assert_clean("tests/unit/ir/print.cpp", "tuner/measure.h")

    def test_upward_and_sideways_are_refused(self):
        self.assert_refused("src/support/text.cpp", "src/ir/nodes.h")
        self.assert_refused("src/graph/graph.cpp", "src/schedule/trace.h")
        self.assert_refused("src/runtime/plan.cpp", "db/record.h")
        self.assert_refused("src/runtime/plan.cpp", "src/ir/kernel.h")
        self.assert_refused("schedules/matmul.cpp", "src/ir/kernel.h")
        self.assert_refused("include/loopwright/graph.h", "src/ir/kernel.h")
        self.assert_refused("src/codegen/llvm/emit.cpp", "src/codegen/cuda/emit.h")
        self.assert_refused("bench/matmul.cpp", "tuner/measure.h")

    def test_includes_are_written_from_the_root(self):
        self.assert_refused("src/ir/print.cpp", "print.h")
        self.assert_refused("src/ir/print.cpp", "../ir/print.h")


class Sizes(unittest.TestCase):
    def test_long_file(self):
        self.assertEqual(findings_of({"src/ir/a.cpp": "//\n" * 600}), [])
        self.assertIn("601 lines", findings_of({"src/ir/a.cpp": "//\n" * 601})[0])

    def test_long_function(self):
        body = "  run();\n" * 99
        self.assertIn("grow has 101 lines", findings_of({"src/ir/a.cpp": f"namespace a {{\nint grow(int x) {{\n{body}}}\n}}\n"})[0])
        self.assertEqual(findings_of({"src/ir/a.cpp": f"namespace a {{\nint grow(int x) {{\n{body[:-9]}}}\n}}\n"}), [])

    def test_braces_in_literals_do_not_count(self):
        text = "void f() {\n  g(\"{\", '{', R\"x({)x\"); // {\n}\n" + "int h() { return 1; }\n" * 120
        self.assertEqual(findings_of({"src/ir/a.cpp": text}), [])

    def test_a_long_class_is_no_function(self):
        text = "struct A {\n" + "  int f() const { return 1; }\n" * 200 + "};\n"
        self.assertEqual(findings_of({"src/ir/a.h": text}), [])

    def test_a_long_table_is_no_function(self):
        text = "const Row kRows[] = {\n" + '  {"a", f(1)},\n' * 200 + "};\n"
        self.assertEqual(findings_of({"src/ir/a.cpp": text}), [])


class Names(unittest.TestCase):
    def test_empty_words(self):
        self.assertEqual(len(findings_of({"src/ir/ir_utils.cpp": ""})), 1)
        self.assertEqual(len(findings_of({"src/ir/a.h": "class LoopManager;\n"})), 1)
        self.assertEqual(findings_of({"src/ir/simplify.h": "struct Simplified;\n"}), [])

    def test_machine_paths(self):
        for folder in ("home", "root", "work"):
            self.assertEqual(len(findings_of({"docs/a.md": "see /" + folder + "/someone/x\n"})), 1)
        self.assertEqual(findings_of({"docs/a.md": "see build/" + "work/x and /tmp/x\n"}), [])


class Readmes(unittest.TestCase):
    def test_missing(self):
        self.assertEqual(findings_of({"src/ir/a.cpp": ""}, readmes=False), ["src/ir: no README.md"])
        self.assertEqual(findings_of({"tests/db/a.cpp": ""}, readmes=False), ["tests/db: no README.md"])
        self.assertEqual(findings_of({"tests/unit/ir/a.cpp": ""}, readmes=False), [])

    def test_long(self):
        self.assertIn("limit is 10", findings_of({"src/ir/a.cpp": "", "src/ir/README.md": "x\n" * 11})[0])


if __name__ == "__main__":
    unittest.main()
