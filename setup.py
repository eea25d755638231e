"""`pip install .`: Bazel builds the package, setuptools packs what it built."""

import os
import subprocess
import sys

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py


class BazelBuild(build_py):
    """Lays out the Python files, the extension module and the link files in the build folder."""

    def run(self):
        script = os.path.join("build_rules", "stage.sh")
        environment = dict(os.environ, TC_PYTHON=os.environ.get("TC_PYTHON", sys.executable))
        subprocess.run([script, os.path.abspath(self.build_lib)], check=True, env=environment)


class NativeDistribution(Distribution):
    """A distribution with native code: its wheel is for one platform and one Python."""

    def has_ext_modules(self):
        return True


setup(cmdclass={"build_py": BazelBuild}, distclass=NativeDistribution)
