"""Options of the command line that say how a model's file is read."""


def add_file_options(added):
    """Gives a command's parser the options; returns the parser."""
    added.add_argument("--open-initializer", action="append", default=[], metavar="NAME",
                       help="have the model take an input that has an initializer too, which is a constant otherwise")
    added.add_argument("--data-folder", action="append", default=[], metavar="FOLDER",
                       help="a further folder into which symbolic links to external data may lead")
    return added


def file_options(arguments):
    """The options as tc.compile and tc.check take them."""
    return {"open_initializers": arguments.open_initializer, "data_folders": arguments.data_folder}
