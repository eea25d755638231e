"""What an exported executable is linked from: the runtime's archive and the C library's files."""

load("//build_rules:sysroot.bzl", "ARCHITECTURES", "MUSL_FILES", "SYSROOT_FILES")
load("@musl_riscv64//:available.bzl", MUSL_AVAILABLE = "AVAILABLE")

_LLVM = "/usr/lib/llvm-19/bin/"

_FLAGS = [
    "-std=c++20",
    "-O2",
    "-fPIC",
    "-fno-exceptions",
    "-fno-rtti",
    "-ffunction-sections",
    "-fdata-sections",
    "-Wall",
    "-Wextra",
    "-I.",
]

def link_files(name, runtime_sources, runtime_headers, visibility):
    """Makes lib/ARCHITECTURE/{crt1.o, libc.a, libtc_runtime.a, ...} and a filegroup of them all.

    Of riscv64 also lib/riscv64/musl/{crt1.o, libc.a, ...}, where that C library was fetched."""
    outs = []
    for architecture, row in ARCHITECTURES.items():
        folder = "lib/" + architecture + "/"

        # One object per source, so that a program without a need for a part does not get it.
        native.genrule(
            name = "runtime_" + architecture,
            srcs = runtime_sources + runtime_headers,
            outs = [folder + "libtc_runtime.a"],
            cmd = """
set -e
shopt -s nullglob
work=$$(mktemp -d)
trap 'rm -rf "$$work"' EXIT
for source in {sources}; do
  {llvm}clang++ --target={triple} {flags} -c $$source -o $$work/$$(basename $$source .cc).o
done
{llvm}llvm-ar rcsD $@ $$work/*.o
""".format(
                flags = " ".join(_FLAGS),
                llvm = _LLVM,
                sources = " ".join(["$(location %s)" % source for source in runtime_sources]),
                triple = row.triple,
            ),
        )
        outs.append(":runtime_" + architecture)
        for file in SYSROOT_FILES:
            native.genrule(
                name = "sysroot_" + architecture + "_" + file,
                srcs = ["@sysroot//:" + architecture + "/" + file],
                outs = [folder + file],
                cmd = "cp $< $@",
            )
            outs.append(folder + file)
    for file in MUSL_FILES if MUSL_AVAILABLE else []:
        native.genrule(
            name = "musl_riscv64_" + file,
            srcs = ["@musl_riscv64//:" + file],
            outs = ["lib/riscv64/musl/" + file],
            cmd = "cp $< $@",
        )
        outs.append(":musl_riscv64_" + file)
    native.filegroup(
        name = name,
        srcs = outs,
        visibility = visibility,
    )
