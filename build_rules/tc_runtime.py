"""`import tc` where the distribution tc-compiler-runtime is installed: its files are those of
tc_runtime/ beside this one.

Where tc-compiler is installed, too, `import tc` gives that one: Python takes a folder tc/ before
this file.
"""

import importlib.util
import os
import runpy
import sys

_folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tc_runtime")
_spec = importlib.util.spec_from_file_location("tc", os.path.join(_folder, "__init__.py"))
sys.modules["tc"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sys.modules["tc"])

if __name__ == "__main__":  # python -m tc
    runpy.run_module("tc", run_name="__main__", alter_sys=True)
