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
