"""Fully static programs with gRPC: for this machine, and cross-built for riscv64.

Where the riscv64 packages could not be fetched (@sysroot_riscv64 has none), nothing is declared for
riscv64, and riscv64_data() leaves out what needs it: tests then skip those cases by name.
"""

load("@sysroot_riscv64//:available.bzl", "AVAILABLE")

_COMPILE = """
sysroot=$$(cat $(location @sysroot_riscv64//:path))
headers=$$(dirname $(location @sysroot_riscv64//:path))/headers
compile() {
  /usr/lib/llvm-19/bin/clang++ --target=riscv64-linux-gnu --sysroot=$$sysroot -isystem $$headers \
    --gcc-install-dir=$$sysroot/usr/lib/gcc/riscv64-linux-gnu/14 "$$@"
}
"""

_LIBRARIES = [
    "grpc++",
    "grpc",
    "gpr",
    "upb",
    "address_sorting",
    "protobuf-lite",
    "cares",
    "re2",
    "ssl",
    "crypto",
    "z",
    "zstd",
]

def static_program(name, deps, srcs = [], **kwargs):
    """A program for this machine that needs no file of it. (The sanitizers need a dynamic one.)"""
    native.cc_binary(
        name = name,
        srcs = srcs,
        deps = deps + select({
            "//build_rules:sanitize": [],
            "//conditions:default": ["@static_grpc//:libraries"],
        }),
        linkopts = select({
            "//build_rules:sanitize": [],
            "//conditions:default": [
                "-static",
                "-s",
                # GNU's linkers warn of each use of getaddrinfo, which needs no other file for hosts
                # and DNS.
                "-B/usr/lib/llvm-19/bin",
                "-fuse-ld=lld",
                "-Wl,--gc-sections",
            ],
        }),
        **kwargs
    )

def riscv64_data(labels):
    """The labels of riscv64 programs with gRPC, or none where they can't be built."""
    return labels if AVAILABLE else []

def riscv64_library(name, srcs, hdrs, deps = [], visibility = None):
    """Objects for riscv64, and the headers; srcs is a list of files, deps are riscv64 libraries."""
    if not AVAILABLE:
        return
    objects = []
    headers = [dep + "_headers" for dep in deps]
    native.filegroup(name = name + "_headers", srcs = hdrs + headers, visibility = visibility)
    for source in srcs:
        native.genrule(
            name = name + "_" + source.replace("/", "_") + "_object",
            srcs = [source, name + "_headers", "@sysroot_riscv64//:path"],
            outs = ["riscv64_objects/" + source.replace(".cc", ".o")],
            cmd = _COMPILE + "compile -std=c++20 -O2 -ffunction-sections -fdata-sections " +
                  "-DGRPC_USE_PROTO_LITE -I. -I$(GENDIR) -c $(location " + source + ") -o $@",
        )
        objects.append("riscv64_objects/" + source.replace(".cc", ".o"))
    native.filegroup(name = name, srcs = objects + deps, visibility = visibility)

def riscv64_program(name, library, visibility = None):
    """A fully static executable for riscv64, in riscv64/NAME, of a riscv64 library."""
    if not AVAILABLE:
        return
    native.genrule(
        name = name + "_riscv64",
        srcs = [library, "@sysroot_riscv64//:path"],
        outs = ["riscv64/" + name],
        # GCC's tables of exceptions name dropped copies of inline functions, which no one looks
        # up. lld takes that for an error (GNU ld does not): it is told to go on, and anything
        # else that it says is one.
        cmd = _COMPILE + """
libraries=$$sysroot/usr/lib/riscv64-linux-gnu
log=$$(mktemp)
trap 'rm -f $$log' EXIT
if ! compile -static -fuse-ld=/usr/lib/llvm-19/bin/ld.lld -s -Wl,--gc-sections \
    -Wl,--noinhibit-exec -Wl,--error-limit=0 $(locations %s) -Wl,--start-group %s \
    $$libraries/libabsl_*.a -Wl,--end-group -latomic -o $@ 2>$$log ||
  grep 'ld.lld: ' $$log | grep -v 'relocation refers to a symbol in a discarded section: ' >&2 ||
  grep '>>> referenced by' $$log | grep -v ':(.gcc_except_table+' >&2
then
  head -n 50 $$log >&2
  rm -f $@
  exit 1
fi
""" % (library, " ".join(["$$libraries/lib%s.a" % library for library in _LIBRARIES])),
        executable = True,
        visibility = visibility,
    )
