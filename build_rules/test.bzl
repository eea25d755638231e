"""One GoogleTest target for one file."""

def tc_cc_test(name, size = "medium", data = [], deps = [], support = [":support"], **kwargs):
    native.cc_test(
        name = name,
        size = size,
        srcs = [name + ".cc"],
        data = data,
        deps = deps + support,
        linkopts = ["-lgtest", "-lgtest_main", "-lpthread"],
        **kwargs
    )
