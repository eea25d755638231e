#!/bin/bash
# Makes the wheels of tc in FOLDER (default: dist), installing what that needs:
#   tc-compiler          the compiler and all that it stands on, for this machine
#   tc-compiler-runtime  what loads and runs compiled models, for this machine and for riscv64
#   build_rules/wheels.sh [FOLDER]
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
prepare "$ROOT/build_rules/requirements-wheels.txt"
lay_out_riscv64_python
exec "$VENV/bin/python" "$ROOT/build_rules/wheels.py" "$@"
