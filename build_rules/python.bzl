"""The headers of the Python that the extension module is built for."""

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
