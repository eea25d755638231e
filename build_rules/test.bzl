"""GoogleTest targets."""

def tc_cc_test(name, size = "medium", srcs = None, data = [], deps = [], support = [":support"], **kwargs):
    """The target of one file, that of its name where `srcs` has none."""
    native.cc_test(
        name = name,
        size = size,
        srcs = srcs or [name + ".cc"],
        data = data,
        deps = deps + support,
        linkopts = ["-lgtest", "-lgtest_main", "-lpthread"],
        **kwargs
    )

def tc_cc_tests(files, long = [], data = []):
    """A target for each file of a folder of tests; `long` names those of more than a minute of one core."""
    for file in files:
        tc_cc_test(
            name = file[:-len(".cc")],
            size = "large" if file in long else "medium",
            data = ["//tests:golden", "//docs:pages"] + data,
            support = ["//tests:support"],
        )
