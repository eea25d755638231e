"""The system's files that a static link needs, for each architecture of exported executables."""

_STARTUP = ["crtbeginT.o", "crtend.o", "libgcc.a", "libgcc_eh.a"]

# Architecture: target triple, folder of GCC's files, folder of the C library's.
ARCHITECTURES = {
    "x86_64": struct(
        triple = "x86_64-linux-gnu",
        gcc = "/usr/lib/gcc/x86_64-linux-gnu/12",
        libc = "/usr/lib/x86_64-linux-gnu",
        # Debian's libm.a is a script that names this file by its absolute path.
        libm = "libm-2.36.a",
        package = "libc6-dev and libgcc-12-dev",
    ),
    "riscv64": struct(
        triple = "riscv64-linux-gnu",
        gcc = "/usr/lib/gcc-cross/riscv64-linux-gnu/12",
        libc = "/usr/riscv64-linux-gnu/lib",
        libm = "libm.a",
        package = "libc6-dev-riscv64-cross and libgcc-12-dev-riscv64-cross",
    ),
    "aarch64": struct(
        triple = "aarch64-linux-gnu",
        gcc = "/usr/lib/gcc-cross/aarch64-linux-gnu/12",
        libc = "/usr/aarch64-linux-gnu/lib",
        libm = "libm.a",
        package = "libc6-dev-arm64-cross and libgcc-12-dev-arm64-cross",
    ),
}

# Names of the files of one architecture, in @sysroot as ARCHITECTURE/NAME.
SYSROOT_FILES = _STARTUP + ["crt1.o", "crti.o", "crtn.o", "libc.a", "libm.a"]

def _sysroot_repository(ctx):
    for name, row in ARCHITECTURES.items():
        for file in SYSROOT_FILES:
            folder = row.gcc if file in _STARTUP else row.libc
            path = ctx.path(folder + "/" + (row.libm if file == "libm.a" else file))
            if not path.exists:
                fail("%s is missing; install %s." % (path, row.package))
            ctx.symlink(path, name + "/" + file)
    ctx.file("BUILD", "exports_files(glob(['*/*']))\n")

sysroot_repository = repository_rule(implementation = _sysroot_repository, local = True)

def _riscv64_sysroot_repository(ctx):
    environment = ctx.os.environ
    folder = environment.get("TC_SYSROOT_RISCV64")
    if not folder:
        folder = environment.get("HOME", "") + "/.cache/tc/sysroot-riscv64"
    packages = ctx.path(folder + "/packages.txt")
    ctx.file("available.bzl", "AVAILABLE = %s\n" % packages.exists, executable = False)
    if not packages.exists:
        # Nothing for riscv64 with gRPC is built then (static_program.bzl).
        ctx.file("BUILD", "")
        return

    # What is in the folder is as its list of packages says; the list stands for it.
    ctx.file("path", folder + "\n", executable = False)

    # Headers alone, and so those of this machine.
    ctx.symlink("/usr/include/CLI", "headers/CLI")
    ctx.symlink(packages, "packages.txt")
    ctx.file("BUILD", """exports_files(["path", "packages.txt"])\n""")

# Headers and static libraries that build_rules/riscv64_sysroot.py laid out.
riscv64_sysroot_repository = repository_rule(
    implementation = _riscv64_sysroot_repository,
    environ = ["HOME", "TC_SYSROOT_RISCV64"],
    local = True,
)

# The smaller C library of riscv64, for exported executables: files below usr/lib/riscv64-linux-musl.
MUSL_FILES = ["crt1.o", "crti.o", "crtn.o", "libc.a", "libm.a"]

def _riscv64_musl_repository(ctx):
    environment = ctx.os.environ
    folder = environment.get("TC_MUSL_RISCV64")
    if not folder:
        folder = environment.get("HOME", "") + "/.cache/tc/musl-riscv64"
    exists = ctx.path(folder + "/packages.txt").exists
    ctx.file("available.bzl", "AVAILABLE = %s\n" % exists, executable = False)
    for file in MUSL_FILES if exists else []:
        ctx.symlink(ctx.path(folder + "/usr/lib/riscv64-linux-musl/" + file), file)
    ctx.file("BUILD", "exports_files(glob(['*.o', '*.a'], allow_empty = True))\n")

# musl, which build_rules/riscv64_sysroot.py laid out; AVAILABLE in its available.bzl is false where it did not.
riscv64_musl_repository = repository_rule(
    implementation = _riscv64_musl_repository,
    environ = ["HOME", "TC_MUSL_RISCV64"],
    local = True,
)

def _static_grpc_repository(ctx):
    folder = ctx.path("/usr/lib/x86_64-linux-gnu")
    if not folder.get_child("libgrpc++.a").exists:
        fail("%s/libgrpc++.a is missing; install libgrpc++-dev." % folder)
    names = ["grpc++", "grpc", "gpr", "upb", "address_sorting", "protobuf-lite", "cares", "re2"]
    names += ["ssl", "crypto", "z"]
    for file in folder.readdir():
        if file.basename.startswith("libabsl_") and file.basename.endswith(".a"):
            names.append(file.basename[len("lib"):-len(".a")])
    options = ["-Wl,--start-group"] + ["-l" + name for name in sorted(names)] + ["-Wl,--end-group"]
    ctx.file("BUILD", """
cc_library(
    name = "libraries",
    linkopts = %r,
    visibility = ["//visibility:public"],
)
""" % options)

# What a static program with gRPC is linked with on this machine.
static_grpc_repository = repository_rule(implementation = _static_grpc_repository, local = True)
