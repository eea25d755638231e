#!/bin/bash
# Runs the Python tests, each file in a process of its own: what one leaves in memory must not decide
# what another finds. Two files run side by side where the machine has two processors; those that
# measure times or have their own processes killed in time (of tests/tuner and tests/bench, all but those
# named below) run alone, after them. What a file prints is shown when it has ended.
#
#   build_rules/python_tests.sh PYTHON RESULTS [OPTION OF PYTEST]...
#
# RESULTS/NAME.xml is the JUnit file of each; the exit code is 0 where all passed.
set -u
shopt -s nullglob
export PYTHON=$1 RESULTS=$2
shift 2
export OPTIONS="$*"

run_file() {
  local name output status=0
  name=$(tr / _ <<<"${1%.py}")
  output=$RESULTS/$name.txt
  # shellcheck disable=SC2086
  "$PYTHON" -m pytest -q $OPTIONS --junitxml="$RESULTS/$name.xml" "$1" >"$output" 2>&1 </dev/null || status=$?
  # One write, so that two files' texts do not mix.
  printf '%s\n' "$1: $(cat "$output")"
  [[ $status == 0 || $status == 5 ]]   # 5: a file without tests
}
export -f run_file

alone=() beside=()
for file in tests/*/test_*.py tests/test_*.py; do
  case $file in
    tests/bench/test_riscv_*.py | tests/bench/test_cores.py | tests/bench/test_builds.py) beside+=("$file") ;;
    tests/bench/test_language.py | tests/bench/test_peers.py) beside+=("$file") ;;
    tests/tuner/test_certs.py | tests/tuner/test_fleet.py | tests/tuner/test_log_mutants.py) beside+=("$file") ;;
    tests/tuner/test_tune_report.py | tests/tuner/test_tune_logs.py | tests/tuner/test_tune_quantised.py) beside+=("$file") ;;
    tests/tuner/test_units.py | tests/tuner/test_waiting.py) beside+=("$file") ;;
    tests/tuner/* | tests/bench/*) alone+=("$file") ;;
    *) beside+=("$file") ;;
  esac
done
status=0
printf '%s\n' "${beside[@]}" | xargs -P "$(($(nproc) < 2 ? 1 : 2))" -I{} bash -c 'run_file "$1"' run {} || status=1
for file in "${alone[@]}"; do
  run_file "$file" || status=1
done
exit $status
