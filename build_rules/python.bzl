"""The headers of the Python that the extension modules are built for, on this machine and on riscv64."""

def _python_repository(ctx):
    python = ctx.os.environ.get("TC_PYTHON") or ctx.which("python3")
    if not python:
        fail("No python3 in PATH; install it or name one in TC_PYTHON.")
    query = "import sysconfig; print(sysconfig.get_paths()['include'])"
    result = ctx.execute([python, "-c", query])
    if result.return_code != 0:
        fail("%s does not run: %s" % (python, result.stderr))
    include = ctx.path(result.stdout.strip())
    if not include.get_child("Python.h").exists:
        fail("%s has no headers in %s; install python3-dev." % (python, include))
    ctx.symlink(include, "include")
    ctx.file("BUILD", """
cc_library(
    name = "headers",
    hdrs = glob(["include/**/*.h"]),
    includes = ["include"],
    visibility = ["//visibility:public"],
)
""")

python_repository = repository_rule(
    implementation = _python_repository,
    environ = ["TC_PYTHON"],
    local = True,
)

def _riscv64_python_repository(ctx):
    environment = ctx.os.environ
    folder = environment.get("TC_PYTHON_RISCV64")
    if not folder:
        folder = environment.get("HOME", "") + "/.cache/tc/python-riscv64"
    packages = ctx.path(folder + "/packages.txt")
    ctx.file("BUILD", """exports_files(["packages.txt"])\n""" if packages.exists else "")
    if not packages.exists:
        ctx.file("python.bzl", "INCLUDES = None\n", executable = False)
        return

    # What is in the folder is as its list of packages says; the list stands for it.
    ctx.symlink(packages, "packages.txt")
    include = ctx.path(folder + "/usr/include")
    versions = [entry for entry in include.readdir() if entry.basename.startswith("python3.")]
    if len(versions) != 1 or not include.get_child("pybind11").exists:
        fail("%s has no headers of one Python and of pybind11; build_rules/wheels.sh lays it out." % folder)
    ctx.file("python.bzl", "INCLUDES = %r\n" % [str(include), str(versions[0])], executable = False)

# The Python of riscv64 that build_rules/riscv64_sysroot.py laid out; INCLUDES in its python.bzl is None where it did not.
riscv64_python_repository = repository_rule(
    implementation = _riscv64_python_repository,
    environ = ["HOME", "TC_PYTHON_RISCV64"],
    local = True,
)
