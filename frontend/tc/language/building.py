"""The process that compiles a language model for built.py: a request as JSON in, what failed as
JSON out. Progress and warnings go to the standard error output."""

import json
import sys


def main():
    request = json.load(sys.stdin)
    from ..errors import Error

    failed = None
    try:
        from ..gguf import language_of

        language = language_of(request["model"], **request["options"])
        language.prefill.export(request["artefact"])
    except Error as error:
        failed = {"kind": type(error).__name__, "text": str(error)}
    except KeyboardInterrupt:
        sys.exit(130)
    json.dump({"error": failed}, sys.stdout)


if __name__ == "__main__":
    main()
