"""An extension module of Python for riscv64, built with the cross packages that exported executables need, too."""

load("@python_riscv64//:python.bzl", "INCLUDES")

def riscv64_extension(name, srcs, hdrs):
    """Makes riscv64/NAME of C++ sources. Nothing is declared where the Python of riscv64 was not laid out."""
    if not INCLUDES:
        return
    native.genrule(
        name = "riscv64_" + name,
        srcs = srcs + hdrs + ["@python_riscv64//:packages.txt"],
        outs = ["riscv64/" + name],
        cmd = """
/usr/lib/llvm-19/bin/clang++ --target=riscv64-linux-gnu -std=c++20 -O2 -fPIC -fvisibility=hidden -I. {includes} \\
  -shared -fuse-ld=/usr/lib/llvm-19/bin/ld.lld -s -Wl,--no-undefined-version {sources} -o $@
""".format(
            includes = " ".join(["-isystem " + folder for folder in INCLUDES]),
            sources = " ".join(["$(locations %s)" % source for source in srcs]),
        ),
    )
